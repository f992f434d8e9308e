"""One flipped bit in every byte of every file of a data directory, and what comes of each.

`python -m raftnode.testing.rot` tries them all and prints the table of docs/explain/disk-faults.md;
`EVERY=n` tries each n-th byte. What counts as an outcome is what the node would do: the flip is
made under a stopped node, which is then started, reads its whole log and its newest snapshot. Any
of it that differs from what was written without an error is `lost`, and ends the run with 1.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import structlog

from raftnode.core.peer_memory import Mark
from raftnode.core.records import Batch, LeaderChange
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.errors import RaftnodeError
from raftnode.runtime.restoring import restore_state
from raftnode.storage.batch import HEADER_BYTES, Record, decode_batches, encode_data_batch, stamp
from raftnode.storage.directory import DataDirectory, format_storage
from raftnode.storage.files import Files
from raftnode.storage.identity import LOG_DIRECTORY
from raftnode.storage.log import Log, LogSettings
from raftnode.storage.snapshot import SnapshotHead, SnapshotId, StateRecord
from raftnode.testing.faultdisk import FaultDisk

ROOT = Path("/data")
LOG = ROOT / LOG_DIRECTORY
ONE = ReplicaKey(NodeId(1), uuid.UUID(int=0x1234))
TWO = ReplicaKey(NodeId(2), uuid.UUID(int=0x5678))
LATCH = Latch("cluster", VoterSet.of([Voter(ONE), Voter(TWO)]))
SETTINGS = LogSettings(segment_bytes=900, now_ms=lambda: 5)
NOT_TRIED = frozenset({".lock", "lost+found"})

Row = tuple[str, str]
"""File and part of it."""

Content = tuple[object, ...]
"""All that a start makes of a directory."""


def _data(base: int, epoch: int) -> Batch:
    value = random.Random(base).randbytes(60)
    data = encode_data_batch([Record(b"key %d" % (base % 7), value)], 7)
    return Batch(
        Offset(base), Offset(base), Epoch(epoch), stamp(data, Offset(base), Epoch(epoch)), ()
    )


def make_directory(*, clean: bool) -> FaultDisk:
    """A replica's directory with four segments, two epochs, a vote, a latch and two snapshots.

    Args:
        clean: stopped on request; else killed, so that the last segment is read at the start.
    """
    disk = FaultDisk(random.Random(1))
    disk.make_directory(ROOT)
    files = Files(disk)
    format_storage(ROOT, ONE.node_id, files=files, directory_id=ONE.directory_id, latch=LATCH)
    directory = DataDirectory.open(ROOT, ONE.node_id, files)
    directory.write_peer_marks({TWO: Mark(3, "0123456789abcdef")})
    log = directory.open_log(SETTINGS)
    for base in range(24):
        epoch = Epoch(1 if base < 11 else 2)
        if base in {0, 11}:
            directory.write_quorum_state(QuorumState(epoch, ONE, ONE))
            change = LeaderChange(ONE, (ONE, TWO), (ONE,))
            log.append([Batch(Offset(base), Offset(base), epoch, b"", (change,))])
        else:
            log.append([_data(base, epoch)])
    log.flush()
    snapshots = directory.open_snapshots(2)
    for end, epoch in ((9, 1), (17, 2)):
        entries = [
            StateRecord(b"key %d" % key, b"value", Offset(end - 1), Epoch(epoch))
            for key in range(4)
        ]
        one = SnapshotId(Offset(end), Epoch(epoch))
        head = SnapshotHead(LATCH.voters, 2, formation_completed=True, last_timestamp_ms=7)
        snapshots.write(one, head, entries, now_ms=5, pause=lambda: None)
    if clean:
        log.close()
        directory.close()
    disk.kill()
    return disk


def read_all(disk: FaultDisk) -> tuple[Content, bool, bool]:
    """Start on a disk and read everything.

    Returns:
        What was found; whether files were made again; whether a snapshot was set aside.

    Raises:
        RaftnodeError: it was refused.
    """
    files = Files(disk)
    directory = DataDirectory.open(ROOT, ONE.node_id, files)
    log = directory.open_log(SETTINGS)
    store, _ = restore_state(directory.open_snapshots(2), log)
    batches = b"".join(_batches(log))
    aside = any(name.endswith(".damaged") for name in disk.listdir(str(LOG)))
    entries = {b"key %d" % key: store.get(b"key %d" % key) for key in range(7)}
    content = (
        directory.key,
        directory.quorum_state,
        directory.latch,
        directory.cluster_id,
        directory.peer_marks,
        directory.incarnation,
        log.epochs,
        log.recovered,
        batches,
        None if aside else repr(entries),
    )
    return content, bool(log.rebuilt) or log.torn_tail is not None, aside


def _batches(log: Log) -> Iterator[bytes]:
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset)
        yield data
        offset = decode_batches(data)[-1].end_offset


def parts(disk: FaultDisk, path: Path) -> Iterator[tuple[Row, range]]:
    """A file's name as the docs have it, its parts, and their bytes."""
    content = disk.content(path)
    if path.suffix not in {".log", ".checkpoint"}:
        name = f"*{path.suffix}" if path.stem.isdigit() else path.name
        yield (name, "all of it"), range(len(content))
        return
    kind = "*.checkpoint" if path.suffix == ".checkpoint" else "*.log"
    if kind == "*.log":
        last = max(name for name in disk.listdir(str(LOG)) if name.endswith(".log"))
        kind += ", the last" if path.name == last else ", full ones"
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 8 : at + 12], "big") + 12
        yield (kind, "offset, length, epoch, magic"), range(at, at + 17)
        yield (kind, "checksum"), range(at + 17, at + 21)
        yield (kind, "rest of a header"), range(at + 21, at + HEADER_BYTES)
        yield (kind, "records"), range(at + HEADER_BYTES, at + size)
        at += size


