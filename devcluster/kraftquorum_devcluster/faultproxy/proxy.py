"""The proxy itself: forwards everything, unbuffered, and does the harm that rules ask for."""

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import hdrs, web

from kraftquorum_devcluster.cluster import DevCluster
from kraftquorum_devcluster.connections import TlsConnector
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_devcluster.objects import Json

from .rules import (
    Answer,
    CutWatch,
    Delay,
    Drop,
    Effect,
    Fail,
    Gate,
    RequestFacts,
    Rule,
    SilenceWatch,
    StaleAnswer,
)
from .watch_filter import WatchFilter

_HOP_HEADERS = frozenset(
    name.lower()
    for name in (
        hdrs.CONNECTION,
        hdrs.CONTENT_LENGTH,
        hdrs.HOST,
        hdrs.KEEP_ALIVE,
        hdrs.TE,  # codespell:ignore te
        hdrs.TRAILER,
        hdrs.TRANSFER_ENCODING,
        hdrs.UPGRADE,
    )
)
_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_BODY_MAX = 16 * 2**20


@dataclass(slots=True)
class LogEntry:
    """A request that passed, for assertions.

    Attributes:
        status: What the client got, None while unanswered or if dropped.
        harmed: Whether a rule hit it.
    """

    request: RequestFacts
    status: int | None = None
    harmed: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    headers: dict[str, str]


