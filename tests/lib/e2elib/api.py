"""GETs to the API server of any cluster, through `kubectl proxy` on a socket of our own.

A `kubectl` for each look would cost half a core; and only `kubectl` knows every way in which a
kubeconfig gives its credentials.

A caller waits for an API server that is away or busy: on a machine with much to do, an empty
answer would pass for "there is none".
"""

import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from kraftquorum_devcluster.errors import ApiError, StartError
from kraftquorum_devcluster.files import remove_tree

_START_S = 20.0
_TIMEOUT_S = 15.0
_AGAIN_S = 0.2
_TOO_MANY_REQUESTS = 429
PATIENCE_S = 120.0
"""How long an API server that is away or busy is asked again."""

Json = dict[str, Any]

PATHS: Mapping[str, str] = {
    "configmaps": "api/v1",
    "events": "api/v1",
    "namespaces": "api/v1",
    "nodes": "api/v1",
    "persistentvolumeclaims": "api/v1",
    "persistentvolumes": "api/v1",
    "pods": "api/v1",
    "deployments": "apis/apps/v1",
    "statefulsets": "apis/apps/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "kraftquorums": "apis/kraftquorum.io/v1alpha1",
}


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = str(path)

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(self._path)


class Api:
    """Reads objects. A context manager; may be used by several threads, each with its own.

    Args:
        kubectl: The program.
        env: Its environment, with KUBECONFIG.
    """

    def __init__(self, kubectl: Path, env: Mapping[str, str]) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="kraftquorum-e2e-"))
        self._socket = self._directory / "api"
        self._command = [str(kubectl), "proxy", f"--unix-socket={self._socket}"]
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the proxy.

        Raises:
            StartError: It did not come up.
        """
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_S
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._directory / "log").read_text(encoding="utf-8")
                self.__exit__()
                raise StartError("kubectl proxy", said.strip() or "no socket")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
        remove_tree(self._directory)

    def get(self, path: str, patience_s: float = PATIENCE_S) -> Json:
        """Read what is at a path.

        Args:
            path: Without its first slash.
            patience_s: How long an API server that is away or busy is asked again.

        Raises:
            ApiError: The API server refused.
            OSError: It cannot be reached.
        """
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return self._get(path)
            except (OSError, ApiError) as error:
                refused = isinstance(error, ApiError) and error.status != _TOO_MANY_REQUESTS
                if refused or time.monotonic() >= deadline:
                    raise
            time.sleep(_AGAIN_S)

    def _get(self, path: str) -> Json:
        connection = _Connection(self._socket)
        try:
            connection.request("GET", f"/{path}", headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"the API server hung up: {error!r}") from None
        finally:
            connection.close()
        if answer.status >= 500:  # also of the proxy, while the API server is away
            raise OSError(f"{answer.status}: {body[:200]!r}")
        if answer.status >= 400:
            raise _refusal(answer.status, body)
        found: Json = json.loads(body)
        return found

    def one(
        self, kind: str, name: str, namespace: str = "", patience_s: float = PATIENCE_S
    ) -> Json | None:
        """One object, by the plural of its kind; None if there is none.

        Raises:
            ApiError: The API server refused.
            OSError: It cannot be reached.
        """
        try:
            return self.get(f"{_path(kind, namespace)}/{name}", patience_s)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def all(self, kind: str, namespace: str = "") -> list[Json]:
        """All objects of a kind, in a namespace or in all.

        Raises:
            ApiError: The API server refused.
            OSError: It cannot be reached.
        """
        items: list[Json] = self.get(_path(kind, namespace))["items"]
        return items


def _refusal(status: int, body: bytes) -> ApiError:
    """The error of an answer: a Status, or plain text where the API server has no time for one."""
    try:
        told: Json = json.loads(body)
    except ValueError:
        return ApiError(status, "", body[:200].decode(errors="replace").strip())
    return ApiError(status, str(told.get("reason", "")), str(told.get("message", "")))


def _path(kind: str, namespace: str) -> str:
    return f"{PATHS[kind]}/namespaces/{namespace}/{kind}" if namespace else f"{PATHS[kind]}/{kind}"


def kubectl_env(kubeconfig: Path) -> dict[str, str]:
    """The environment for a `kubectl` that talks to a cluster."""
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}
