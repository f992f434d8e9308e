"""How a client on this machine reaches pods by their names in the cluster.

Where pods' addresses are reached from here, by address. Elsewhere, as on kind, through a relay:
a pod with a few lines of Python, reached by `kubectl port-forward`, which is told name and port
in a connection's first line. The node listens on its pod's address only, so that a port cannot
be forwarded to it directly.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from kraftquorum_devcluster.errors import ApiError, StartError

from .api import Json

RELAY_PORT = 1080
_AGE_S = 0.2
"""How long an address is believed: pods come back with others."""
_FORWARD_S = 30.0

RELAY = """
import asyncio

async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def serve(reader, writer):
    try:
        host, port = (await reader.readline()).decode().split()
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
    except (OSError, ValueError):
        writer.close()
        return
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 1080)
    await server.serve_forever()

asyncio.run(main())
"""

AddressOf = Callable[[str, str], str | None]
"""Address of a pod, by namespace and name; None if it has none. May block."""


def relay_pod(image: str) -> Json:
    """The relay's pod; it meets the pod security standard "restricted"."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "relay"},
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
                    "name": "relay",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python", "-c", RELAY],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


class PodResolver(AbstractResolver):
    """Names of pods (`pod.service.namespace.svc…`) to their addresses, as they are now."""

    def __init__(self, address_of: AddressOf) -> None:
        self._address_of = address_of
        self._known: dict[tuple[str, str], tuple[float, str | None]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See aiohttp's AbstractResolver."""
        del family
        pod, _, namespace = [*host.split("."), "", ""][:3]
        address = await self._look((namespace, pod))
        if address is None:
            raise OSError(None, f"pod {pod} has no address")
        return [_result(host, address, port)]

    async def _look(self, key: tuple[str, str]) -> str | None:
        seen_s, address = self._known.get(key, (float("-inf"), None))
        if time.monotonic() - seen_s < _AGE_S:
            return address
        # While the API server is away, the address that was known last is the best guess.
        with contextlib.suppress(OSError, ApiError):
            address = await asyncio.to_thread(self._address_of, *key)
        self._known[key] = (time.monotonic(), address)
        return address

    async def close(self) -> None:
        """See aiohttp's AbstractResolver."""


class RelayResolver(AbstractResolver):
    """Every name to a port of this machine's, behind which the relay connects to it.

    Args:
        port_of: Port on this machine at which the relay is reached just now. May block, and
            raises StartError while it cannot be had.
    """

    def __init__(self, port_of: Callable[[], int]) -> None:
        self._port_of = port_of
        self._servers: dict[tuple[str, int], asyncio.Server] = {}
        self._opening = asyncio.Lock()
        self._relaying: set[asyncio.Task[Any]] = set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See aiohttp's AbstractResolver."""
        del family
        async with self._opening:  # two at once would open two, and forget one
            server = await self._server(host, port)
        return [_result(host, "127.0.0.1", int(server.sockets[0].getsockname()[1]))]

    async def _server(self, host: str, port: int) -> asyncio.Server:
        server = self._servers.get((host, port))
        if server is None:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._relay(f"{host} {port}\n".encode(), reader, writer)

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers[host, port] = server
        return server

    async def _relay(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relaying.add(task)
        try:
            port = await asyncio.to_thread(self._port_of)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            far_writer.write(head)
            try:
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            finally:
                await _end(far_writer)
        except (OSError, StartError, asyncio.CancelledError):
            pass  # the connection ends; `close` cancels
        finally:
            await _end(writer)
            self._relaying.discard(task)

    async def close(self) -> None:
        """Listen no more, and end what is open."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        relaying = list(self._relaying)
        for task in relaying:
            task.cancel()
        await asyncio.gather(*relaying, return_exceptions=True)


async def _end(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until its socket is."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


class Forward:
    """`kubectl port-forward` to a port of a pod, the relay's if none is named; begun again when it
    ends."""

    def __init__(
        self,
        kubectl: Path,
        env: Mapping[str, str],
        namespace: str,
        pod: str = "relay",
        port: int = RELAY_PORT,
    ) -> None:
        self._command = [
            *[str(kubectl), "--namespace", namespace],
            *["port-forward", "--address=127.0.0.1", f"pod/{pod}", f":{port}"],
        ]
        self._env = dict(env)
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self._lock = threading.Lock()

    def port(self) -> int:
        """The port on this machine; any thread may ask.

        Raises:
            StartError: It did not come up.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.stop()
                self._start()
            return self._port

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()  # "Forwarding from 127.0.0.1:40001 -> 1080"
        try:
            self._port = int(line.split(" -> ")[0].rpartition(":")[2])
        except ValueError:
            self.stop()
            raise StartError("kubectl port-forward", line or "it ended") from None

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


def start_relay(kubectl: Callable[..., str], namespace: str, image: str) -> None:
    """Start the relay in a namespace.

    Raises:
        CommandError: The API server refused it, or it did not become ready.
    """
    place = ("--namespace", namespace)
    kubectl(*place, "apply", "-f", "-", stdin=json.dumps(relay_pod(image)))
    kubectl(*place, "wait", "--for=condition=Ready", "pod/relay", f"--timeout={_FORWARD_S:.0f}s")


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET,
        proto=0,
        flags=socket.AI_NUMERICHOST,
    )
