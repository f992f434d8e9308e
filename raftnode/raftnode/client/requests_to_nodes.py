"""The client's requests: which node is next, how long it may take, and what an answer means.

The module has no routes and no models. It has the rule on what may be sent twice.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.abc import AbstractResolver

from raftnode.api.errors import RETRIABLE_STATUSES
from raftnode.client.credential_files import CredentialFiles, LoadedCredentials
from raftnode.client.credentials import NO_CREDENTIALS
from raftnode.client.errors import (
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from raftnode.client.exchange import (
    Answer,
    AttemptError,
    Call,
    CutError,
    NotSentError,
    SessionCall,
    answer_within_ms,
    exchange,
    send_once_trace,
)
from raftnode.client.hosts import HostsFileResolver
from raftnode.client.leader_search import LeaderSearch, backoff_ms
from raftnode.client.session import NoSessionsError, refuse_redirects_trace
from raftnode.client.sessions import Sessions
from raftnode.core.types import Endpoint
from raftnode.errors import DecodeError
from raftnode.hosts import HostsFile
from raftnode.session import answers
from raftnode.session.answers import AnswerKind

_PROBES = {
    "TCP_KEEPIDLE": 1,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": 2,
    "TCP_USER_TIMEOUT": 3000,
}
"""Socket options, seconds and milliseconds: a connection is lost after some 3 s without an answer
of the other's system, whether or not something is under way."""


_OF_THIS_NODE = frozenset({"AUTHENTICATION_FAILED", "INCONSISTENT_CLUSTER_ID"})
"""Refusals of one node that another may not share: it has newer tokens, or is of the cluster that
is meant. Each node is asked once more at most, not until the deadline."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The client's timeouts, in milliseconds."""

    total_ms: int
    """The default limit of a whole call, retries included."""
    attempt_ms: int
    """One node's answer to a read, its asked-for wait not counted; a write has all the time."""
    connect_ms: int
    backoff_ms: int
    """The first wait after no node could serve a call; it doubles."""
    backoff_max_ms: int


