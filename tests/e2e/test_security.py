"""A quorum with TLS and roles: what pods without credentials reach, and how certificates change."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import yaml

from e2elib.neighbours import Neighbour
from kraftquorum_demo.credentials import APP, ClientFiles
from kraftquorum_operator import names

EXAMPLE = Path(__file__).parents[2] / "examples" / "demo.yaml"
REFUSED = {"tls HTTP/1.1 401 Unauthorized"}


def secret(quorum, name: str) -> dict[str, bytes]:
    data = json.loads(quorum.kubectl("get", "secret", name, "-o", "json"))["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def follow(quorum, files: ClientFiles) -> None:
    """Take the CAs that clients trust, as a mounted ConfigMap does."""
    name = names.client_ca(quorum.name)
    files.trust(json.loads(quorum.kubectl("get", "configmap", name, "-o", "json")))


def annotate(quorum, kind: str, name: str, key: str) -> None:
    mark = f"{key}={time.time_ns()}"
    quorum.kubectl("annotate", kind, name, mark, "--overwrite")


def hasten(quorum) -> None:
    """Let each kubelet renew the mounted Secrets now, and not at its next minute."""
    for node_id in range(3):
        annotate(quorum, "pod", quorum.pod(node_id), "e2e.kraftquorum.io/look")


def test_rotation_and_strangers(case, tmp_path):
    """Certificates and CA are replaced under load, and pods without credentials are refused"""
    spec: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())["spec"]
    files = ClientFiles(tmp_path / "credentials")
    files.make()
    quorum = case.quorum()
    quorum.kubectl("apply", "-f", "-", stdin=files.token_secrets(quorum.name))
    quorum.apply(**spec)
    quorum.until_ready(3)
    follow(quorum, files)

    # The network policy is out of the way: TLS and the access file refuse.
    quorum.patch(networkPolicy={"enabled": False})
    neighbour = Neighbour(case.e2e_cluster, quorum.namespace, "neighbour", app="web")
    hosts = [
        pod["status"]["podIP"]
        for pod in quorum.all("pods")
        if pod["metadata"]["name"].startswith(f"{quorum.name}-")
    ]
    targets = {(host, port) for host in hosts for port in (names.API_PORT, names.PEER_PORT)}
    quorum.until("the port is open", lambda: neighbour.reached(targets) == targets)
    assert neighbour.answers(targets) == REFUSED

    before, pods = secret(quorum, "demo-node-tls"), quorum.uids("pods")
    writing = case.writing(quorum, files.credentials(APP))
    began = time.monotonic()
    annotate(quorum, "krq", quorum.name, "kraftquorum.io/renew-certificates")
    annotate(quorum, "krq", quorum.name, "kraftquorum.io/rotate-ca")

    def rotated() -> bool:
        hasten(quorum)
        follow(quorum, files)
        now = secret(quorum, "demo-node-tls")
        changed = all(now[key] != before[key] for key in before)
        return changed and now["ca.crt"].count(b"BEGIN") == 1

    quorum.until("rotated", rotated)
    case.figures.until = "the CA before is trusted no longer"
    case.figures.seconds = round(time.monotonic() - began, 1)
    writing.go_on()
    writing.finish(failed_max=0)
    assert quorum.uids("pods") == pods, "no pod is recreated for it"
    assert neighbour.answers(targets) == REFUSED
