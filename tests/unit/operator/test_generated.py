"""What is generated is current: the CRD and the reference pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kraftquorum_operator.cli import app
from kraftquorum_operator.model.crd import KINDS, Kind, crd, render
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.reference import pages

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_crd_is_current(kind: Kind) -> None:
    assert (ROOT / "crds" / f"{kind.plural}.yaml").read_text() == render(kind), "run `make crds`"


def test_the_crd_of_kafka_quorums_is_printed_when_asked_for() -> None:
    assert CliRunner().invoke(app, ["crds", "print"]).output == render()
    both = CliRunner().invoke(app, ["crds", "print", "--kafka-advice"]).output
    assert list(yaml.safe_load_all(both)) == [crd(kind) for kind in KINDS.values()]


@pytest.mark.parametrize("name", pages())
def test_reference_pages_are_current(name: str) -> None:
    found = (ROOT / "docs" / "reference" / name).read_text()
    assert found == pages()[name], "run `python -m kraftquorum_operator.reference docs/reference`"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_schema_is_structural(kind: Kind) -> None:
    def walk(node: object, path: str) -> None:
        if isinstance(node, dict):
            if path.endswith(("properties", "default")):
                pass
            else:
                assert not {"$ref", "anyOf", "title"} & set(node), path
                assert not isinstance(node.get("additionalProperties"), bool), path
            for key, value in node.items():
                walk(value, f"{path}.{key}")

    schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    walk(schema["spec"], "spec")
    walk(schema["status"], "status")


NUMBERS = {"1.2", "1.3"}
"""Of `config.tls_min_version`, which has the node's values; they need quotes."""


def test_no_value_of_a_choice_is_a_boolean_to_yaml() -> None:
    """YAML 1.1, which kubectl reads, takes an unquoted `Off` for false."""

    def choices(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            yield from node.get("enum", ())
            for value in node.values():
                yield from choices(value)

    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    values = set(choices(schema)) - NUMBERS
    assert "Disabled" in values
    for value in values:
        assert yaml.safe_load(value) == value
        assert value.lower() not in {"y", "n"}


def test_every_guard_says_what_it_asks() -> None:
    for name, guard in GUARDS.items():
        assert guard.name == name
        assert guard.doc


def test_the_example_is_a_valid_resource() -> None:
    body = yaml.safe_load((ROOT / "examples" / "quorum.yaml").read_text())
    assert QuorumSpec.model_validate(body["spec"]).voters == 3
