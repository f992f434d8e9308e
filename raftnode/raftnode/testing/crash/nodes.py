"""Whole nodes that end by SIGKILL, at a call of the file layer or from outside at some time.

A quorum of one: what it acknowledges is on its own disk and nowhere else, so that nothing but
its storage can have kept it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from raftnode.client import QuorumClient
from raftnode.core.state import Latch
from raftnode.core.types import FIRST_OFFSET, Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from raftnode.errors import RequestError
from raftnode.runtime import snapshotting
from raftnode.runtime.restoring import restore_state
from raftnode.runtime.server import Node
from raftnode.runtime.tasks import Tasks
from raftnode.settings import NodeSettings
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.batch import iter_records
from raftnode.storage.directory import DataDirectory, format_storage
from raftnode.storage.files import Files
from raftnode.storage.log import Log
from raftnode.testing.crash.history import preallocates
from raftnode.testing.crash.killing import MOMENTS, KillingCalls
from raftnode.testing.crash.oracle import LossError
from raftnode.testing.crash.processes import in_a_process

NODE_ID = 1
CALLS_MAX = 400
"""Modifying calls in which a node dies; it has started after some forty."""
SECONDS_MAX = 1.0
"""Within so much time it dies if it is killed from outside."""
_WRITERS = 4
_VALUE_BYTES = 300
_CHECK_SNAPSHOTS_S = 0.02


def _settings(directory: Path, host: str, seed: int) -> NodeSettings:
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
        segment_bytes=8192,
        max_batch_bytes=8192,
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


async def _serve(settings: NodeSettings, files: Files, tell: Callable[[bytes], None]) -> None:
    """A node, and writers that tell each number that was acknowledged."""
    snapshotting.CHECK_INTERVAL_S = _CHECK_SNAPSHOTS_S
    node = Node(settings, files)
    failed: list[BaseException] = []
    tasks = Tasks(failed.append)

    async def write(first: int) -> None:
        async with QuorumClient([settings.api_listen], timeout_ms=5000) as client:
            number = first
            while True:
                with contextlib.suppress(RequestError, OSError):
                    await client.put(f"key-{number}", _value(number))
                    tell(b"%d\n" % number)
                    number += _WRITERS

    base = int.from_bytes(os.urandom(5), "big") * _WRITERS
    for writer in range(_WRITERS):
        tasks(write(base + writer), name=f"writer {writer}")
    await node.run()


def _run_node(settings: NodeSettings, files: Files, tell: Callable[[bytes], None]) -> None:
    asyncio.run(_serve(settings, files, tell))


def _run_until(settings: NodeSettings, seconds: float, tell: Callable[[bytes], None]) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    _run_node(settings, Files(), tell)


def crash(root: Path, seed: int) -> int:
    """Kill a node and compare what it had acknowledged.

    Args:
        root: where its directory goes.
        seed: of the points; the times between the calls are the machine's.

    Returns:
        How many writes were acknowledged.

    Raises:
        LossError: one of them is gone.
        RaftnodeError: the start was refused, though no disk was damaged.
    """
    rng = random.Random(seed)
    directory = root / "node"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    key = ReplicaKey(NodeId(NODE_ID), uuid.UUID(int=rng.getrandbits(128) | 1))
    latch = Latch("crashes", VoterSet.of([Voter(key)]))
    format_storage(directory, key.node_id, directory_id=key.directory_id, latch=latch)
    settings = _settings(directory, f"127.88.{os.getpid() % 250}.1", seed)
    if rng.random() < 0.2:
        work = partial(_run_until, settings, rng.uniform(0.2, SECONDS_MAX))
    else:
        calls = KillingCalls(rng.randrange(CALLS_MAX), rng.choice(MOMENTS))
        work = partial(_run_node, settings, Files(calls))
    ended, told = in_a_process(work)
    if ended != signal.SIGKILL:
        raise LossError(f"the node ended with {-ended}")
    acknowledged = [int(line) for line in told.splitlines()]
    _check(directory, acknowledged)
    return len(acknowledged)


def _check(directory: Path, acknowledged: list[int]) -> None:
    """Start on the directory and look for every acknowledged write.

    Raises:
        LossError: one is not in the log, or the state is not what the log makes.
    """
    opened = DataDirectory.open(directory, NodeId(NODE_ID))
    log = opened.open_log()
    store, _ = restore_state(opened.open_snapshots(2), log)
    _apply(store, log)
    lost = [number for number in acknowledged if not _holds(store, number)]
    if lost:
        raise LossError(f"{len(lost)} acknowledged writes are gone, the first of them {lost[0]}")
    if log.start_offset == FIRST_OFFSET:
        whole = KeyValueStore()
        _apply(whole, log)
        if whole.state_hash() != store.state_hash():
            raise LossError("the state by the snapshot is not the one by the log")
    log.close()
    opened.close()


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
