"""Kubeconfig files: written for our own clusters, read for others'."""

import base64
from pathlib import Path
from typing import Any

import yaml

from .files import write_atomically

CONTEXT = "kraftquorum-devcluster"


def kubeconfig(server_url: str, token: str, ca_pem: bytes, namespace: str = "default") -> str:
    """Text of a kubeconfig with one cluster, one user and one context."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {
                    "server": server_url,
                    "certificate-authority-data": base64.b64encode(ca_pem).decode(),
                },
            }
        ],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {
                "name": CONTEXT,
                "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace},
            }
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_kubeconfig(path: Path, server_url: str, token: str, ca_file: Path) -> Path:
    """Write a kubeconfig that only its owner can read; returns ``path``."""
    write_atomically(path, kubeconfig(server_url, token, ca_file.read_bytes()))
    return path
