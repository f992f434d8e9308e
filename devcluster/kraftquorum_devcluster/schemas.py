"""JSON schemas of what may be applied, for kubeconform: strict, and without a network.

Kubernetes' own kinds come from the API server of devcluster (`/openapi/v3`), those of the
Prometheus operator from its CRDs, which its Go module carries and whose hash is pinned here.
`strict_schemas` and `crd_schemas` are pure; `ensure_schemas` makes the files, once.
"""

import json
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml

from .cluster import DevCluster
from .gomodules import GoModule, downloaded_module
from .paths import cache_root
from .progress import BuildProgress, make_progress
from .versions import KUBERNETES_VERSION

Json = dict[str, Any]

LOCATION = "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
"""Where kubeconform finds a kind's file under the directory (`-schema-location`)."""

_MONITORING_MODULE = "github.com/prometheus-operator/prometheus-operator"
_MONITORING_VERSION = "v0.85.0"
_MONITORING_SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
_MONITORING_FOLDER = "example/prometheus-operator-crd"
_MONITORING_KINDS = ("podmonitors", "prometheusrules", "servicemonitors")
_REVISION = 1
"""Grows when the files made from the same sources change."""


def schemas_dir() -> Path:
    """The directory of finished schemas for the pinned versions."""
    key = f"v{KUBERNETES_VERSION}-monitoring-{_MONITORING_VERSION}-{_REVISION}"
    return cache_root() / "devcluster" / "schemas" / key


def ensure_schemas(cluster: DevCluster | None = None) -> Path:
    """Return the directory of the schemas, making it if it is not there.

    Takes about ten seconds the first time: a control plane is started and 4 MB are downloaded.

    Args:
        cluster: One that runs, to be asked instead of a new one.

    Raises:
        DownloadError: The Prometheus operator's CRDs cannot be had.
        BuildError: The control plane, or Go, cannot be made.
    """
    directory = schemas_dir()
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=directory.parent) as name,
        make_progress() as progress,
    ):
        made = Path(name) / "made"
        if cluster is not None:
            _write_kinds(made, cluster)
        else:
            with DevCluster() as own:
                _write_kinds(made, own)
        for text in _monitoring_crds(Path(name), progress):
            write_schemas(made, crd_schemas(yaml.safe_load(text)))
        made.chmod(0o755)
        try:
            made.rename(directory)
        except OSError:
            if not directory.is_dir():  # else another was quicker
                raise
    return directory


def write_schemas(directory: Path, schemas: Json) -> None:
    """Write one file for each kind."""
    for name, schema in schemas.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(schema, separators=(",", ":")), encoding="utf-8")


def strict_schemas(document: Json) -> Json:
    """Schemas of the kinds of one OpenAPI 3 document, by file name.

    Each file holds all definitions of its document: they refer to each other.
    """
    schemas: dict[str, Json] = document["components"]["schemas"]
    definitions: Json = {name: _strict(schema) for name, schema in schemas.items()}
    result: Json = {}
    for schema in schemas.values():
        kinds: list[dict[str, str]] = schema.get("x-kubernetes-group-version-kind") or []
        if len(kinds) != 1 or "metadata" not in schema.get("properties", {}):
            continue  # e.g. DeleteOptions, which is of every group, and no object
        kind = kinds[0]
        name = _file_name(kind["group"], kind["version"], kind["kind"])
        result[name] = {
            **cast("Json", _strict(schema)),
            "definitions": definitions,
        }
    return result


def crd_schemas(crd: Json) -> Json:
    """Schemas of the versions of a CRD, by file name."""
    spec: Json = crd["spec"]
    versions: list[Json] = spec["versions"]
    result: Json = {}
    for version in versions:
        schema = cast("Json", _strict(version["schema"]["openAPIV3Schema"]))
        schema["properties"] = {
            **schema["properties"],
            "apiVersion": {"const": f"{spec['group']}/{version['name']}"},
            "kind": {"const": spec["names"]["kind"]},
            "metadata": {"type": "object"},
        }
        result[_file_name(spec["group"], version["name"], spec["names"]["kind"])] = schema
    return result


def _file_name(group: str, version: str, kind: str) -> str:
    # kubeconform takes the whole `apiVersion` for the group where it has no other.
    return f"{group or version}/{kind.lower()}_{version}.json"


def _strict(node: object) -> object:
    """The same schema, in which an unknown field is an error."""
    if isinstance(node, list):
        return [_strict(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    source = cast("Json", node)
    result: Json = {}
    for key, value in source.items():
        if key == "$ref" and isinstance(value, str):
            result[key] = value.replace("#/components/schemas/", "#/definitions/")
        elif key == "properties":
            result[key] = {
                name: _strict(property_schema)
                for name, property_schema in cast("Json", value).items()
            }
        elif key in {"items", "allOf", "anyOf", "oneOf", "additionalProperties", "not"}:
            result[key] = _strict(value)
        elif not key.startswith("x-"):
            result[key] = value
    if source.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result["type"] = ["integer", "string"]
    is_open = source.get("x-kubernetes-preserve-unknown-fields") or source.get(
        "x-kubernetes-embedded-resource"
    )
    if "properties" in source and "additionalProperties" not in source and not is_open:
        result["additionalProperties"] = False
    return result


def _write_kinds(directory: Path, cluster: DevCluster) -> None:
    paths: dict[str, Json] = _get(cluster, "/openapi/v3")["paths"]
    for path in paths.values():
        document = _get(cluster, path["serverRelativeURL"])
        if "schemas" in document.get("components", {}):
            write_schemas(directory, strict_schemas(document))


def _get(cluster: DevCluster, path: str) -> Json:
    request = urllib.request.Request(
        cluster.server_url + path,
        headers={"Authorization": f"Bearer {cluster.token}", "Accept": "application/json"},
    )
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(request, timeout=60) as answer:
        result: Json = json.load(answer)
        return result


def _monitoring_crds(directory: Path, progress: BuildProgress) -> Iterator[str]:
    module = GoModule(_MONITORING_MODULE, _MONITORING_VERSION, _MONITORING_SUM)
    with downloaded_module(
        module, directory, progress, "download the CRDs of the Prometheus operator"
    ) as folder:
        for kind in _MONITORING_KINDS:
            file = folder / _MONITORING_FOLDER / f"monitoring.coreos.com_{kind}.yaml"
            yield file.read_text(encoding="utf-8")
