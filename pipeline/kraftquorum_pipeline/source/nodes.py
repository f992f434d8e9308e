"""Reads a log from the nodes of a running quorum: committed records, and nothing else.

The reader asks the nodes that are not the leader, as long as one of them answers, so that a reader
of the log does not slow down writes. After a slow answer the reader leaves the node alone for as
long as the answer took. The reader waits for a follower that does not know an offset yet, and then
asks another node. Every answer has committed records only, so any node may give it.

Each node trims its own log, and the log of a node with a new disk begins at the end of a snapshot.
So an offset is gone only if no node has it. If only nodes that do not answer can have it, the
reader waits for them for `timeoutMs`.

A follower may know an older high watermark than the leader. If the reader must know the committed
end surely, it asks a leader that a majority confirms (S11), and reads records from the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pyarrow as pa

from kraftquorum_pipeline.errors import (
    ClusterIdError,
    CorruptError,
    DeniedError,
    OptionError,
    SourceError,
    TrimmedError,
    UnreachableError,
)
from kraftquorum_pipeline.kinds import KIND_DATA
from kraftquorum_pipeline.source.interface import LogState, Part, gone
from kraftquorum_pipeline.source.options import ClientOptions, Options
from kraftquorum_pipeline.source.rows import (
    ROWS_MAX,
    Row,
    Shape,
    control_row,
    state_row,
    table_of,
    voters_row,
)
from raftnode.api.model import NodeInfo, QuorumInfo
from raftnode.client import (
    ClientError,
    ClientSettings,
    CredentialsError,
    LogPage,
    LogRecord,
    QuorumClient,
    RefusedError,
)
from raftnode.core.types import Endpoint

_WAIT_MS = 1_000
"""How long to wait for a node that does not know an offset yet, before asking another node."""

_SLOW_S = 0.25
"""An answer that took longer came from a busy node."""

_DENIED = frozenset({401, 403})
"""Statuses of a node that refuses this client, and will refuse it again."""

_LISTING = 1_000
_ROWS_BYTES = 8 << 20


@asynccontextmanager
async def client_of(
    options: ClientOptions, endpoints: Sequence[Endpoint], cluster_id: str | None = None
) -> AsyncGenerator[QuorumClient]:
    """Open a client with the given options.

    Args:
        options: from the user.
        endpoints: the nodes to ask.
        cluster_id: nodes of another cluster refuse the requests; None: any.

    Raises:
        OptionError: a file of the credentials cannot be used.
    """
    client = QuorumClient(
        endpoints,
        timeout_ms=options.timeout_ms,
        hosts_file=options.hosts_file,
        settings=ClientSettings(
            attempt_timeout_ms=options.attempt_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
            retry_backoff_ms=options.retry_backoff_ms,
            retry_backoff_max_ms=options.retry_backoff_max_ms,
        ),
        credentials=options.credentials,
        cluster_id=cluster_id,
    )
    try:
        await client.__aenter__()
    except CredentialsError as error:
        raise OptionError(str(error)) from None
    try:
        yield client
    finally:
        await client.__aexit__(None, None, None)


@dataclass(frozen=True, slots=True)
class NodesPart:
    """A range of offsets.

    Attributes:
        options: the options of the client.
        start: the first offset.
        end: one past the last offset.
        shape: the shape of the rows.
    """

    options: ClientOptions
    start: int
    end: int
    shape: Shape

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; wait for the end of an election."""
        with asyncio.Runner() as runner:
            rows = _Reader(self.options, self.shape.cluster_id).records(self.start, self.end)
            try:
                yield from _batches(runner, rows, self.shape, self.options.source)
            finally:
                runner.run(rows.aclose())


