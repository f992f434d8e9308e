"""The async client: a method for each operation of a quorum or a node."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

from aiohttp.abc import AbstractResolver

from raftnode.api.media import BINARY
from raftnode.api.model import (
    AddVoterRequest,
    Appended,
    AppendRequest,
    CancelReassignmentRequest,
    FormRequest,
    JoinRequest,
    KeyList,
    NewRecordIn,
    NodeInfo,
    NodeState,
    QuorumInfo,
    RaftVersionInfo,
    ReassignmentAccepted,
    ReassignRequest,
    RemoveVoterRequest,
    Replica,
    ResignRequest,
    TargetSpec,
    UpgradeRequest,
    VoterChanged,
    VoterRecord,
    VoterSpec,
)
from raftnode.api.queries import Consistency
from raftnode.client.bodies import (
    decode,
    decode_appended,
    decode_page,
    decode_value,
    decode_write,
    key_path,
    post,
)
from raftnode.client.client_settings import ClientSettings
from raftnode.client.credential_files import CredentialFiles
from raftnode.client.credentials import NO_CREDENTIALS, Credentials
from raftnode.client.errors import RefusedError
from raftnode.client.exchange import (
    Answer,
    AppendCall,
    Call,
    OperationCall,
    SessionCall,
    answer_within_ms,
)
from raftnode.client.requests_to_nodes import Asker, Patience
from raftnode.client.values import Listing, LogPage, LogRecord, Value
from raftnode.core.types import Endpoint
from raftnode.session.operations import Kind, get_body, put_body, read_body

CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class QuorumClient:
    """A client of one quorum; an async context manager.

    Args:
        endpoints: API endpoints to begin with; any of them leads to the leader.
        timeout_ms: how long a call may take in all, retries included, unless it says
            otherwise.
        hosts_file: names in the form of /etc/hosts, asked before DNS.
        resolver: asked instead of DNS; with `hosts_file`, after it.
        sessions: whether writes and reads go through sessions, many in a message; False: each is
            an HTTP request. A node without sessions is asked over HTTP in any case.
        settings: timeouts of single attempts, pauses between them and their jitter, the probing of
            connections.
        credentials: TLS, client certificate and token; the client reads the files again when they
            change.
        cluster_id: the quorum that is meant: nodes of another one refuse every request. None: any.

    Raises:
        ValueError: no endpoint, or something that is no cluster id.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        timeout_ms: int = 10_000,
        hosts_file: Path | None = None,
        resolver: AbstractResolver | None = None,
        sessions: bool = True,
        settings: ClientSettings | None = None,
        credentials: Credentials = NO_CREDENTIALS,
        cluster_id: str | None = None,
    ) -> None:
        settings = settings or ClientSettings()
        if cluster_id is not None and not CLUSTER_ID.fullmatch(cluster_id):
            raise ValueError(
                f"cluster_id is {cluster_id!r}; expected 1 to 64 letters, digits, '_', '.' or '-', "
                "the first a letter or a digit"
            )
        patience = Patience(
            total_ms=timeout_ms,
            attempt_ms=settings.attempt_timeout_ms,
            connect_ms=settings.connect_timeout_ms,
            backoff_ms=settings.retry_backoff_ms,
            backoff_max_ms=settings.retry_backoff_max_ms,
        )
        self._asker = Asker(
            endpoints,
            patience,
            hosts_file=hosts_file,
            resolver=resolver,
            rng=settings.rng or random.Random(),  # noqa: S311 - jitter, not a secret
            keepalive=settings.keepalive,
            sessions=sessions,
            files=CredentialFiles.of(credentials, cluster_id),
        )

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            CredentialsError: a file of the credentials cannot be used.
        """
        await self._asker.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._asker.close()

    @property
    def leader(self) -> Endpoint | None:
        """The endpoint that last answered as leader: a guess, for display."""
        return self._asker.leader

    # One node.

    async def describe_node(self, endpoint: Endpoint, *, timeout_ms: int | None = None) -> NodeInfo:
        """Describe a node; asks that node, once.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        answer = await self._asker.ask_one(endpoint, Call("GET", "/v1/node"), timeout_ms)
        return decode(answer, NodeInfo)

    async def node_state(
        self, endpoint: Endpoint, *, known: str = "", max_wait_ms: int = 0, timeout_ms: int
    ) -> NodeState:
        """Wait until a node's state differs from the known one, or for `max_wait_ms`.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        query = urlencode({"known": known, "max_wait_ms": str(max_wait_ms)})
        call = Call("GET", f"/v1/node/state?{query}")
        return decode(await self._asker.ask_one(endpoint, call, timeout_ms), NodeState)

    async def form(
        self, endpoint: Endpoint, request: FormRequest, *, timeout_ms: int | None = None
    ) -> NodeInfo:
        """Send a blank node its latch, once; a node accepts the same latch again (S18).

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        answer = await self._asker.ask_one(endpoint, post("/v1/form", request), timeout_ms)
        return decode_write(answer, NodeInfo)

    async def join(
        self, endpoint: Endpoint, request: JoinRequest, *, timeout_ms: int | None = None
    ) -> NodeInfo:
        """Send a blank node the cluster id of the quorum that it will observe, once (S5).

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        answer = await self._asker.ask_one(endpoint, post("/v1/join", request), timeout_ms)
        return decode_write(answer, NodeInfo)

    async def resign_node(self, endpoint: Endpoint, *, timeout_ms: int | None = None) -> NodeInfo:
        """Make this node transfer leadership; a newer leader keeps it.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        call = post("/v1/quorum/resign", ResignRequest())
        answer = await self._asker.ask_one(endpoint, call, timeout_ms)
        return decode_write(answer, NodeInfo)

    # The quorum.

    async def describe_quorum(
        self, *, confirmed: bool = False, timeout_ms: int | None = None
    ) -> QuorumInfo:
        """Describe the quorum; `confirmed`: a majority has confirmed the leader (S11).

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        query = {"confirmed": "true"} if confirmed else {}
        answer = await self._asker.ask_with_timeout(
            "GET", "/v1/quorum", query, timeout_ms=timeout_ms
        )
        return decode(answer, QuorumInfo)

    async def add_voter(
        self,
        voter: VoterSpec,
        expected: VoterRecord,
        *,
        replaces: Replica | None = None,
        timeout_ms: int | None = None,
    ) -> VoterChanged:
        """AddVoter by compare-and-set (S11); after an unknown outcome, decide again.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._asker.total_ms(timeout_ms)
        request = AddVoterRequest(
            voter=voter,
            expected=expected,
            replaces=replaces,
            timeout_ms=answer_within_ms(total_ms),
        )
        call = post("/v1/quorum/voters", request)
        return decode_write(await self._asker.ask(call, total_ms, leader=True), VoterChanged)

    async def remove_voter(
        self, voter: Replica, expected: VoterRecord, *, timeout_ms: int | None = None
    ) -> VoterChanged:
        """RemoveVoter by compare-and-set (S11); after an unknown outcome, describe first.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._asker.total_ms(timeout_ms)
        request = RemoveVoterRequest(
            voter=voter, expected=expected, timeout_ms=answer_within_ms(total_ms)
        )
        call = post("/v1/quorum/voters/remove", request)
        return decode_write(await self._asker.ask(call, total_ms, leader=True), VoterChanged)

    async def reassign(
        self,
        targets: Sequence[TargetSpec],
        expected: VoterRecord,
        *,
        timeout_ms: int | None = None,
    ) -> ReassignmentAccepted:
        """Set the target voters (P33); the leader takes the steps after this returns.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._asker.total_ms(timeout_ms)
        request = ReassignRequest(
            targets=tuple(targets), expected=expected, timeout_ms=answer_within_ms(total_ms)
        )
        call = post("/v1/quorum/reassignment", request)
        return decode_write(
            await self._asker.ask(call, total_ms, leader=True), ReassignmentAccepted
        )

    async def cancel_reassignment(self, *, timeout_ms: int | None = None) -> ReassignmentAccepted:
        """Cancel a reassignment (P35); it is no error if there is none.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._asker.total_ms(timeout_ms)
        request = CancelReassignmentRequest(timeout_ms=answer_within_ms(total_ms))
        call = post("/v1/quorum/reassignment/cancel", request)
        return decode_write(
            await self._asker.ask(call, total_ms, leader=True), ReassignmentAccepted
        )

    async def upgrade(self, raft_version: int, *, timeout_ms: int | None = None) -> RaftVersionInfo:
        """Raise raft.version (P56); it is no error if the quorum has that version already.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        total_ms = self._asker.total_ms(timeout_ms)
        request = UpgradeRequest(raft_version=raft_version, timeout_ms=answer_within_ms(total_ms))
        call = post("/v1/quorum/raft-version", request)
        return decode_write(await self._asker.ask(call, total_ms, leader=True), RaftVersionInfo)

    async def resign(
        self, *, preferred: Replica | None = None, timeout_ms: int | None = None
    ) -> NodeInfo:
        """Make the leader transfer leadership.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        call = post("/v1/quorum/resign", ResignRequest(preferred=preferred))
        answer = await self._asker.ask(call, self._asker.total_ms(timeout_ms), leader=True)
        self._asker.leader = None
        return decode_write(answer, NodeInfo)

    # Writes.

    async def append(self, values: Sequence[bytes], *, timeout_ms: int | None = None) -> Appended:
        """Append raw records together and wait for the commit.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        call = AppendCall(values, partial(_append_over_http, values))
        return decode_appended(await self._ask_leader(call, timeout_ms))

    async def put(self, key: str, value: bytes, *, timeout_ms: int | None = None) -> Appended:
        """Write a key and wait for the commit.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
            ValueError: the key does not fit into an operation; nothing was sent.
        """
        call = OperationCall(
            Kind.PUT, put_body(key.encode(), value), partial(_put_over_http, key, value)
        )
        return decode_appended(await self._ask_leader(call, timeout_ms))

    async def delete(self, key: str, *, timeout_ms: int | None = None) -> Appended:
        """Delete a key and wait for the commit; it is no error if the key does not exist.

        Raises:
            NotDoneError, OutcomeUnknownError: as they say.
        """
        call = OperationCall(Kind.DELETE, key.encode(), partial(_delete_over_http, key))
        return decode_appended(await self._ask_leader(call, timeout_ms))

    async def _ask_leader(self, call: SessionCall, timeout_ms: int | None) -> Answer:
        return await self._asker.ask(call, self._asker.total_ms(timeout_ms), leader=True)

    # Reads.

    async def get(
        self,
        key: str,
        *,
        consistency: Consistency = "linearizable",
        timeout_ms: int | None = None,
    ) -> Value | None:
        """Read a key; None if it has no value.

        Raises:
            UnavailableError, RefusedError, UnexpectedAnswerError: as they say.
        """
        linearizable = consistency == "linearizable"
        call = OperationCall(
            Kind.GET,
            get_body(key.encode(), linearizable=linearizable),
            partial(_get_over_http, key, consistency),
        )
        total_ms = self._asker.total_ms(timeout_ms)
        try:
            answer = await self._asker.ask(call, total_ms, leader=linearizable)
        except RefusedError as error:
            if error.error == "KEY_NOT_FOUND":
                return None
            raise
        return decode_value(answer)

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
        answer = await self._asker.ask_with_timeout(
            "GET", "/v1/kv", query, timeout_ms=timeout_ms, leader=consistency == "linearizable"
        )
        return Listing.of(decode(answer, KeyList))

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
            ValueError: an argument does not fit into an operation.
        """
        call = OperationCall(
            Kind.READ,
            read_body(offset, max_bytes, max_wait_ms),
            partial(_read_over_http, offset, max_bytes, max_wait_ms),
        )
        total_ms = self._asker.total_ms(timeout_ms) + max_wait_ms
        answer = await self._asker.ask(call, total_ms, leader=False, wait_ms=max_wait_ms)
        return decode_page(answer)

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


def _append_over_http(values: Sequence[bytes], timeout_ms: int) -> Call:
    records = tuple(NewRecordIn(value=base64.b64encode(value).decode()) for value in values)
    body = AppendRequest(records=records).model_dump_json().encode()
    return Call("POST", f"/v1/log?timeout_ms={timeout_ms}", body, write=True)


def _put_over_http(key: str, value: bytes, timeout_ms: int) -> Call:
    return Call("PUT", f"{key_path(key)}?timeout_ms={timeout_ms}", value, BINARY, write=True)


def _delete_over_http(key: str, timeout_ms: int) -> Call:
    return Call("DELETE", f"{key_path(key)}?timeout_ms={timeout_ms}", write=True)


def _get_over_http(key: str, consistency: Consistency, timeout_ms: int) -> Call:
    return Call("GET", f"{key_path(key)}?consistency={consistency}&timeout_ms={timeout_ms}")


def _read_over_http(offset: int, max_bytes: int, max_wait_ms: int, _timeout_ms: int) -> Call:
    query = {"offset": offset, "max_bytes": max_bytes, "max_wait_ms": max_wait_ms}
    return Call("GET", f"/v1/log?{urlencode(query)}")
