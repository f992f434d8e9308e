"""Schemas for kubeconform: strict where the API server is, open where it is."""

from __future__ import annotations

from typing import Any

import pytest

from kraftquorum_devcluster.errors import DownloadError
from kraftquorum_devcluster.progress import make_progress
from kraftquorum_devcluster.schemas import _monitoring_crds, crd_schemas, strict_schemas

POD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
        "properties": {"type": "array", "items": {"$ref": "#/components/schemas/Meta"}},
        "port": {"x-kubernetes-int-or-string": True},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
}
META: dict[str, Any] = {
    "type": "object",
    "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}},
}
OPTIONS: dict[str, Any] = {
    "properties": {"metadata": {}},
    "x-kubernetes-group-version-kind": [
        {"group": group, "kind": "DeleteOptions", "version": "v1"} for group in ("", "apps")
    ],
}


def document(**schemas: dict[str, Any]) -> dict[str, Any]:
    return {"components": {"schemas": schemas}}


def test_kinds_are_closed_and_refer_to_definitions_in_the_same_file() -> None:
    made = strict_schemas(document(Pod=POD, Meta=META, Options=OPTIONS))
    assert set(made) == {"v1/pod_v1.json"}
    pod = made["v1/pod_v1.json"]
    assert pod["additionalProperties"] is False
    assert pod["properties"]["metadata"]["allOf"] == [{"$ref": "#/definitions/Meta"}]
    assert pod["properties"]["properties"]["items"] == {"$ref": "#/definitions/Meta"}
    assert pod["properties"]["port"] == {"type": ["integer", "string"]}
    assert pod["definitions"]["Meta"]["additionalProperties"] is False
    labels = pod["definitions"]["Meta"]["properties"]["labels"]
    assert labels["additionalProperties"] == {"type": "string"}


def test_what_the_api_server_leaves_open_stays_open() -> None:
    for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        spec = {"type": "object", "properties": {"raw": {"properties": {"a": {}}, key: True}}}
        crd = {
            "spec": {
                "group": "example.com",
                "names": {"kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}
                        },
                    }
                ],
            }
        }
        made = crd_schemas(crd)["example.com/thing_v1.json"]
        assert made["properties"]["kind"] == {"const": "Thing"}
        assert made["properties"]["apiVersion"] == {"const": "example.com/v1"}
        assert made["additionalProperties"] is False
        assert "additionalProperties" not in made["properties"]["spec"]["properties"]["raw"]


FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.25.5; exit; fi
{answer}
"""


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("""echo '{"Error": "no such host"}'; exit 1""", "no such host"),
        ("""echo '{"Sum": "h1:other=", "Dir": "/"}'""", "its hash is h1:other=, not h1:"),
    ],
)
def test_crds_that_cannot_be_had_or_are_not_the_pinned_ones_are_refused(
    tmp_path, monkeypatch, answer: str, says: str
) -> None:
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(FAKE_GO.format(answer=answer))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with make_progress() as progress, pytest.raises(DownloadError, match=says):
        list(_monitoring_crds(tmp_path, progress))