@dataclass(frozen=True, slots=True)
class StorePart:
    """The entries of the key-value store whose records are before the log's start.

    An entry whose newest record is at the log's start or later is left out, because the log has
    that record. Between two pages of the listing, entries can only leave this set, and the log
    has the records that remove them.
    """

    options: ClientOptions
    log_start: int
    shape: Shape

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries."""
        with asyncio.Runner() as runner:
            rows = _Reader(self.options, self.shape.cluster_id).entries(self.log_start)
            try:
                yield from _batches(runner, rows, self.shape, self.options.source)
            finally:
                runner.run(rows.aclose())


def _batches(
    runner: asyncio.Runner, rows: AsyncIterator[Row], shape: Shape, source: str
) -> Iterator[pa.RecordBatch]:
    async def some() -> list[Row]:
        chunk: list[Row] = []
        size = 0
        async for row in rows:
            chunk.append(row)
            size += len(row.key or b"") + len(row.value or b"")
            if len(chunk) >= ROWS_MAX or size >= _ROWS_BYTES:
                break
        return chunk

    while chunk := runner.run(some()):
        yield from table_of(chunk, shape, source)


class NodeLog:
    """The log of a running quorum."""

    def __init__(self, options: Options) -> None:
        assert options.client is not None  # noqa: S101 - the caller has checked
        self._options = options
        self._client = options.client
        self._state: LogState | None = None

    def look(self, offset: int = 0, *, surely: bool = False) -> LogState:
        """Read how far the log is committed now, as far as the nodes that answer know."""
        infos, quorum = asyncio.run(
            _look(self._client, self._options.cluster_id, offset, surely=surely)
        )
        clusters = {info.cluster_id for _, info in infos}
        if quorum is not None:
            clusters.add(quorum.cluster_id)
        if len(clusters) > 1:
            answers = ", ".join(f"{endpoint} is of {info.cluster_id}" for endpoint, info in infos)
            if quorum is not None:
                answers += f", the leader is of {quorum.cluster_id}"
            raise ClusterIdError(
                self._client.source, f"the nodes are of different clusters: {answers}"
            )
        start = min(info.log_start_offset for _, info in infos)
        ends = [info.high_watermark for _, info in infos]
        if quorum is not None:
            ends.append(quorum.high_watermark)
        note = _without(self._client, infos)
        self._state = LogState(
            self._client.source,
            clusters.pop(),
            start,
            max(ends),
            start,
            note,
            sure=quorum is not None,
        )
        return self._state

    def parts(self, start: int, end: int) -> Sequence[Part]:
        """Cut [start, end) into parts by offset."""
        state = self._state or self.look(start)
        state.check_start(start)
        shape = self._options.shape(state.cluster_id)
        parts: list[Part] = []
        if start < state.start:
            if end < state.start:
                raise TrimmedError(state.source, state.gone, end)
            parts.append(StorePart(self._client, state.start, shape))
            start = state.start
        step = self._options.partition_offsets
        parts += [
            NodesPart(self._client, low, min(low + step, end), shape)
            for low in range(start, end, step)
        ]
        return parts

    def epoch_of(self, offset: int) -> int | None:
        """Read one record for its epoch."""
        state = self._state or self.look()
        if offset < state.start:
            return None

        async def first() -> int | None:
            records = _Reader(self._client, state.cluster_id, page_bytes=1).records(
                offset, offset + 1
            )
            async for row in records:
                await records.aclose()
                return row.epoch
            return None

        return asyncio.run(first())


def _without(options: ClientOptions, infos: Sequence[tuple[Endpoint, NodeInfo]]) -> str:
    """Name the nodes that did not answer, for an error about a trimmed offset."""
    answered = {endpoint for endpoint, _ in infos}
    silent = [str(endpoint) for endpoint in options.endpoints if endpoint not in answered]
    return f" on the nodes that answered ({', '.join(silent)} did not)" if silent else ""


async def _look(
    options: ClientOptions, cluster_id: str | None, offset: int = 0, *, surely: bool = False
) -> tuple[list[tuple[Endpoint, NodeInfo]], QuorumInfo | None]:
    """Return the answers of the cluster's nodes that answer in time.

    The first answers are enough, unless no node among them has the given record: then the call
    waits for the others. It never waits for record 0, since the state stands for it. With
    `surely` the leader's answer is added. A follower is not enough for that: it may be caught up
    with a leader that was just elected and does not know yet what its predecessor committed, or
    with a leader that was deposed since.

    Raises:
        UnreachableError: no node answers; or with `surely`, no leader that a majority confirms.
        ClusterIdError: a node is of another cluster.
        DeniedError: a node refuses the credentials, and none takes them.
    """
    said: dict[Endpoint, str] = {}
    denied: dict[Endpoint, RefusedError] = {}
    deadline = time.monotonic() + options.timeout_ms / 1000
    pause_s = options.retry_backoff_ms / 1000
    quorum: QuorumInfo | None = None
    async with client_of(options, options.endpoints) as client:

        async def ask(endpoint: Endpoint) -> NodeInfo | None:
            try:
                return await client.describe_node(endpoint, timeout_ms=options.attempt_timeout_ms)
            except ClientError as error:
                said[endpoint] = str(error)
                if isinstance(error, RefusedError) and error.status in _DENIED:
                    denied[endpoint] = error
                return None

        while True:
            answers = await asyncio.gather(*map(ask, options.endpoints))
            if surely and quorum is None:
                left_ms = int(1000 * (deadline - time.monotonic()))
                quorum = await _led(client, max(1, min(left_ms, options.attempt_timeout_ms)))
            described: list[tuple[Endpoint, NodeInfo]] = []
            for endpoint, info in zip(options.endpoints, answers, strict=True):
                if info is None:
                    continue
                if info.cluster_id is None:
                    said[endpoint] = "it is blank: it has no cluster id yet"
                elif cluster_id is not None and info.cluster_id != cluster_id:
                    reason = f"it is of cluster {info.cluster_id}, not of {cluster_id}"
                    raise ClusterIdError(str(endpoint), reason)
                else:
                    described.append((endpoint, info))
            if denied and not described:
                raise DeniedError(options.source, str(next(iter(denied.values()))))
            there = any(info.log_start_offset <= offset for _, info in described)
            knows = not surely or quorum is not None
            if (
                described
                and knows
                and (not offset or there or len(described) == len(options.endpoints))
            ):
                return described, quorum
            if time.monotonic() + pause_s > deadline:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, options.retry_backoff_max_ms / 1000)
    if described and knows:
        return described, quorum
    if described:
        known = max(info.high_watermark for _, info in described)
        raise UnreachableError(
            options.source,
            "no leader with a majority of the voters answers, so it is unknown how far the "
            f"log is committed: up to offset {known} or further (in a batch, "
            f"endingOffset={known} reads up to there)",
        )
    reasons = "; ".join(f"{endpoint}: {reason}" for endpoint, reason in said.items())
    raise UnreachableError(options.source, f"no node of the quorum answered in time ({reasons})")


async def _led(client: QuorumClient, timeout_ms: int) -> QuorumInfo | None:
    """Return the answer of the current leader, if it knows what its predecessors committed.

    A majority that answered since the request has committed nothing under another leader before
    that. A leader's own LeaderChange, once committed, is after all earlier committed records.
    """
    try:
        quorum = await client.describe_quorum(confirmed=True, timeout_ms=timeout_ms)
    except ClientError:
        return None
    return quorum if quorum.confirmed and quorum.epoch_committed else None


class _Reader:
    """Reads from one node after the other, all of one cluster."""

    def __init__(
        self, options: ClientOptions, cluster_id: str | None, page_bytes: int | None = None
    ) -> None:
        self._options = options
        self._cluster_id = cluster_id
        self._page_bytes = page_bytes or options.request_bytes

    async def _choice(self, offset: int) -> tuple[list[Endpoint], list[Endpoint]]:
        """Return the nodes to ask for a record, and those to ask if none of the first answers.

        Raises:
            TrimmedError: every node that answers has trimmed it.
        """
        everyone, _ = await _look(self._options, self._cluster_id, offset)
        infos = [(endpoint, info) for endpoint, info in everyone if info.log_start_offset <= offset]
        if not infos:
            first = min(info.log_start_offset for _, info in everyone)
            reason = gone(first, _without(self._options, everyone))
            raise TrimmedError(self._options.source, reason, offset)
        leaders = [endpoint for endpoint, info in infos if info.role == "leader"]
        others = [endpoint for endpoint, _ in infos if endpoint not in leaders]
        everybody = [*others, *leaders]
        match self._options.read_from:
            case "followers":
                return others or everybody, everybody
            case "leader":
                return leaders or everybody, everybody
            case "any":
                return everybody, everybody

    async def records(self, offset: int, end: int) -> AsyncIterator[Row]:
        """Yield the records of [offset, end), each once and in order.

        Raises:
            UnreachableError, TrimmedError, CorruptError: names the offset.
        """
        deadline = self._deadline()
        while offset < end:
            chosen, everybody = await self._choice(offset)
            for asked in (chosen, everybody):
                async with client_of(self._options, asked, self._cluster_id) as client:
                    while offset < end:
                        page = await self._page(client, offset)
                        if page is None or not page.records:
                            break
                        deadline = self._deadline()
                        for record in page.records:
                            if record.offset != offset:
                                reason = f"a node answered with offset {record.offset}"
                                raise CorruptError(self._options.source, reason, offset)
                            if offset >= end:
                                return
                            yield _row(record)
                            offset += 1
                if offset >= end:
                    return
            if time.monotonic() > deadline:
                reason = "committed before, but no node returned it in time"
                raise UnreachableError(self._options.source, reason, offset)

    def _deadline(self) -> float:
        return time.monotonic() + self._options.timeout_ms / 1000

    async def _page(self, client: QuorumClient, offset: int) -> LogPage | None:
        started = time.monotonic()
        try:
            page = await client.read(
                offset,
                max_bytes=self._page_bytes,
                max_wait_ms=_WAIT_MS,
                timeout_ms=self._options.attempt_timeout_ms,
            )
        except RefusedError as error:
            if error.error == "OFFSET_OUT_OF_RANGE":
                return None  # trimmed since the choice: other nodes may have it
            raise _refused(error)(self._options.source, str(error), offset) from error
        except ClientError:
            return None
        took_s = time.monotonic() - started
        if page.records and took_s > _SLOW_S:
            await asyncio.sleep(took_s)
        return page

    async def entries(self, log_start: int) -> AsyncIterator[Row]:
        """Yield the entries of the store whose records are before the log's start.

        The last row is of the voters, unless a voter change is under way.

        Raises:
            UnreachableError: no node returns them in time.
        """
        after: str | None = None
        while True:
            # From a confirmed leader: another node's store may not have reached the log's start.
            try:
                async with client_of(
                    self._options, self._options.endpoints, self._cluster_id
                ) as client:
                    page = await client.list(after=after, limit=_LISTING)
                    quorum = None if page.next else await client.describe_quorum(confirmed=True)
            except ClientError as error:
                raise _refused(error)(self._options.source, str(error), 0) from error
            for entry in page.entries:
                if entry.offset < log_start:
                    yield state_row(entry.offset, -1, entry.key.encode(), entry.value)
            after = page.next
            if quorum is not None:
                break
        if quorum.voter_record_committed:
            voters = [voter.key for voter in quorum.committed_voters]
            yield voters_row(log_start - 1, -1, voters, quorum.voter_record.offset)


def _refused(error: ClientError) -> type[SourceError]:
    """The pipeline's error for a client's."""
    if isinstance(error, RefusedError):
        if error.status in _DENIED:
            return DeniedError
        if error.error == "INCONSISTENT_CLUSTER_ID":
            return ClusterIdError
    return UnreachableError


def _row(record: LogRecord) -> Row:
    if record.control is not None:
        place = (record.offset, record.epoch, record.timestamp_ms)
        return control_row(place, record.control, record.fields)
    return Row(
        record.offset, record.epoch, record.timestamp_ms, KIND_DATA, record.key, record.value
    )
