"""The comparison of the replicas' logs, byte by byte, once every process has stopped."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raftnode.errors import DecodeError
from raftnode.logformat import check_crc, read_header


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch as it stands in a file.

    Attributes:
        end_offset: One past its last record.
    """

    end_offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The log of one replica as its files have it.

    Attributes:
        batches: Without gaps, from offset 0 on.
        problem: Why reading stopped before the end of the files, "" if it did not.
    """

    batches: tuple[StoredBatch, ...]
    problem: str = ""

    @property
    def end_offset(self) -> int:
        """One past the last record."""
        return self.batches[-1].end_offset if self.batches else 0


@dataclass(slots=True)
class Agreement:
    """What the comparison of all replicas came to.

    Attributes:
        end_offsets: Of each replica's log.
        common_end: The offset up to which all have the same bytes.
        bytes_compared: How many bytes that is, of each replica.
        differences: What does not agree, in words.
    """

    end_offsets: dict[str, int] = field(default_factory=dict[str, int])
    common_end: int = 0
    bytes_compared: int = 0
    differences: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Whether all logs agree."""
        return not self.differences


def read_log(directory: Path) -> ReplicaLog:
    """Read the segments under a replica's data directory; every batch's checksum is checked."""
    segments = sorted(directory.glob("**/*.log"), key=lambda path: path.name)
    data = b"".join(path.read_bytes() for path in segments)
    batches: list[StoredBatch] = []
    position, offset = 0, 0
    while position < len(data):
        try:
            header = read_header(data, position)
            check_crc(header, data, position)
        except DecodeError as error:
            return ReplicaLog(tuple(batches), str(error))
        if header.base_offset != offset:
            damage = f"batch at byte {position}: offset {header.base_offset} instead of {offset}"
            return ReplicaLog(tuple(batches), damage)
        offset = int(header.end_offset)
        batches.append(StoredBatch(offset, data[position : position + header.size]))
        position += header.size
    return ReplicaLog(tuple(batches))


def compare_logs(logs: Mapping[str, ReplicaLog], committed_end: int) -> Agreement:
    """Compare the logs with each other up to the common end.

    Behind ``committed_end`` logs may differ: a record that no majority has may be in
    one of them. Before it they may not, and a replica that ends before it is reported.

    Args:
        logs: By the replica's name.
        committed_end: The high watermark that was read from the living quorum.
    """
    result = Agreement({name: log.end_offset for name, log in logs.items()})
    for batches in zip(*(log.batches for log in logs.values()), strict=False):
        if any(batch != batches[0] for batch in batches):
            break
        result.common_end = batches[0].end_offset
        result.bytes_compared += len(batches[0].data)
    for name, log in logs.items():
        if log.end_offset < committed_end:
            why = f": {log.problem}" if log.problem else ""
            result.differences.append(
                f"{name} ends at offset {log.end_offset}, before {committed_end}{why}"
            )
    shortest = min(result.end_offsets.values(), default=0)
    if result.common_end < min(committed_end, shortest):
        result.differences.append(
            f"{', '.join(logs)} have different bytes after offset {result.common_end}"
        )
    if not logs:
        result.differences.append("there are no logs to compare")
    return result
