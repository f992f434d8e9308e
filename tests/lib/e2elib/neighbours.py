"""Pods beside a quorum, and which addresses they can connect to."""

import json
from collections.abc import Iterable

from .api import Json
from .cluster import E2eCluster

_CONNECT = """
import asyncio, json, sys

async def is_open(host, port):
    try:
        async with asyncio.timeout(3):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True

async def main():
    targets = json.loads(sys.argv[1])
    answers = await asyncio.gather(*(is_open(*target) for target in targets))
    print(json.dumps([target for target, answer in zip(targets, answers) if answer]))

asyncio.run(main())
"""

_ASK = """
import asyncio, json, ssl, sys

context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
REQUEST = b"GET /v1/quorum HTTP/1.1\\r\\nHost: node\\r\\nConnection: close\\r\\n\\r\\n"

async def ask(host, port, tls):
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(host, port, ssl=context if tls else None)
            writer.write(REQUEST)
            line = await reader.readline()
    except (OSError, TimeoutError):
        return None
    writer.close()
    if not line.startswith(b"HTTP"):
        return None
    return ("tls " if tls else "plain ") + line.decode().strip()

async def main():
    targets = json.loads(sys.argv[1])
    asked = [ask(*target, tls) for target in targets for tls in (False, True)]
    print(json.dumps([answer for answer in await asyncio.gather(*asked) if answer]))

asyncio.run(main())
"""

Target = tuple[str, int]
"""Host and port."""


class Neighbour:
    """A pod that runs until its namespace goes.

    Attributes:
        name: Of the pod.
    """

    def __init__(self, e2e_cluster: E2eCluster, namespace: str, name: str, **labels: str) -> None:
        """Start it, and wait until it runs.

        Raises:
            CommandError: It did not become ready.
        """
        self._e2e_cluster, self._place, self.name = e2e_cluster, ("--namespace", namespace), name
        image = e2e_cluster.tags.image("node", e2e_cluster.tags.now)
        e2e_cluster.kubectl(
            *self._place, "apply", "-f", "-", stdin=json.dumps(_body(name, image, labels))
        )
        e2e_cluster.kubectl(
            *self._place, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=90s"
        )

    def reached(self, targets: Iterable[Target]) -> set[Target]:
        """Those that it can connect to.

        Raises:
            CommandError: Its container does not run.
        """
        answer = self._run(_CONNECT, json.dumps(sorted(targets)))
        return {(host, port) for host, port in json.loads(answer)}

    def answers(self, targets: Iterable[Target]) -> set[str]:
        """What nodes answer to it, in plain text and over TLS without credentials.

        Each as `plain` or `tls`, and the first line of the answer; nothing for a connection that
        ends without one.

        Raises:
            CommandError: Its container does not run.
        """
        return set(json.loads(self._run(_ASK, json.dumps(sorted(targets)))))

    def _run(self, program: str, argument: str) -> str:
        command = ("exec", self.name, "--", "python3", "-c", program, argument)
        return self._e2e_cluster.kubectl(*self._place, *command)


def _body(name: str, image: str, labels: dict[str, str]) -> Json:
    """It meets the pod security standard "restricted"."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10_001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "sleeper",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", "import time; time.sleep(86400)"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
