"""What is generated is current: the CRD and the reference pages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kraftquorum_operator.model.crd import crd, render
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.reference import pages

ROOT = Path(__file__).parents[3]


def test_the_crd_is_current() -> None:
    assert (ROOT / "crds" / "kraftquorums.yaml").read_text() == render(), "run `make crds`"


@pytest.mark.parametrize("name", pages())
def test_reference_pages_are_current(name: str) -> None:
    found = (ROOT / "docs" / "reference" / name).read_text()
    assert found == pages()[name], "run `python -m kraftquorum_operator.reference docs/reference`"


def test_the_schema_is_structural() -> None:
    def walk(node: object, path: str) -> None:
        if isinstance(node, dict):
            if path.endswith(("properties", "default")):
                pass
            else:
                assert not {"$ref", "anyOf", "title"} & set(node), path
                assert not isinstance(node.get("additionalProperties"), bool), path
            for key, value in node.items():
                walk(value, f"{path}.{key}")

    walk(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec")


def test_every_guard_says_what_it_asks() -> None:
    for name, guard in GUARDS.items():
        assert guard.name == name
        assert guard.doc


def test_the_example_is_a_valid_resource() -> None:
    body = yaml.safe_load((ROOT / "examples" / "quorum.yaml").read_text())
    assert QuorumSpec.model_validate(body["spec"]).voters == 3