class Asker:
    """Sends requests to the nodes of one quorum: to any node, the leader, or a given node."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        patience: Patience,
        *,
        hosts_file: Path | None,
        resolver: AbstractResolver | None,
        rng: random.Random,
        keepalive: bool = False,
        sessions: bool = False,
        files: CredentialFiles | None = None,
    ) -> None:
        if not endpoints:
            raise ValueError("no endpoint given; a client needs at least one host:port")
        self._endpoints = tuple(dict.fromkeys(endpoints))
        self._patience = patience
        self._hosts_file = hosts_file
        self._resolver = resolver
        self._rng = rng
        self._files = files or CredentialFiles(NO_CREDENTIALS)
        self._keepalive = keepalive
        self._session: aiohttp.ClientSession | None = None
        self._wants_sessions = sessions
        self._sessions: Sessions | None = None
        self.leader: Endpoint | None = None
        """The endpoint that last answered as leader; it may be outdated."""
        self._reader: Endpoint | None = None

    async def open(self) -> None:
        """Open the session; the caller closes it.

        Raises:
            CredentialsError: a file of the credentials cannot be used.
        """
        self._files.refresh()
        resolver = self._resolver
        if self._hosts_file is not None:
            resolver = HostsFileResolver(HostsFile(self._hosts_file), resolver)
        # No DNS cache: a replaced pod keeps its name and changes its address.
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            resolver=resolver,
            socket_factory=_probed_socket if self._keepalive else None,
        )
        self._session = aiohttp.ClientSession(
            connector=connector, trace_configs=[send_once_trace()], auto_decompress=False
        )
        if self._wants_sessions:
            # The hooks are for requests; each operation of a session is in one message only.
            self._sessions = Sessions(
                aiohttp.ClientSession(
                    connector=connector,
                    connector_owner=False,
                    trace_configs=[refuse_redirects_trace()],
                ),
                connect_timeout_s=self._patience.connect_ms / 1000,
            )

    async def close(self) -> None:
        """Close all connections."""
        if self._sessions is not None:
            await self._sessions.close()
            self._sessions = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def total_ms(self, timeout_ms: int | None) -> int:
        """Return the limit of a whole call."""
        return self._patience.total_ms if timeout_ms is None else timeout_ms

    async def ask_with_timeout(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_ms: int | None,
        leader: bool = True,
    ) -> Answer:
        """Ask nodes until one node serves the call, with the node's own timeout in the query.

        Raises: as `ask`.
        """
        total_ms = self.total_ms(timeout_ms)
        write = method != "GET"
        within_ms = total_ms if write else min(total_ms, self._patience.attempt_ms)
        asked = {**(query or {}), "timeout_ms": str(answer_within_ms(within_ms))}
        path = f"{path}?{urlencode(asked, quote_via=quote)}"
        return await self.ask(
            Call(method, path, body, content_type, write), total_ms, leader=leader
        )

    async def ask(
        self, call: Call | SessionCall, total_ms: int, *, leader: bool, wait_ms: int = 0
    ) -> Answer:
        """Ask nodes until one node serves the call, by the rule of this package.

        Raises:
            UnavailableError, RefusedError, OutcomeUnknownError: as they say.
        """
        deadline_s = time.monotonic() + total_ms / 1000
        search = LeaderSearch(self._endpoints, self._first(leader=leader), self._rng)
        said: dict[Endpoint, str] = {}
        denied: RefusedError | None = None
        rounds = 0
        while (left_s := deadline_s - time.monotonic()) > 0:
            endpoint = search.next()
            if endpoint is None:
                if denied is not None:
                    raise denied
                pause_ms = backoff_ms(
                    rounds,
                    first_ms=self._patience.backoff_ms,
                    max_ms=self._patience.backoff_max_ms,
                    rng=self._rng,
                )
                await asyncio.sleep(min(pause_ms / 1000, left_s))
                rounds += 1
                search.begin_round(self._first(leader=leader))
                continue
            limit_s = (self._patience.attempt_ms + wait_ms) / 1000
            attempt_s = left_s if call.write else min(left_s, limit_s)
            answer = await self._attempt(endpoint, call, attempt_s, said)
            if answer is None:
                self._forget(endpoint)
            elif answer.ok:
                self._remember(endpoint, leader=leader)
                return answer
            elif self._is_outdated(answer):
                search.again(endpoint)
            else:
                denied = self._take_refusal(call, answer, search, said) or denied
        raise denied or UnavailableError(str(call), said)

    async def _attempt(
        self,
        endpoint: Endpoint,
        call: Call | SessionCall,
        timeout_s: float,
        said: dict[Endpoint, str],
    ) -> Answer | None:
        """Ask one node; None: the client may ask another node."""
        if self._session is None:
            raise RuntimeError("the client is not open; use it as an async context manager")
        loaded = self._files.current()
        try:
            if not isinstance(call, Call):
                return await self._operate(self._session, endpoint, call, timeout_s, loaded)
            return await self._exchange(self._session, endpoint, call, timeout_s, loaded)
        except NotSentError as error:
            _note(said, endpoint, f"cannot connect: {error}", error)
        except CutError as error:
            if call.write:
                self._forget(endpoint)
                raise OutcomeUnknownError(str(call), str(error), endpoint=endpoint) from error
            _note(said, endpoint, str(error), error)
        return None

    async def _exchange(
        self,
        http: aiohttp.ClientSession,
        endpoint: Endpoint,
        call: Call,
        timeout_s: float,
        loaded: LoadedCredentials,
    ) -> Answer:
        return await exchange(
            http,
            endpoint,
            call,
            timeout_s=timeout_s,
            connect_timeout_s=min(timeout_s, self._patience.connect_ms / 1000),
            loaded=loaded,
        )

    async def _operate(
        self,
        http: aiohttp.ClientSession,
        endpoint: Endpoint,
        call: SessionCall,
        timeout_s: float,
        loaded: LoadedCredentials,
    ) -> Answer:
        """Ask through the session with a node, or over HTTP if the node has none for it."""
        until_s = time.monotonic() + timeout_s
        if self._sessions is not None:
            try:
                session = await self._sessions.to(endpoint, loaded, timeout_s=timeout_s)
                kind, body = call.for_session(session.greeting)
                answer = await session.ask(kind, body, until_s - time.monotonic())
            except NoSessionsError:
                pass
            else:
                return _answer_of(endpoint, answer, session.credentials)
        left_s = until_s - time.monotonic()
        over_http = call.over_http(answer_within_ms(int(left_s * 1000)))
        return await self._exchange(http, endpoint, over_http, left_s, loaded)

    def _is_outdated(self, answer: Answer) -> bool:
        """Whether the node refused credentials of which there are newer ones by now."""
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return False
        error = answer.decode_error()
        if error is None or error.outcome != "not_done":
            return False
        version = self._files.refresh().version
        if answer.credentials == version:
            return False
        if self._sessions is not None:
            self._sessions.retire(answer.endpoint, before=version)
        return True

    def _take_refusal(
        self,
        call: Call | SessionCall,
        answer: Answer,
        search: LeaderSearch,
        said: dict[Endpoint, str],
    ) -> RefusedError | None:
        """Continue after an answer that is not 2xx, or raise its error.

        Returns:
            What to raise if no other node serves the call either; None: the client may wait and
            ask again.
        """
        endpoint = answer.endpoint
        error = answer.decode_error()
        if error is None or error.outcome == "unknown":
            reason = f"{error.error}: {error.message}" if error else f"HTTP {answer.status}"
            if call.write:
                raise OutcomeUnknownError(str(call), reason, endpoint=endpoint, answer=error)
            said[endpoint] = reason
            self._forget(endpoint)
            return None
        if error.error in _OF_THIS_NODE and error.outcome == "not_done":
            said[endpoint] = f"{error.error}: {error.message}"
            self._forget(endpoint)
            return RefusedError(error, status=answer.status, endpoint=endpoint)
        if answer.status not in RETRIABLE_STATUSES:
            raise RefusedError(error, status=answer.status, endpoint=endpoint)
        said[endpoint] = f"{error.error}: {error.message}"
        if error.error == "NOT_LEADER":
            self._forget(endpoint)
        if error.leader_api is not None:
            hinted = Endpoint.parse(error.leader_api)
            if hinted != endpoint:
                search.hint(hinted)
                self.leader = hinted
        return None

    async def ask_one(self, endpoint: Endpoint, call: Call, timeout_ms: int | None) -> Answer:
        """Ask one node, and no other node; again only if it refuses credentials that have changed.

        Raises:
            UnavailableError, RefusedError, OutcomeUnknownError, UnexpectedAnswerError: as they say.
        """
        said: dict[Endpoint, str] = {}
        until_s = time.monotonic() + self.total_ms(timeout_ms) / 1000
        answer = await self._attempt(endpoint, call, until_s - time.monotonic(), said)
        if answer is not None and self._is_outdated(answer):
            answer = await self._attempt(endpoint, call, until_s - time.monotonic(), said)
        if answer is None:
            raise UnavailableError(str(call), said)
        if answer.ok:
            return answer
        error = answer.decode_error()
        if error is not None and (error.outcome == "not_done" or not call.write):
            raise RefusedError(error, status=answer.status, endpoint=endpoint)
        reason = f"{error.error}: {error.message}" if error else f"HTTP {answer.status}"
        if call.write:
            raise OutcomeUnknownError(str(call), reason, endpoint=endpoint, answer=error)
        raise UnexpectedAnswerError(f"{call} at {endpoint}: {reason}")

    def _first(self, *, leader: bool) -> Endpoint | None:
        return self.leader if leader else self._reader or self.leader

    def _remember(self, endpoint: Endpoint, *, leader: bool) -> None:
        if leader:
            self.leader = endpoint
        else:
            self._reader = endpoint

    def _forget(self, endpoint: Endpoint) -> None:
        if self.leader == endpoint:
            self.leader = None
        if self._reader == endpoint:
            self._reader = None


def _note(said: dict[Endpoint, str], endpoint: Endpoint, reason: str, error: AttemptError) -> None:
    """Keep the reason; the deadline of the whole call is none if there is an earlier one."""
    if not error.timed_out or endpoint not in said:
        said[endpoint] = reason


def _answer_of(endpoint: Endpoint, answer: answers.Answer, credentials: int) -> Answer:
    if answer.kind == AnswerKind.REFUSED:
        try:
            refusal = answers.decode_refusal(answer.body)
        except DecodeError as error:  # the operation may have been carried out all the same
            raise CutError(str(error)) from None
        return Answer(endpoint, refusal.status, {}, refusal.error, credentials=credentials)
    return Answer(endpoint, 200, {}, b"", answer, credentials)


def _probed_socket(address: Any) -> socket.socket:
    """A socket whose connection the system probes while it is idle; as `getaddrinfo` tells."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
