"""Compares the state in files with a running quorum, which may take writes meanwhile.

The state at an offset comes from the files. The records committed since come from the quorum's
log. A node may read a key at any time between the start and the end of the listing, so the listed
value must be the key's state at one of these times. Only `look` does input and output.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from kraftquorum_pipeline.audit.states import read_state, read_stretch
from kraftquorum_pipeline.audit.undamaged_log import UndamagedLog
from kraftquorum_pipeline.errors import ClusterIdError, TrimmedError, UnreachableError
from raftnode.client import ClientError, Credentials, LogRecord, QuorumClient, RefusedError
from raftnode.client.credentials import NO_CREDENTIALS
from raftnode.core.types import Endpoint

_PAGE_BYTES = 1 << 20  # the most that a node returns
_PAGE_KEYS = 1000
_SHOWN_MAX = 20
_PAUSE_S = 1.0

Connect = Callable[[Sequence[Endpoint]], QuorumClient]

PATIENCE_S = 30.0
"""How long to wait for a node that alone can have a record."""


class Held(NamedTuple):
    """A key's value: the offset of its record, and a hash."""

    offset: int
    digest: bytes

    @classmethod
    def of(cls, offset: int, value: bytes) -> Held:
        """Make it from a value."""
        return cls(offset, blake2b(value, digest_size=16).digest())


class Written(NamedTuple):
    """A committed record with a key; `held` None: a deletion."""

    offset: int
    key: bytes
    held: Held | None


@dataclass(frozen=True, slots=True)
class RunningQuorum:
    """The answers of a running quorum.

    Attributes:
        cluster_id: its id.
        records: the records with a key, from the offset of the files on.
        listed: all keys, each read at some time during the listing.
        began: the high watermark before the listing.
        ended: the high watermark after it.
    """

    cluster_id: str
    records: tuple[Written, ...]
    listed: Mapping[bytes, Held]
    began: int
    ended: int


