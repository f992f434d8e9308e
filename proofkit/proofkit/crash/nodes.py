"""Whole nodes that are killed by SIGKILL, at a call of the file layer or from outside.

The node is a quorum of one, so its own storage alone keeps the acknowledged writes.

Two things must hold. The next start finds each acknowledged write. SIGKILL leaves the page cache,
so this proves nothing about syncs. And the node acknowledged each write after the return of a sync
that covers the write (`durable_end`). The node reports both as they happen, in one pipe: a sync
before it returns to its caller, an acknowledgement after the client received it. So the sync under
an acknowledgement always comes first, in whatever order the threads run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from proofkit.crash.durable_end import WatchedCalls
from proofkit.crash.history import LossError, content_from, preallocates
from proofkit.crash.processes import in_a_process
from proofkit.crash.sigkill import MOMENTS
from proofkit.loopback import claim_loopback
from raftnode.client import QuorumClient
from raftnode.client.errors import ClientError
from raftnode.core.state import Latch
from raftnode.core.types import FIRST_OFFSET, Endpoint, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.logformat import iter_records
from raftnode.runtime.process.tasks import Tasks
from raftnode.runtime.server import Node
from raftnode.runtime.snapshots import snapshotter
from raftnode.runtime.snapshots.restore import restore_state
from raftnode.runtime.writes.flusher import THREAD_NAME as FLUSH_THREAD
from raftnode.settings import NodeSettings
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.directory.directory import DataDirectory, format_storage
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log

NODE_ID = 1
CALLS_MAX = 400
"""Modifying calls in which a node dies; it has started after some forty."""
SECONDS_MAX = 1.0
"""Within so much time it dies if it is killed from outside."""
SLOW_SECONDS_MAX = 3.0
"""The same where flushes take long."""
HANGS, IS_SLOW, SLOW_S_MAX = 0.02, 0.4, 0.15
"""Shares of the flushes that never return, and that are slow or worse; how slow, in seconds."""
_WRITERS = 4
_VALUE_BYTES = 300
_BATCH_RECORDS = 700
"""Of a finished batch: 64 KiB, the least that a node takes, and a little more."""
_BATCH_BYTES_MAX = 80 << 10
_CHECK_SNAPSHOTS_S = 0.02
_COVERED, _PUT, _APPENDED = b"covered", b"put", b"appended"
"""What a line says: the log's durable end; the number and last offset of an acknowledged write."""


@dataclass(slots=True)
class Acknowledged:
    """The writes that a node acknowledged."""

    puts: list[int] = field(default_factory=list[int])
    """Their numbers."""
    appends: dict[int, Offset] = field(default_factory=dict[int, Offset])
    """The last offset of each finished batch, by its number."""

    @property
    def count(self) -> int:
        """Of all writes."""
        return len(self.puts) + len(self.appends)


def finishes(seed: int) -> bool:
    """Whether clients of a seed finish batches; of half of the nodes they do."""
    return seed % 4 in {1, 2}


def _settings(directory: Path, host: str, seed: int) -> NodeSettings:
    batch_bytes_max = _BATCH_BYTES_MAX if finishes(seed) else 8192
    return NodeSettings(
        node_id=NODE_ID,
        log_dir=directory,
        peer_listen=Endpoint(host, 9093),
        api_listen=Endpoint(host, 9080),
        fetch_timeout_ms=100,
        fetch_max_wait_ms=40,
        election_timeout_ms=50,
        request_timeout_ms=100,
        election_backoff_max_ms=10,
        segment_bytes=batch_bytes_max,
        max_batch_bytes=batch_bytes_max,
        record_max_bytes=4096,
        max_record_bytes_between_snapshots=6000,
        # Every other one trims its log behind each snapshot.
        log_retention_bytes=-1 if seed % 2 else 0,
        log_preallocate=preallocates(seed),
        disk_reserve_bytes=0,
        storage_check_interval_ms=50,
        log_level="error",
    )


