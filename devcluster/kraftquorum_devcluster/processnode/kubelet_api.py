"""HTTPS endpoint of the node, for ``kubectl logs`` and for `DevCluster`.

Callers prove themselves by a certificate of the cluster's authority or by the
node's or administrator's token.
"""

import asyncio
import hmac
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from kraftquorum_devcluster.pki import Pki

from .worker import PodWorker

_log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.Response]]

_CHUNK = 64 * 1024
_FOLLOW_POLL_S = 0.2
_UNSUPPORTED = ("sinceSeconds", "sinceTime", "timestamps", "stream")


def tail_offset(path: Path, lines: int) -> int:
    """Where the last ``lines`` lines of a file begin."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        if lines == 0:
            return position
        # A newline at the very end closes the last line and starts none.
        newlines = 0
        end = position
        while position > 0:
            start = max(0, position - _CHUNK)
            file.seek(start)
            block = file.read(position - start)
            for index in range(len(block) - 1, -1, -1):
                if block[index] == 0x0A and start + index != end - 1:
                    newlines += 1
                    if newlines == lines:
                        return start + index + 1
            position = start
    return 0


class KubeletApi:
    """The server; `find` looks a pod's worker up."""

    def __init__(
        self,
        pki: Pki,
        tokens: Iterable[str],
        find: Callable[[str, str], PodWorker | None],
    ) -> None:
        self._pki = pki
        self._tokens = list(tokens)
        self._find = find
        self._runner: web.AppRunner | None = None
        self.app = web.Application(middlewares=[self._authenticate])
        self.app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        self.app.router.add_get("/devcluster/pods/{namespace}/{pod}", self._pod)

    def on_restart_apiserver(self, restart: Callable[[], Awaitable[None]]) -> None:
        """Let `DevCluster.restart_apiserver` ask for it here, past the API server."""

        async def handler(_: web.Request) -> web.Response:
            await restart()
            return web.json_response({})

        self.app.router.add_post("/devcluster/restart-apiserver", handler)

    def on_etcd(
        self, back_up: Callable[[Path], Awaitable[None]], restore: Callable[[Path], Awaitable[None]]
    ) -> None:
        """Let `DevCluster.back_up_etcd` and `restore_etcd` ask for it here, past the API server."""

        def handler(work: Callable[[Path], Awaitable[None]]) -> Handler:
            async def handle(request: web.Request) -> web.Response:
                await work(Path(request.query["path"]))
                return web.json_response({})

            return handle

        self.app.router.add_post("/devcluster/etcd/back-up", handler(back_up))
        self.app.router.add_post("/devcluster/etcd/restore", handler(restore))

    async def start(self, address: str, port: int) -> None:
        """Listen."""
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(self._pki.ca.certificate)
        )
        context.load_cert_chain(self._pki.server.certificate, self._pki.server.key)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, address, port, ssl_context=context).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def _authenticate(self) -> Any:
        @web.middleware
        async def middleware(
            request: web.Request,
            handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
        ) -> web.StreamResponse:
            certificate = request.get_extra_info("peercert")
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not certificate and not any(hmac.compare_digest(token, t) for t in self._tokens):
                raise web.HTTPUnauthorized
            return await handler(request)

        return middleware

    async def _pod(self, request: web.Request) -> web.Response:
        worker = self._find(request.match_info["namespace"], request.match_info["pod"])
        if worker is None:
            raise web.HTTPNotFound(text="the process node runs no such pod")
        containers = {
            container.spec["name"]: {
                "pid": child.pid if (child := container.child) and child.running else None,
                "restart_count": container.state.restart_count,
                "log": str(container.log_file()),
            }
            for container in worker.containers
        }
        body = {"uid": worker.uid, "address": worker.address, "containers": containers}
        return web.json_response(body)

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        if bad := [name for name in _UNSUPPORTED if request.query.get(name) not in (None, "All")]:
            raise web.HTTPBadRequest(text=f"the process node's logs do not support {bad[0]}")
        path, live = self._log_file(request)
        offset = 0
        if (lines := request.query.get("tailLines")) is not None:
            offset = tail_offset(path, int(lines))
        limit = int(request.query.get("limitBytes") or 2**62)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        follow = request.query.get("follow") in ("true", "1")
        with path.open("rb") as file:
            file.seek(offset)
            while limit > 0:
                over = not follow or not live()
                while block := file.read(min(_CHUNK, limit)):
                    limit -= len(block)
                    await response.write(block)
                if over:
                    break
                await asyncio.sleep(_FOLLOW_POLL_S)
        return response

    def _log_file(self, request: web.Request) -> tuple[Path, Callable[[], bool]]:
        """The file, and whether it may still grow."""
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        name = request.match_info["container"]
        worker = self._find(namespace, pod)
        containers = worker.containers if worker is not None else []
        container = next((c for c in containers if c.spec["name"] == name), None)
        if container is None:
            raise web.HTTPNotFound(text=f"container {name} of pod {pod} is not known here")
        restart = container.state.restart_count
        if request.query.get("previous") in ("true", "1"):
            path = container.log_file(restart - 1)
        else:
            path = container.log_file()
        if not path.exists():
            waiting = container.state.waiting[0]
            text = f"container {name} of pod {pod} has written no log yet: {waiting}"
            raise web.HTTPBadRequest(text=text)

        def live() -> bool:
            same = self._find(namespace, pod) is worker and bool(worker and worker.containers)
            current = container.state.restart_count == restart
            return same and current and container.state.terminated is None

        return path, live
