"""What is generated is current: the CRD and the reference pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kraftquorum_operator.model.crd import crd, render
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.reference import pages
from kraftquorum_operator.resources.node_config import node_config

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


def test_a_choice_may_be_written_without_quotes() -> None:
    """YAML 1.1, which kubectl reads, takes an unquoted `Off` for false, and 1.3 for a number."""

    def choices(node: object) -> Iterator[list[object]]:
        if isinstance(node, dict):
            if "enum" in node:
                yield node["enum"]
            for value in node.values():
                yield from choices(value)

    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    chosen = list(choices(schema))
    assert ["1.2", "1.3", 1.2, 1.3] in chosen
    for words in chosen:
        for word in words:
            if isinstance(word, str):
                read = yaml.safe_load(word)
                assert read in words
                assert not isinstance(read, bool)
                assert word.lower() not in {"y", "n"}


@pytest.mark.without(
    "kraftquorum_operator.model.config:_is_number", "_number(word) == value", "False"
)
def test_a_number_that_yaml_read_reaches_the_node_as_its_word() -> None:
    for version in ("1.2", 1.2):
        wanted = QuorumSpec.model_validate({"config": {"tls_min_version": version}})
        config = node_config(wanted, None)
        assert not config.faults
        assert ("RAFTNODE_TLS_MIN_VERSION", "1.2") in config.environment
    numbers = {"segment_bytes": 16_777_216, "log_preallocate": True, "fetch_timeout_ms": 2000}
    assert QuorumSpec.model_validate({"config": numbers}).config == numbers


def test_every_guard_says_what_it_asks() -> None:
    for name, guard in GUARDS.items():
        assert guard.name == name
        assert guard.doc


def test_the_example_is_a_valid_resource() -> None:
    body = yaml.safe_load((ROOT / "examples" / "quorum.yaml").read_text())
    assert QuorumSpec.model_validate(body["spec"]).voters == 3
