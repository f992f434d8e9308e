"""The async client: finds the leader, keeps the deadline, never reports a write twice."""

from __future__ import annotations

import asyncio
import base64
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.abc import AbstractResolver
from pydantic import ValidationError

from raftnode.api.errors import RETRIABLE_STATUSES
from raftnode.api.http import BINARY, HEADER_EPOCH, HEADER_OFFSET
from raftnode.api.model import (
    AddVoterRequest,
    ApiModel,
    Appended,
    AppendRequest,
    FormRequest,
    JoinRequest,
    KeyList,
    NewRecordIn,
    NodeInfo,
    QuorumInfo,
    ReadResult,
    RemoveVoterRequest,
    Replica,
    ResignRequest,
    VoterChanged,
    VoterRecord,
    VoterSpec,
)
from raftnode.api.queries import Consistency
from raftnode.client.errors import (
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from raftnode.client.exchange import (
    Answer,
    Call,
    CutError,
    NotSentError,
    exchange,
    send_once_trace,
)
from raftnode.client.hosts import HostsFileResolver
from raftnode.client.leader_search import LeaderSearch, backoff_ms
from raftnode.client.values import Listing, LogPage, LogRecord, Value
from raftnode.core.types import Endpoint
from raftnode.hosts import HostsFile

ModelT = TypeVar("ModelT", bound=ApiModel)

_ANSWER_SHARE = 0.9
"""The node gets this share of the time left, so that its own answer comes before the cut."""


class QuorumClient:
    """A client of one quorum; an async context manager.

    Args:
        endpoints: API endpoints to begin with; any of them leads to the leader.
        timeout_ms: how long a call may take in all, retries included, unless it says
            otherwise.
        attempt_timeout_ms: how long one node may take to answer a read, its asked-for
            wait not counted, before another is asked; a write has the whole deadline,
            since it must not be sent to another.
        connect_timeout_ms: how long a connection may take to come about.
        retry_backoff_ms: the first wait after nobody could serve a call; doubles.
        retry_backoff_max_ms: the longest such wait.
        hosts_file: names in the form of /etc/hosts, asked before DNS.
        resolver: asked instead of DNS; with `hosts_file`, after it.
        rng: for the order of asking and the jitter; None: a random one.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        timeout_ms: int = 10_000,
        attempt_timeout_ms: int = 2_000,
        connect_timeout_ms: int = 1_000,
        retry_backoff_ms: int = 20,
        retry_backoff_max_ms: int = 1_000,
        hosts_file: Path | None = None,
        resolver: AbstractResolver | None = None,
        rng: random.Random | None = None,
    ) -> None:
        if not endpoints:
            raise ValueError("a client needs at least one endpoint")
        self._endpoints = tuple(dict.fromkeys(endpoints))
        self._timeout_ms = timeout_ms
        self._attempt_timeout_ms = attempt_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._hosts_file = hosts_file
        self._resolver = resolver
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._session: aiohttp.ClientSession | None = None
        self._leader: Endpoint | None = None
        self._reader: Endpoint | None = None

    async def __aenter__(self) -> Self:
        resolver = self._resolver
        if self._hosts_file is not None:
            resolver = HostsFileResolver(HostsFile(self._hosts_file), resolver)
        # No DNS cache: a replaced pod keeps its name and changes its address.
        connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False, resolver=resolver)
        self._session = aiohttp.ClientSession(
            connector=connector, trace_configs=[send_once_trace()], auto_decompress=False
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def leader(self) -> Endpoint | None:
        """The endpoint that last answered as leader: a guess, for display."""
        return self._leader

    # One node.

    async def describe_node(self, endpoint: Endpoint, *, timeout_ms: int | None = None) -> NodeInfo:
        """Ask a node about itself, once.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        answer = await self._ask_one(endpoint, Call("GET", "/v1/node"), timeout_ms)
        return _decode(answer, NodeInfo)

    async def form(
        self, endpoint: Endpoint, request: FormRequest, *, timeout_ms: int | None = None
    ) -> NodeInfo:
        """Give a blank node its latch, once; a node takes the same latch again (S18).

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        answer = await self._ask_one(endpoint, _post("/v1/form", request), timeout_ms)
        return _decode_write(answer, NodeInfo)

    async def join(
        self, endpoint: Endpoint, request: JoinRequest, *, timeout_ms: int | None = None
    ) -> NodeInfo:
        """Give a blank node the cluster id that it is to observe, once (S5).

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        answer = await self._ask_one(endpoint, _post("/v1/join", request), timeout_ms)
        return _decode_write(answer, NodeInfo)

    # The quorum.

    async def describe_quorum(
        self, *, confirmed: bool = False, timeout_ms: int | None = None
    ) -> QuorumInfo:
        """Ask the leader; `confirmed`: a majority agreed that it leads (S11).

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        query = {"confirmed": "true"} if confirmed else {}
        answer = await self._ask_leader("GET", "/v1/quorum", query, timeout_ms=timeout_ms)
        return _decode(answer, QuorumInfo)

    async def add_voter(
        self,
        voter: VoterSpec,
        expected: VoterRecord,
        *,
        replaces: Replica | None = None,
        timeout_ms: int | None = None,
    ) -> VoterChanged:
        """AddVoter by compare-and-set (S11); after an unknown outcome, look and decide anew.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._total(timeout_ms)
        request = AddVoterRequest(
            voter=voter,
            expected=expected,
            replaces=replaces,
            timeout_ms=_answer_within(total_ms),
        )
        call = _post("/v1/quorum/voters", request)
        return _decode_write(await self._ask(call, total_ms, leader=True), VoterChanged)

    async def remove_voter(
        self, voter: Replica, expected: VoterRecord, *, timeout_ms: int | None = None
    ) -> VoterChanged:
        """RemoveVoter by compare-and-set (S11); after an unknown outcome, look first.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._total(timeout_ms)
        request = RemoveVoterRequest(
            voter=voter, expected=expected, timeout_ms=_answer_within(total_ms)
        )
        call = _post("/v1/quorum/voters/remove", request)
        return _decode_write(await self._ask(call, total_ms, leader=True), VoterChanged)

    async def resign(
        self, *, preferred: Replica | None = None, timeout_ms: int | None = None
    ) -> NodeInfo:
        """Make the leader hand leadership over.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        call = _post("/v1/quorum/resign", ResignRequest(preferred=preferred))
        answer = await self._ask(call, self._total(timeout_ms), leader=True)
        self._leader = None
        return _decode_write(answer, NodeInfo)

    # Writes.

    async def append(self, values: Sequence[bytes], *, timeout_ms: int | None = None) -> Appended:
        """Append raw records together and wait for the commit.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        records = tuple(NewRecordIn(value=base64.b64encode(value).decode()) for value in values)
        answer = await self._ask_leader(
            "POST",
            "/v1/log",
            body=AppendRequest(records=records).model_dump_json().encode(),
            timeout_ms=timeout_ms,
        )
        return _decode_write(answer, Appended)

    async def put(self, key: str, value: bytes, *, timeout_ms: int | None = None) -> Appended:
        """Write a key and wait for the commit.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        answer = await self._ask_leader(
            "PUT", _key_path(key), body=value, content_type=BINARY, timeout_ms=timeout_ms
        )
        return _decode_write(answer, Appended)

    async def delete(self, key: str, *, timeout_ms: int | None = None) -> Appended:
        """Delete a key and wait for the commit; no error when there is no such key.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        answer = await self._ask_leader("DELETE", _key_path(key), timeout_ms=timeout_ms)
        return _decode_write(answer, Appended)

    # Reads.

    async def get(
        self,
        key: str,
        *,
        consistency: Consistency = "linearizable",
        timeout_ms: int | None = None,
    ) -> Value | None:
        """Read a key; None when it has no value.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        try:
            answer = await self._ask_leader(
                "GET",
                _key_path(key),
                {"consistency": consistency},
                timeout_ms=timeout_ms,
                leader=consistency == "linearizable",
            )
        except RefusedError as error:
            if error.error == "KEY_NOT_FOUND":
                return None
            raise
        try:
            return Value(
                answer.body, int(answer.headers[HEADER_OFFSET]), int(answer.headers[HEADER_EPOCH])
            )
        except (KeyError, ValueError) as error:
            raise UnexpectedAnswerError(f"{answer.endpoint}: no {error}") from None

    async def list(
        self,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = 100,
        consistency: Consistency = "linearizable",
        timeout_ms: int | None = None,
    ) -> Listing:
        """List a page of entries in byte order of their keys.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        query = {"prefix": prefix, "limit": str(limit), "consistency": consistency}
        if after is not None:
            query["after"] = after
        answer = await self._ask_leader(
            "GET", "/v1/kv", query, timeout_ms=timeout_ms, leader=consistency == "linearizable"
        )
        return Listing.of(_decode(answer, KeyList))

    async def read(
        self,
        offset: int = 0,
        *,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> LogPage:
        """Read committed records from any node; `max_wait_ms` comes on top of the deadline.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        query = {"offset": offset, "max_bytes": max_bytes, "max_wait_ms": max_wait_ms}
        call = Call("GET", f"/v1/log?{urlencode(query)}")
        total_ms = self._total(timeout_ms) + max_wait_ms
        answer = await self._ask(call, total_ms, leader=False, wait_ms=max_wait_ms)
        return LogPage.of(_decode(answer, ReadResult))

    async def follow(
        self, offset: int = 0, *, max_wait_ms: int = 5_000, timeout_ms: int | None = None
    ) -> AsyncIterator[LogRecord]:
        """Yield committed records from `offset` on, for ever, each once and in order.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say; the
                caller may go on from the last offset plus one.
        """
        while True:
            page = await self.read(offset, max_wait_ms=max_wait_ms, timeout_ms=timeout_ms)
            for record in page.records:
                yield record
            offset = page.next_offset

    # How.

    def _total(self, timeout_ms: int | None) -> int:
        return self._timeout_ms if timeout_ms is None else timeout_ms

    async def _ask_leader(
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
        """Ask with the node's own time-out in the query."""
        total_ms = self._total(timeout_ms)
        write = method != "GET"
        within_ms = total_ms if write else min(total_ms, self._attempt_timeout_ms)
        asked = {**(query or {}), "timeout_ms": str(_answer_within(within_ms))}
        path = f"{path}?{urlencode(asked, quote_via=quote)}"
        return await self._ask(
            Call(method, path, body, content_type, write), total_ms, leader=leader
        )

    async def _ask(self, call: Call, total_ms: int, *, leader: bool, wait_ms: int = 0) -> Answer:
        """Ask until one serves the call, by the rule of this package."""
        deadline_s = time.monotonic() + total_ms / 1000
        search = LeaderSearch(self._endpoints, self._first(leader=leader), self._rng)
        said: dict[Endpoint, str] = {}
        rounds = 0
        while (left_s := deadline_s - time.monotonic()) > 0:
            endpoint = search.next()
            if endpoint is None:
                pause_ms = backoff_ms(
                    rounds,
                    first_ms=self._retry_backoff_ms,
                    max_ms=self._retry_backoff_max_ms,
                    rng=self._rng,
                )
                await asyncio.sleep(min(pause_ms / 1000, left_s))
                rounds += 1
                search.begin_round(self._first(leader=leader))
                continue
            limit_s = (self._attempt_timeout_ms + wait_ms) / 1000
            attempt_s = left_s if call.write else min(left_s, limit_s)
            answer = await self._attempt(endpoint, call, attempt_s, said)
            if answer is None:
                self._forget(endpoint)
            elif answer.ok:
                self._remember(endpoint, leader=leader)
                return answer
            else:
                self._take_refusal(call, answer, search, said)
        raise UnavailableError(str(call), said)

    async def _attempt(
        self, endpoint: Endpoint, call: Call, timeout_s: float, said: dict[Endpoint, str]
    ) -> Answer | None:
        """Ask one node; None when another may be asked."""
        if self._session is None:
            raise RuntimeError("use the client as an async context manager")
        try:
            return await exchange(
                self._session,
                endpoint,
                call,
                timeout_s=timeout_s,
                connect_timeout_s=min(timeout_s, self._connect_timeout_ms / 1000),
            )
        except NotSentError as error:
            said[endpoint] = f"not reached: {error}"
        except CutError as error:
            if call.write:
                self._forget(endpoint)
                raise OutcomeUnknownError(str(call), str(error), endpoint=endpoint) from error
            said[endpoint] = str(error)
        return None

    def _take_refusal(
        self, call: Call, answer: Answer, search: LeaderSearch, said: dict[Endpoint, str]
    ) -> None:
        """Go on after an answer that is not 2xx, or raise what it means."""
        endpoint = answer.endpoint
        error = answer.decode_error()
        if error is None or error.outcome == "unknown":
            reason = f"{error.error}: {error.message}" if error else f"HTTP {answer.status}"
            if call.write:
                raise OutcomeUnknownError(str(call), reason, endpoint=endpoint, answer=error)
            said[endpoint] = reason
            self._forget(endpoint)
            return
        if answer.status not in RETRIABLE_STATUSES:
            raise RefusedError(error, status=answer.status, endpoint=endpoint)
        said[endpoint] = f"{error.error}: {error.message}"
        if error.error == "NOT_LEADER":
            self._forget(endpoint)
        if error.leader_api is not None:
            hinted = Endpoint.parse(error.leader_api)
            if hinted != endpoint:
                search.hint(hinted)
                self._leader = hinted

    async def _ask_one(self, endpoint: Endpoint, call: Call, timeout_ms: int | None) -> Answer:
        """Ask one node and no other, once."""
        said: dict[Endpoint, str] = {}
        answer = await self._attempt(endpoint, call, self._total(timeout_ms) / 1000, said)
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
        return self._leader if leader else self._reader or self._leader

    def _remember(self, endpoint: Endpoint, *, leader: bool) -> None:
        if leader:
            self._leader = endpoint
        else:
            self._reader = endpoint

    def _forget(self, endpoint: Endpoint) -> None:
        if self._leader == endpoint:
            self._leader = None
        if self._reader == endpoint:
            self._reader = None


def _decode(answer: Answer, model: type[ModelT]) -> ModelT:
    try:
        return answer.decode(model)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise UnexpectedAnswerError(
            f"{answer.endpoint} answered no {model.__name__}: {fault['loc']}: {fault['msg']}"
        ) from None


def _decode_write(answer: Answer, model: type[ModelT]) -> ModelT:
    """Read the answer of a write: if it says nothing, whoever said it may be no node of ours."""
    try:
        return _decode(answer, model)
    except UnexpectedAnswerError as error:
        raise OutcomeUnknownError("the write", str(error), endpoint=answer.endpoint) from None


def _post(path: str, request: ApiModel) -> Call:
    return Call("POST", path, request.model_dump_json().encode(), write=True)


def _key_path(key: str) -> str:
    return f"/v1/kv/{quote(key, safe='')}"


def _answer_within(left_ms: int) -> int:
    return min(600_000, max(1, int(left_ms * _ANSWER_SHARE)))