@dataclass(slots=True)
class Restored:
    """The result of a comparison.

    Attributes:
        end: the offset of the state in the files.
        keys: the number of keys in that state.
        listed: the number of keys in the running quorum.
        changed: the number of keys written since.
        differences: the first few differences, in words.
        different: the number of all differences.
    """

    end: int
    keys: int
    listed: int = 0
    changed: int = 0
    different: int = 0
    differences: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Whether there is no difference."""
        return not self.different


def state_of(log: UndamagedLog) -> dict[bytes, Held]:
    """Return the key-value state of a log.

    Raises:
        StorageCorruptError: a file is damaged after all.
    """
    state: dict[bytes, Held] = {}
    if log.base is not None:
        for key, value, offset, _ in read_state(log.base):
            state[key] = Held.of(offset, value or b"")
    for stretch in log.stretches:
        for key, value, offset, _ in read_stretch(stretch):
            if value is None:
                state.pop(key, None)
            else:
                state[key] = Held.of(offset, value)
    return state


async def look(
    nodes: Sequence[Endpoint],
    hosts_file: Path | None,
    start: int,
    clusters: Collection[str],
    *,
    patience_s: float = PATIENCE_S,
    credentials: Credentials = NO_CREDENTIALS,
) -> RunningQuorum:
    """Read a running quorum's log from an offset on, and its store.

    Args:
        nodes: the endpoints of the quorum.
        hosts_file: the names of nodes; None: use DNS.
        start: the offset.
        clusters: the allowed cluster ids; empty: any.
        patience_s: how long to wait for a node that alone can have a record, if it does not
            answer or does not know the record yet.
        credentials: the client's.

    Raises:
        ClusterIdError: it is another cluster.
        TrimmedError: the log of every node that answers in time begins later.
        UnreachableError: a record is committed, and no node returns it in time.
        ClientError: the client could not read the quorum.
    """
    listed: dict[bytes, Held] = {}
    connect = partial(QuorumClient, hosts_file=hosts_file, credentials=credentials)
    async with connect(nodes) as client:
        before = await client.describe_quorum(confirmed=True)
        if clusters and before.cluster_id not in clusters:
            said = (
                f"the quorum is cluster {before.cluster_id}, but the files are of "
                f"{', '.join(clusters)}"
            )
            raise ClusterIdError(",".join(map(str, nodes)), said)
        after: str | None = None
        while True:
            page = await client.list(after=after, limit=_PAGE_KEYS)
            for entry in page.entries:
                listed[entry.key.encode("utf-8", "surrogateescape")] = Held.of(
                    entry.offset, entry.value
                )
            after = page.next
            if after is None:
                break
        end = (await client.describe_quorum(confirmed=True)).high_watermark
    records: list[Written] = []
    async for record in _records(nodes, connect, start, end, patience_s):
        if record.control is None and record.key is not None:
            held = None if record.value is None else Held.of(record.offset, record.value)
            records.append(Written(record.offset, record.key, held))
    return RunningQuorum(before.cluster_id, tuple(records), listed, before.high_watermark, end)


async def _records(
    nodes: Sequence[Endpoint], connect: Connect, offset: int, end: int, patience_s: float
) -> AsyncIterator[LogRecord]:
    """Read the committed records from one offset to another, from any node that has them.

    Raises:
        UnreachableError: the records are committed, and no node returns them in time.
    """
    asked = nodes
    deadline = time.monotonic() + patience_s
    while offset < end:
        try:
            async with connect(asked) as client:
                while offset < end:
                    page = await client.read(offset, max_bytes=_PAGE_BYTES, max_wait_ms=500)
                    for record in page.records:
                        if record.offset < end:
                            yield record
                    if page.next_offset == offset:
                        break  # the node may be cut off from its quorum: a new client asks others
                    offset = page.next_offset
                    deadline = time.monotonic() + patience_s
        except RefusedError as error:
            if error.error != "OFFSET_OUT_OF_RANGE":
                raise
            asked = await _having(nodes, connect, offset, patience_s)
            deadline = time.monotonic() + patience_s
        if offset < end and time.monotonic() > deadline:
            reason = "committed, but no node returned it in time"
            raise UnreachableError(",".join(map(str, nodes)), reason, offset)


async def _having(
    nodes: Sequence[Endpoint], connect: Connect, offset: int, patience_s: float
) -> list[Endpoint]:
    """Return the nodes that have a record; each node trims its own log."""
    deadline = time.monotonic() + patience_s
    while True:
        starts = await _starts(nodes, connect)
        having = [node for node, start in starts.items() if start <= offset]
        if having or not starts:
            return having or list(nodes)
        silent = [str(node) for node in nodes if node not in starts]
        if not silent or time.monotonic() > deadline:
            break
        await asyncio.sleep(_PAUSE_S)
    note = f" on the nodes that answered ({', '.join(silent)} did not)" if silent else ""
    said = (
        f"the log was trimmed since, and begins at {min(starts.values())}{note}: writes "
        "before that are unknown; take newer files"
    )
    raise TrimmedError(",".join(map(str, nodes)), said, offset)


async def _starts(nodes: Sequence[Endpoint], connect: Connect) -> dict[Endpoint, int]:
    """Return the log start of each node that answers."""
    starts: dict[Endpoint, int] = {}
    async with connect(nodes) as client:

        async def ask(node: Endpoint) -> None:
            try:
                starts[node] = (await client.describe_node(node)).log_start_offset
            except ClientError:
                return

        await asyncio.gather(*map(ask, nodes))
    return starts


def compare(state: Mapping[bytes, Held], end: int, living: RunningQuorum) -> Restored:
    """Compare a state at an offset with a running quorum.

    Args:
        state: the state from the files.
        end: the offset of the state.
        living: the running quorum; its records begin at `end`.
    """
    result = Restored(end, len(state), len(living.listed))
    written: dict[bytes, list[Written]] = {}
    for record in living.records:
        written.setdefault(record.key, []).append(record)
    result.changed = len(written)
    for key in sorted({*state, *living.listed, *written}):
        possible = list(_moments(state.get(key), written.get(key, ()), living.began))
        there = living.listed.get(key)
        if there in possible:
            continue
        result.different += 1
        if len(result.differences) < _SHOWN_MAX:
            shown = repr(key.decode("utf-8", "backslashreplace"))
            wanted = " or ".join(dict.fromkeys(_words(moment) for moment in possible))
            result.differences.append(f"key {shown} is {_words(there)}, not {wanted}")
    return result


def _moments(first: Held | None, records: Iterable[Written], began: int) -> Iterable[Held | None]:
    """Return the states of a key since the time at which `began` was the high watermark."""
    now, open_ = first, []
    for record in records:
        if record.offset < began:
            now = record.held
        else:
            open_.append(record.held)
    return [now, *open_]


def _words(held: Held | None) -> str:
    return "missing" if held is None else f"what offset {held.offset} wrote"
