"""Logs of replicas, written as segments and damaged."""

from pathlib import Path

from kraftquorum_demo.log_comparison import compare_logs, read_log
from raftnode.core.types import Epoch, Offset
from raftnode.logformat import Record, encode_data_batch, stamp


def batches(count: int, *, tag: str = "v", first: int = 0, epoch: int = 1) -> bytes:
    made = (
        stamp(encode_data_batch([Record(None, f"{tag}{n}".encode())], 0), Offset(n), Epoch(epoch))
        for n in range(first, first + count)
    )
    return b"".join(made)


def replica(path: Path, *segments: tuple[int, bytes]) -> Path:
    directory = path / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    for base, data in segments:
        (directory / f"{base:020d}.log").write_bytes(data)
    return path


def test_equal_logs_agree_however_they_are_cut_into_segments(tmp_path):
    one = read_log(replica(tmp_path / "a", (0, batches(6))))
    two = read_log(replica(tmp_path / "b", (0, batches(4)), (4, batches(2, first=4))))
    agreement = compare_logs({"a": one, "b": two}, 6)
    assert agreement.ok
    assert agreement.common_end == 6
    assert agreement.bytes_compared == len(batches(6))
    assert agreement.end_offsets == {"a": 6, "b": 6}


def test_a_tail_that_is_not_committed_may_differ(tmp_path):
    one = read_log(replica(tmp_path / "a", (0, batches(4) + batches(1, first=4, epoch=2))))
    two = read_log(replica(tmp_path / "b", (0, batches(4) + batches(1, first=4, epoch=3))))
    agreement = compare_logs({"a": one, "b": two}, 4)
    assert agreement.ok
    assert agreement.common_end == 4


def test_a_committed_batch_that_differs_is_found(tmp_path):
    one = read_log(replica(tmp_path / "a", (0, batches(5))))
    two = read_log(replica(tmp_path / "b", (0, batches(3) + batches(2, tag="w", first=3))))
    agreement = compare_logs({"a": one, "b": two}, 5)
    assert agreement.differences == ["a, b have different bytes after offset 3"]


def test_a_replica_that_ends_early_is_found(tmp_path):
    one = read_log(replica(tmp_path / "a", (0, batches(5))))
    two = read_log(replica(tmp_path / "b", (0, batches(3))))
    agreement = compare_logs({"a": one, "b": two}, 5)
    assert agreement.differences == ["b ends at offset 3, before 5"]


def test_a_flipped_bit_ends_the_log_there_and_says_why(tmp_path):
    data = bytearray(batches(5))
    data[-1] ^= 1
    log = read_log(replica(tmp_path / "a", (0, bytes(data))))
    assert log.end_offset == 4
    assert "checksum" in log.problem
    agreement = compare_logs({"a": log}, 5)
    assert "checksum" in agreement.differences[0]


def test_a_missing_segment_is_a_gap(tmp_path):
    log = read_log(replica(tmp_path / "a", (0, batches(2)), (4, batches(2, first=4))))
    assert log.end_offset == 2
    assert "offset 4 instead of 2" in log.problem


def test_no_logs_do_not_agree(tmp_path):
    assert not compare_logs({}, 0).ok
    assert read_log(tmp_path).end_offset == 0
