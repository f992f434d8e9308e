"""Access control in the pod template: the Secret with the access file, and the node's settings."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.access_facts import ACCESS_KEY, KEYS_KEY, AccessFiles
from kraftquorum_operator.model.objects import Body
from raftnode.settings import ENV_PREFIX

MODE = 0o440
"""The files are the group's, which is the node's process."""


def environment(files: AccessFiles | None) -> dict[str, str]:
    """The node's settings; empty without access control."""
    if files is None:
        return {}
    settings = {f"{ENV_PREFIX}ACCESS_FILE": f"{names.ACCESS_PATH}/{ACCESS_KEY}"}
    if files.keys is not None:
        settings[f"{ENV_PREFIX}ACCESS_JWKS_FILE"] = f"{names.ACCESS_PATH}/{KEYS_KEY}"
        settings[f"{ENV_PREFIX}ACCESS_TOKEN_ISSUER"] = files.keys.issuer
    return settings


def volumes(quorum: str, files: AccessFiles | None) -> list[Body]:
    """The pod's volume with the files that a node reads."""
    if files is None:
        return []
    keys = [ACCESS_KEY, *([KEYS_KEY] if files.keys is not None else [])]
    secret: Body = {
        "secretName": names.access(quorum),
        "defaultMode": MODE,
        "items": [{"key": key, "path": key} for key in keys],
    }
    return [{"name": names.ACCESS_VOLUME, "secret": secret}]


def mounts(files: AccessFiles | None) -> list[Body]:
    """The container's mount of that volume."""
    if files is None:
        return []
    return [{"name": names.ACCESS_VOLUME, "mountPath": names.ACCESS_PATH, "readOnly": True}]
