"""Tells Prometheus of the cluster's pods as its own discovery would.

Debian builds Prometheus without the discovery of Kubernetes, so the pods come by a file, with
the labels that it would give them; what is made of these is the configuration's matter.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.files import write_atomically

EVERY_S = 0.5


def targets(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A target for each port of each pod that has an address, as `role: pod` makes them."""
    return [target for pod in pods for target in _of(pod)]


def _of(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    meta, address = pod["metadata"], pod.get("status", {}).get("podIP")
    if not address:
        return
    labels = {
        "__meta_kubernetes_namespace": meta["namespace"],
        "__meta_kubernetes_pod_name": meta["name"],
    }
    for name, value in meta.get("labels", {}).items():
        labels[f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}"] = value
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", []):
            yield {
                "targets": [f"{address}:{port['containerPort']}"],
                "labels": labels | {"__meta_kubernetes_pod_container_port_name": port["name"]},
            }


async def keep_current(api: ApiClient, path: Path) -> None:
    """Write the targets whenever they change, until cancelled."""
    written = ""
    while True:
        try:
            found = await api.get("/api/v1/pods")
        except (ApiError, aiohttp.ClientError, TimeoutError):
            found = None
        if found is not None:
            text = json.dumps(targets(found["items"]), sort_keys=True)
            if text != written:
                write_atomically(path, text)
                written = text
        await asyncio.sleep(EVERY_S)