def _value(number: int) -> bytes:
    return b"%d " % number * (_VALUE_BYTES // (len(str(number)) + 1))


def _batch(number: int) -> list[bytes]:
    return [(b"%d %d " % (number, at)).ljust(96) for at in range(_BATCH_RECORDS)]


async def _serve(
    settings: NodeSettings, calls: WatchedCalls, tell: Callable[[bytes], None]
) -> None:
    """A node that tells how far its log is durable, and writers that tell what it acknowledged."""
    snapshotter.CHECK_INTERVAL_S = _CHECK_SNAPSHOTS_S
    calls.on_covered = lambda end: tell(b"%s %d\n" % (_COVERED, end))
    node = Node(settings, Files(calls))
    failed: list[BaseException] = []
    tasks = Tasks(failed.append)

    async def write(first: int) -> None:
        async with QuorumClient([settings.api_listen], timeout_ms=5000) as client:
            number = first
            while True:
                with contextlib.suppress(ClientError, OSError):
                    done = await client.put(f"key-{number}", _value(number))
                    tell(b"%s %d %d\n" % (_PUT, number, done.base_offset))
                    number += _WRITERS

    async def append(number: int) -> None:
        async with QuorumClient([settings.api_listen], timeout_ms=5000) as client:
            while True:
                number += 1  # no batch is sent twice
                with contextlib.suppress(ClientError, OSError):
                    done = await client.append(_batch(number))
                    tell(b"%s %d %d\n" % (_APPENDED, number, done.last_offset))

    base = int.from_bytes(os.urandom(5), "big") * _WRITERS
    for writer in range(_WRITERS):
        tasks(write(base + writer), name=f"writer {writer}")
    if settings.max_batch_bytes == _BATCH_BYTES_MAX:
        tasks(append(base), name="writer of batches")
    await node.run()


def _run_node(settings: NodeSettings, calls: WatchedCalls, tell: Callable[[bytes], None]) -> None:
    asyncio.run(_serve(settings, calls, tell))


def _run_until(
    settings: NodeSettings, seconds: float, calls: WatchedCalls, tell: Callable[[bytes], None]
) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    _run_node(settings, calls, tell)


def _dawdle(rng: random.Random) -> None:
    """Let a flush of the log take its time, or never return; for the thread that flushes alone."""
    if not threading.current_thread().name.startswith(FLUSH_THREAD):
        return
    chance = rng.random()
    if chance < HANGS:
        threading.Event().wait()
    if chance < IS_SLOW:
        time.sleep(rng.uniform(0, SLOW_S_MAX))


def crash(root: Path, seed: int, *, is_slow: bool = False) -> int:
    """Kill a node, and compare its log with the writes that it acknowledged.

    Args:
        root: where its directory goes.
        seed: of the points; the times between the calls are the machine's.
        is_slow: the flushes of its log take long, or do not return any more.

    Returns:
        The number of acknowledged writes.

    Raises:
        LossError: one of them is gone, or was acknowledged before it was durable.
        RaftnodeError: the start was refused, though no disk was damaged.
    """
    rng = random.Random(seed)
    directory = root / "node"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    key = ReplicaKey(NodeId(NODE_ID), uuid.UUID(int=rng.getrandbits(128) | 1))
    latch = Latch("crashes", VoterSet.of([Voter(key)]))
    format_storage(directory, key.node_id, directory_id=key.directory_id, latch=latch)
    with claim_loopback() as network:
        settings = _settings(directory, network.host(1), seed)
        if is_slow:
            # It starts in some 0.4 s. Where a flush hangs there may be no further call to die in.
            calls = WatchedCalls(rng.randrange(CALLS_MAX), rng.choice(MOMENTS))
            calls.hold = partial(_dawdle, random.Random(rng.random()))
            work = partial(_run_until, settings, rng.uniform(0.5, SLOW_SECONDS_MAX), calls)
        elif rng.random() < 0.2:
            work = partial(_run_until, settings, rng.uniform(0.2, SECONDS_MAX), WatchedCalls())
        else:
            calls = WatchedCalls(rng.randrange(CALLS_MAX), rng.choice(MOMENTS))
            work = partial(_run_node, settings, calls)
        ended, output = in_a_process(work)
    if ended != signal.SIGKILL:
        raise LossError(f"the node ended with {-ended}")
    acknowledged = acknowledged_by(output)
    _check(directory, acknowledged)
    return acknowledged.count


def acknowledged_by(output: bytes) -> Acknowledged:
    """Return the acknowledged writes from a node's reports, in their order.

    Raises:
        LossError: one of them was not durable yet.
    """
    covered, acknowledged = FIRST_OFFSET, Acknowledged()
    for line in output.splitlines():
        what, *fields = line.split()
        if what == _COVERED:
            covered = max(covered, Offset(int(fields[0])))
            continue
        number, offset = int(fields[0]), Offset(int(fields[1]))
        if offset >= covered:
            raise LossError(
                f"write {number} at offset {offset} was acknowledged before a sync that covers it "
                f"had returned: the log was durable up to offset {covered}"
            )
        if what == _APPENDED:
            acknowledged.appends[number] = offset
        else:
            acknowledged.puts.append(number)
    return acknowledged


def _check(directory: Path, acknowledged: Acknowledged) -> None:
    """Start on the directory and look for every acknowledged write.

    Raises:
        LossError: one is not in the log, or the state is not what the log makes.
    """
    opened = DataDirectory.open(directory, NodeId(NODE_ID))
    log = opened.open_log()
    store, _ = restore_state(opened.open_snapshots(2), log)
    _apply(store, log)
    lost = [number for number in acknowledged.puts if not _holds(store, number)]
    if lost:
        raise LossError(f"{len(lost)} acknowledged writes are gone, the first of them {lost[0]}")
    _check_batches(log, acknowledged.appends)
    if log.start_offset == FIRST_OFFSET:
        whole = KeyValueStore()
        _apply(whole, log)
        if whole.state_hash() != store.state_hash():
            raise LossError("the state by the snapshot is not the one by the log")
    log.close()
    opened.close()


def _check_batches(log: Log, appends: dict[int, Offset]) -> None:
    """Look for the acknowledged batches that the log was not trimmed behind.

    Raises:
        LossError: one is not where it was acknowledged, or one is there in part or twice.
    """
    values = {
        record.offset: record.value
        for record in iter_records(content_from(log, log.start_offset))
        if record.key is None and record.value is not None and not record.is_control
    }
    for number, last in appends.items():
        base = last + 1 - _BATCH_RECORDS
        there = [values.get(Offset(base + at)) for at in range(_BATCH_RECORDS)]
        if base >= log.start_offset and there != _batch(number):
            raise LossError(f"the acknowledged batch {number} is not at offset {base}")
    for number, count in Counter(value.split()[0] for value in values.values()).items():
        if count != _BATCH_RECORDS:
            raise LossError(f"{count} records of batch {int(number)}, which has {_BATCH_RECORDS}")


def _holds(store: KeyValueStore, number: int) -> bool:
    entry = store.get(b"key-%d" % number)
    return entry is not None and entry.value == _value(number)


def _apply(store: KeyValueStore, log: Log) -> None:
    while store.next_offset < log.end_offset:
        for record in iter_records(log.read(store.next_offset, 1 << 20, log.end_offset)):
            if record.is_control:
                store.skip(record.offset, record.offset)
            else:
                store.apply(record.offset, record.key, record.value, epoch=record.epoch)