class FaultProxy:
    """TLS reverse proxy on loopback, in the event loop of the test.

    Clients authenticate as on the API server; their headers pass unchanged.

    Attributes:
        log: Requests in order of arrival.
    """

    def __init__(self, cluster: DevCluster, directory: Path | None = None) -> None:
        self.log: list[LogEntry] = []
        self.rules: list[Rule] = []
        self._cluster = cluster
        self._directory = directory or cluster.state_dir
        self._recorded: dict[str, _Answer] = {}
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._id = uuid.uuid4().hex[:8]
        self.server_url = ""

    # -- rules -------------------------------------------------------------------------------

    def add(
        self,
        effect: Effect,
        *,
        verb: str | None = None,
        path: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> Rule:
        """Add a rule; earlier rules act first, several may hit one request."""
        rule = Rule(effect, verb, path, times, skip)
        self.rules.append(rule)
        return rule

    def fail(
        self,
        status: int,
        *,
        verb: str | None = None,
        path: str | None = None,
        times: int | None = 1,
        skip: int = 0,
        retry_after_s: int | None = None,
    ) -> Rule:
        """Answer with an error, by default once."""
        effect = Fail(status, _REASONS.get(status, "Unknown"), retry_after_s)
        return self.add(effect, verb=verb, path=path, times=times, skip=skip)

    def gate(
        self,
        *,
        verb: str | None = None,
        path: str | None = None,
        times: int | None = None,
        skip: int = 0,
        after: bool = False,
    ) -> Gate:
        """Hold requests until released.

        Args:
            verb: As of `Rule`.
            path: As of `Rule`.
            times: How many are held; later ones pass.
            skip: How many pass first.
            after: Hold the answer instead: the write has taken effect, and the
                client does not know.
        """
        gate = Gate(after=after)
        self.add(gate, verb=verb, path=path, times=times, skip=skip)
        return gate

    def clear(self) -> None:
        """Remove all rules, and let all held requests go."""
        for rule in self.rules:
            rule.remove()
        self.rules.clear()

    # -- life --------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator whose requests pass through here."""
        return self._directory / f"proxy-{self._id}.kubeconfig"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=TlsConnector(self._cluster.ca_file),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(sock_connect=10),
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        pki = self._cluster.state_dir / "pki"
        context.load_cert_chain(pki / "server.crt", pki / "server.key")
        app = web.Application(client_max_size=_BODY_MAX)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=0.2,
            auto_decompress=False,
            handler_cancellation=True,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        port: int = self._runner.addresses[0][1]
        self.server_url = f"https://127.0.0.1:{port}"
        write_kubeconfig(
            self.kubeconfig, self.server_url, self._cluster.token, self._cluster.ca_file
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.clear()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()
        self.kubeconfig.unlink(missing_ok=True)

    # -- requests ----------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        facts = RequestFacts.of(request.method, request.path, request.query, body)
        entry = LogEntry(facts)
        self.log.append(entry)
        hits = [rule.effect for rule in self.rules if rule.take(facts)]
        entry.harmed = bool(hits)
        for effect in hits:
            if (answer := await self._before(effect, request, facts)) is not None:
                entry.status = None if isinstance(effect, Drop) else answer.status
                return answer
        try:
            return await self._forward(request, entry, hits)
        except aiohttp.ClientError as error:
            entry.status = 502
            return web.Response(status=502, text=f"fault proxy: {error!r}")

    async def _before(
        self, effect: Effect, request: web.Request, facts: RequestFacts
    ) -> web.Response | None:
        match effect:
            case Fail(status, reason, retry_after_s):
                return _status_answer(status, reason, retry_after_s)
            case Answer(body):
                return web.json_response(dict(body))
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Drop(after=False):
                return _break_connection(request)
            case Gate(after=False):
                await effect.hold(facts)
            case StaleAnswer():
                if (old := self._recorded.get(f"{facts.verb} {facts.path}")) is not None:
                    return web.Response(body=old.body, headers=old.headers)
            case _:
                pass
        return None

    async def _forward(
        self, request: web.Request, entry: LogEntry, hits: list[Effect]
    ) -> web.StreamResponse:
        assert self._session is not None  # noqa: S101 - set while the proxy runs
        facts = entry.request
        watch = facts.verb == "watch"
        follow = watch or "follow=true" in facts.path
        async with self._session.request(
            request.method,
            self._cluster.server_url + request.raw_path,
            headers={k: v for k, v in request.headers.items() if k.lower() not in _HOP_HEADERS},
            data=facts.body or None,
            allow_redirects=False,
        ) as upstream:
            headers = {k: v for k, v in upstream.headers.items() if k.lower() not in _HOP_HEADERS}
            if not follow:
                content = await upstream.read()
                self._record(facts, upstream, content, headers)
                for effect in hits:
                    if isinstance(effect, Gate) and effect.after:
                        await effect.hold(facts)
                    if isinstance(effect, Drop):
                        return _break_connection(request)
                entry.status = upstream.status
                return web.Response(status=upstream.status, body=content, headers=headers)
            entry.status = upstream.status
            response = web.StreamResponse(status=upstream.status, headers=headers)
            await response.prepare(request)
            await self._stream(request, response, upstream, hits)
            return response

    def _record(
        self,
        facts: RequestFacts,
        upstream: aiohttp.ClientResponse,
        content: bytes,
        headers: dict[str, str],
    ) -> None:
        """Keep the newest answer to each read, for `StaleAnswer` to repeat."""
        if facts.verb in ("get", "list") and upstream.status == 200:
            self._recorded[f"{facts.verb} {facts.path}"] = _Answer(content, headers)

    async def _stream(
        self,
        request: web.Request,
        response: web.StreamResponse,
        upstream: aiohttp.ClientResponse,
        hits: list[Effect],
    ) -> None:
        watch_filter = WatchFilter(
            [effect for effect in hits if isinstance(effect, CutWatch)],
            [effect for effect in hits if isinstance(effect, SilenceWatch)],
        )
        with contextlib.suppress(ConnectionResetError, aiohttp.ClientError):
            while not watch_filter.cut:
                data = await upstream.content.readany()
                if not data:
                    return
                if passed := watch_filter.feed(data):
                    await response.write(passed)
            _break_connection(request)
            return
        _break_connection(request)  # the server went away: so does this connection

    def matching(self, *, verb: str | None = None, path: str | None = None) -> Iterator[LogEntry]:
        """Log entries of a verb and a path, as of `Rule`."""
        probe = Rule(Delay(0), verb, path)
        return (entry for entry in self.log if probe.take(entry.request))


def _break_connection(request: web.Request) -> web.Response:
    """Abort; the answer returned is for aiohttp to fail to send, which it ignores."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _status_answer(status: int, reason: str, retry_after_s: int | None) -> web.Response:
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"fault proxy: {reason}",
        "reason": reason,
        "code": status,
    }
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s is not None else {}
    return web.Response(
        status=status, text=json.dumps(body), content_type="application/json", headers=headers
    )
