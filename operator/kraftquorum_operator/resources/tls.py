"""TLS in the pod template: settings, the Secret with the certificates, and the probes' scheme.

All pods have one template and mount one Secret. Each takes the certificate of its own name.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.tls import TlsLevel
from raftnode.settings import ENV_PREFIX

MODE = 0o440
"""The files are the group's, which is the node's process."""


def environment(level: TlsLevel) -> dict[str, str]:
    """The settings of a node's listeners, and of commands in its container; empty without TLS.

    A command, such as the hook before the stop, presents the node's certificate to any node.
    """
    if level == "disabled":
        return {}
    files = {
        "CERTIFICATE_FILE": f"{names.TLS_PATH}/$(POD_NAME).crt",
        "KEY_FILE": f"{names.TLS_PATH}/$(POD_NAME).key",
        "CA_FILE": f"{names.TLS_PATH}/ca.crt",
    }
    settings: dict[str, str] = {}
    for listener in ("PEER", "API"):
        settings[f"{ENV_PREFIX}{listener}_TLS"] = level
        settings |= {f"{ENV_PREFIX}{listener}_TLS_{key}": path for key, path in files.items()}
    settings |= {f"{ENV_PREFIX}CLIENT_{key}": path for key, path in files.items()}
    return settings | {f"{ENV_PREFIX}CLIENT_SERVER_NAME": "localhost"}


def volumes(quorum: str, level: TlsLevel) -> Body:
    """The pod's volumes beside its claim; no part of the body without TLS."""
    if level == "disabled":
        return {}
    secret = {"secretName": names.node_tls(quorum), "defaultMode": MODE}
    return {"volumes": [{"name": names.TLS_VOLUME, "secret": secret}]}


def mounts(level: TlsLevel) -> list[Body]:
    """The container's mounts beside that of its claim."""
    if level == "disabled":
        return []
    return [{"name": names.TLS_VOLUME, "mountPath": names.TLS_PATH, "readOnly": True}]


def scheme(level: TlsLevel) -> Body:
    """Of a probe; the kubelet checks no certificate."""
    return {"scheme": "HTTPS"} if level == "required" else {}