def outcome(disk: FaultDisk, wanted: Content) -> str:
    """What a start comes to, in the words of the docs."""
    try:
        content, again, aside = read_all(disk)
    except RaftnodeError as error:
        return f"`{error.exit_code.name}`"
    if tuple(one for one in content[:-1]) != wanted[:-1] or content[-1] not in {None, wanted[-1]}:
        return "lost"
    if aside:
        return "snapshot set aside"
    return "made again" if again else "nothing to tell"


def try_all(every: int = 1, seed: int = 1) -> dict[Row, Counter[str]]:
    """Flip a bit in each n-th byte, of a killed node's directory and of a stopped one's."""
    rng = random.Random(seed)
    found: dict[Row, Counter[str]] = {}
    for clean in (False, True):
        template = make_directory(clean=clean)
        image = template.snapshot()
        wanted = read_all(template)[0]
        template.restore(image)
        for directory in (ROOT, LOG):
            for name in sorted(template.listdir(str(directory))):
                path = directory / name
                if path == LOG or name in NOT_TRIED:
                    continue
                for row, places in parts(template, path):
                    tally = found.setdefault(row, Counter())
                    for byte in places[rng.randrange(every) :: every]:
                        disk = FaultDisk(random.Random(1))
                        disk.restore(image)
                        disk.flip_bit(path, byte, rng.randrange(8))
                        tally[outcome(disk, wanted)] += 1
    return found


def table(found: dict[Row, Counter[str]]) -> list[str]:
    """The table as the docs have it."""
    lines = ["| file | part | flips | outcomes |", "|---|---|---|---|"]
    for (name, part), tally in sorted(found.items()):
        outcomes = ", ".join(f"{what} {count}" for what, count in sorted(tally.items()))
        lines.append(f"| `{name.replace(', ', '`, ', 1) if ',' in name else name + '`'} ")
        lines[-1] += f"| {part} | {tally.total()} | {outcomes} |"
    return lines


def main() -> int:
    """Try them all and print the table."""
    found = try_all(int(os.environ.get("EVERY", "1")))
    print("\n".join(table(found)))  # noqa: T201
    lost = sum(tally["lost"] for tally in found.values())
    flips = sum(tally.total() for tally in found.values())
    print(f"{flips} flips, {lost} lost")  # noqa: T201
    return 1 if lost else 0


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(main())
