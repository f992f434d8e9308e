"""`spec.config`: the node settings that a resource may set, and their schema.

The node's own model is the only source: its names, types, bounds and descriptions become the
schema of the CRD. A resource may set every new setting of the node that is not listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import cast

from pydantic import JsonValue

from raftnode.settings import NodeSettings, find_faults, setting_called

_IDENTITY = "it is the replica's identity, which the operator gives to each pod"
_ADDRESS = "it is an address, which the operator derives from the pod and its Services"
_PATH = "it is a path in the container, which the operator sets"
_TLS = "it belongs to the certificates of the nodes, which the operator sets"

SET_BY_OPERATOR: dict[str, str] = {
    "node_id": _IDENTITY,
    "log_dir": _PATH,
    "peer_listen": _ADDRESS,
    "peer_advertised": _ADDRESS,
    "api_listen": _ADDRESS,
    "api_advertised": _ADDRESS,
    "metrics_listen": "set spec.metricsListener to Separate for a port of its own",
    "admin_listen": "the operator uses the port of clients; spec.access says who may ask for "
    "administration there",
    "bootstrap_servers": _ADDRESS,
    "quorum_voters": "the log holds the voter set; set spec.voters for their number",
    "hosts_file": _PATH,
    "peer_tls": _TLS,
    "peer_tls_certificate_file": _PATH,
    "peer_tls_key_file": _PATH,
    "peer_tls_ca_file": _PATH,
    "api_tls": _TLS,
    "api_tls_certificate_file": _PATH,
    "api_tls_key_file": _PATH,
    "api_tls_ca_file": _PATH,
    "api_tls_client_certificates": _TLS,
    "access_file": "set spec.access, from which the operator makes the file",
    "access_jwks_file": "the operator sets it if spec.access has a ServiceAccount",
    "access_token_audience": "it is `kraftquorum` for all quorums; request tokens for it",
    "access_token_issuer": "the operator asks the API server for it",
    "termination_log": _PATH,
    "shutdown_grace_ms": "it must fit into the pod's grace period, which the operator sets",
}
"""Settings that a resource may not set, and why."""

CHOICES: Mapping[str, tuple[str, ...]] = {"audit_log": ("stderr", "disabled")}
"""Settings of which a resource may choose these values alone: a pod has no room for a file that
grows without a limit."""

ALLOWED: tuple[str, ...] = tuple(
    name for name in NodeSettings.model_fields if name not in SET_BY_OPERATOR
)
"""Settings that a resource may set, in the order of docs/reference/node-settings.md."""

STAND_IN: Mapping[str, object] = {
    "node_id": 0,
    "log_dir": ".",
    "peer_advertised": "node:1",
    "api_advertised": "node:2",
}
"""Values for the settings that a node requires, to check the others without a node."""


def config_schema() -> dict[str, JsonValue]:
    """The JSON schema of `spec.config`.

    The API server keeps unknown names, so that the operator can report them. It would otherwise
    drop them silently for every client that does not request strict validation.
    """
    schemas = cast(
        "dict[str, dict[str, JsonValue]]", NodeSettings.model_json_schema()["properties"]
    )
    properties: dict[str, JsonValue] = {name: _property(name, schemas[name]) for name in ALLOWED}
    return {
        "type": "object",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _property(name: str, schema: dict[str, JsonValue]) -> JsonValue:
    """One setting without a default: a default in the CRD would change existing quorums."""
    if name in CHOICES:
        chosen = f"{schema['description']} A resource may set: {_quoted(name)}."
        return {"type": "string", "enum": [*CHOICES[name]], "description": chosen}
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    default = schema["default"]
    shown = str(default).lower() if isinstance(default, bool) else default
    return kept | {"description": f"{schema['description']} The node's default: {shown}."}


def find_name_faults(names: Iterable[str]) -> Iterator[str]:
    """For each name in `spec.config` that is not allowed: why, or which one may be meant."""
    for name in names:
        if name in ALLOWED:
            continue
        meant = setting_called(name) or setting_called(_snake(name))
        if meant in SET_BY_OPERATOR:
            yield f"config.{name} cannot be set: {SET_BY_OPERATOR[meant]}; remove it"
        else:
            nearest = meant or get_close_matches(_snake(name), ALLOWED, n=1, cutoff=0.0)[0]
            yield f"config.{name} is not a node setting; did you mean {nearest}?"


def find_value_faults(values: Mapping[str, object]) -> Iterator[str]:
    """The faults that a node would find in settings with allowed names, and between them."""
    for fault in find_faults({**STAND_IN, **values}):
        yield f"config.{fault.setting}: {fault.message}" if fault.setting else fault.message
    for name, choices in CHOICES.items():
        if name in values and values[name] not in choices:
            yield f"config.{name} is {values[name]!r}: a pod takes {_quoted(name)} alone"


def default_of(name: str) -> JsonValue:
    """The node's default of a setting."""
    return cast("JsonValue", NodeSettings.model_fields[name].default)


def _quoted(name: str) -> str:
    return " or ".join(f'"{choice}"' for choice in CHOICES[name])


def _snake(name: str) -> str:
    """The name of a setting that was written like `logRetentionBytes` or `log.retention.bytes`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace(".", "_").replace("-", "_").lower()
