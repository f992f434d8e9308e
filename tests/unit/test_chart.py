"""The chart's files agree with each other and with the rest; nothing here needs Helm."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import generate_chart_readme as readme
from kraftquorum_operator import names
from kraftquorum_operator.model.crd import KAFKA_QUORUM, render
from kraftquorum_operator.model.installation import NODE_USER_ID

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "kraftquorum"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
META = yaml.safe_load((CHART / "Chart.yaml").read_text())


TEXT = (CHART / "values.yaml").read_text()


def test_the_readme_is_current() -> None:
    assert (CHART / "README.md").read_text() == readme.render(TEXT), "run `make manifests`"


def undescribed(values: dict[str, Any], described: set[str], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        where = f"{path}{key}"
        if where in described:
            continue
        if isinstance(value, dict) and value:
            yield from undescribed(value, described, f"{where}.")
        else:
            yield where


def test_every_value_is_described() -> None:
    found = [value.path for value in readme.values(TEXT)]
    assert len(found) == len(set(found)) > 40
    assert list(undescribed(VALUES, set(found))) == []


def test_a_value_without_a_description_would_be_noticed() -> None:
    found = {value.path for value in readme.values("a:\n  # -- Words.\n  b: 1\n  c: 2\n")}
    assert found == {"a.b"}
    assert list(undescribed({"a": {"b": 1, "c": 2}}, found)) == ["a.c"]


def paths(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, one in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from paths(one, f"{path}{name}.")


def test_the_schema_knows_every_value_and_no_other() -> None:
    known = set(paths(SCHEMA))

    def walk(values: dict[str, Any], path: str = "") -> Iterator[str]:
        for key, value in values.items():
            yield f"{path}{key}"
            if isinstance(value, dict) and any(one.startswith(f"{path}{key}.") for one in known):
                yield from walk(value, f"{path}{key}.")

    have = set(walk(VALUES))
    assert have <= known
    # `global` is every chart's; claims are the rest of what `resources` may be.
    assert known - have == {"global", "resources.claims"}


def test_the_schema_is_strict_wherever_it_names_properties() -> None:
    def walk(schema: dict[str, Any], path: str) -> Iterator[str]:
        if "properties" in schema and path != "extraEnv[]":
            if schema.get("additionalProperties") is not False:
                yield path
            for name, one in schema["properties"].items():
                yield from walk(one, f"{path}.{name}".removeprefix("."))
        if isinstance(schema.get("items"), dict):
            yield from walk(schema["items"], f"{path}[]")

    assert list(walk(SCHEMA, "")) == []


def test_versions_are_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    assert META["version"] == META["appVersion"] == version
    assert f"{VALUES['nodeImage']['repository']}:{version}" == names.NODE_IMAGE


def test_the_crds_of_the_chart_are_the_operator_s() -> None:
    files = {file.name: file.read_text() for file in (CHART / "files" / "crds").iterdir()}
    expected = {"kraftquorums.yaml": render(), "kafkaquorums.yaml": render(KAFKA_QUORUM)}
    assert files == expected, "run `make crds`"


def test_the_user_is_the_image_s() -> None:
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    context = VALUES["podSecurityContext"]
    assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user.groups()
    assert user.groups() == (str(NODE_USER_ID), str(NODE_USER_ID))


def test_the_kustomize_base_names_every_file_that_it_has() -> None:
    base = ROOT / "deploy" / "kustomize" / "base"
    listed = yaml.safe_load((base / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in base.iterdir()} == {*listed, "kustomization.yaml"}


def test_the_crd_of_the_base_is_the_operator_s() -> None:
    text = (ROOT / "deploy" / "kustomize" / "base" / "kraftquorums.yaml").read_text()
    assert text == render(), "run `make crds`"
