"""The log from files, without Spark: what is decoded, what is committed, what is damaged."""

from __future__ import annotations

import json
import random
import shutil
from itertools import pairwise

import pyarrow as pa
import pytest

from kraftquorum_pipeline.errors import (
    ClusterIdError,
    CorruptError,
    OptionError,
    TrimmedError,
    ValueFormatError,
)
from kraftquorum_pipeline.schema import log_schema
from kraftquorum_pipeline.source.committed_end import VoterLog, committed_end
from kraftquorum_pipeline.source.decode import Collector
from kraftquorum_pipeline.source.files import FileLog
from kraftquorum_pipeline.source.options import parse_options
from kraftquorum_pipeline.source.rows import Shape
from proofkit.replicadirs import key_of, quorum_history, write_quorum
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, Offset, format_directory_id
from raftnode.logfiles import Files, find_log
from raftnode.logformat import Record, encode_data_batch, iter_records, read_header, stamp
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.inspection.log_reader import LogReader


def table(options, start=None, end=None) -> pa.Table:
    log = FileLog(parse_options({name: str(value) for name, value in options.items()}))
    state = log.look()
    start = 0 if start is None else start
    parts = log.parts(start, state.end if end is None else end)
    return pa.Table.from_batches([batch for part in parts for batch in part.read()])


def data_rows(found: pa.Table):
    rows = found.select(["offset", "key", "value", "kind"]).to_pylist()
    return [(row["offset"], row["key"], row["value"]) for row in rows if row["kind"] == "data"]


def collect(batches, start=0, end=1 << 60, **shape) -> pa.Table:
    collector = Collector(Shape("c", **shape), "here", start, end)
    for data in batches:
        collector.add(read_header(data), memoryview(data))
    return pa.Table.from_batches(
        collector.take(),
        log_schema(
            key_text=shape.get("key_text", False), value_text=shape.get("value_text", False)
        ),
    )


def batches_of(rng: random.Random, count: int, *, headers: bool) -> list[bytes]:
    made, offset = [], 0
    for _ in range(count):
        records = [
            Record(
                rng.choice([None, b"", rng.randbytes(rng.choice([1, 11, 12, 13, 63, 64, 200]))]),
                rng.choice(
                    [None, b"", rng.randbytes(rng.choice([3, 12, 13, 127, 128, 9000, 70000]))]
                ),
                ((("name", b"x"), ("ä", None)) if headers and rng.random() < 0.3 else ()),
            )
            for _ in range(rng.randint(1, 40))
        ]
        data = encode_data_batch(records, rng.choice([0, 1_700_000_000_123, -1]))
        made.append(stamp(data, Offset(offset), Epoch(3)))
        offset += len(records)
    return made


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_decoded_at_once_is_what_the_nodes_reader_decodes(seed, headers):
    batches = batches_of(random.Random(seed), 25, headers=headers)
    expected = [record for data in batches for record in iter_records(data)]
    found = collect(batches).to_pylist()
    assert len(found) == len(expected)
    for row, record in zip(found, expected, strict=True):
        assert (row["offset"], row["epoch"]) == (record.offset, record.epoch)
        assert (row["key"], row["value"], row["kind"]) == (record.key, record.value, "data")
        told = [(one["name"], one["value"]) for one in row["headers"]]
        assert told == list(record.headers)
        if record.timestamp_ms < 0:
            assert row["timestamp"] is None
        else:
            assert round(row["timestamp"].timestamp() * 1000) == record.timestamp_ms


def test_a_range_within_batches_is_cut_to_the_record():
    batches = batches_of(random.Random(1), 10, headers=False)
    everything = collect(batches).column("offset").to_pylist()
    last = everything[-1]
    assert collect(batches, 7, last - 5).column("offset").to_pylist() == everything[7 : last - 5]
    assert collect(batches, last + 1).num_rows == 0


def test_records_that_are_not_well_formed_are_named_or_left_out():
    good = stamp(encode_data_batch([Record(b"k", b"v")] * 3, 5), Offset(0), Epoch(1))
    bad = bytearray(stamp(encode_data_batch([Record(b"k", b"v")] * 3, 5), Offset(3), Epoch(1)))
    bad[62] = 7  # a record's attributes, which must be 0
    with pytest.raises(CorruptError, match=r"here at offset 3: .*attributes"):
        collect([good, bytes(bad)])
    rows = collect([good, bytes(bad)], skip_corrupt=True).to_pylist()
    assert [(row["kind"], row["offset"]) for row in rows] == [
        ("data", 0), ("data", 1), ("data", 2), ("corrupt", 3),
    ]  # fmt: skip
    assert '"end_offset":6' in rows[-1]["fields"]


def test_values_are_what_the_options_say_or_are_named_or_left_out():
    records = [Record(b"a", b'{"x":1}'), Record(b"b", b"no json"), Record(b"c", None)]
    batch = stamp(encode_data_batch(records, 5), Offset(10), Epoch(1))
    text = collect([batch], key_text=True, value_text=True)
    assert text.column("value").to_pylist() == ['{"x":1}', "no json", None]
    with pytest.raises(ValueFormatError, match="here at offset 11: the value is not JSON"):
        collect([batch], value_text=True, value_json=True)
    rows = collect([batch], value_text=True, value_json=True, skip_corrupt=True).to_pylist()
    assert sorted((row["offset"], row["kind"]) for row in rows) == [
        (10, "data"), (11, "corrupt"), (12, "data"),
    ]  # fmt: skip
    binary = stamp(encode_data_batch([Record(b"a", b"\xff\x00")], 5), Offset(4), Epoch(1))
    with pytest.raises(ValueFormatError, match=r"offset 4: the value is not UTF-8.*valueFormat"):
        collect([binary], value_text=True)


# -- what is committed ------------------------------------------------------------------


def log(epoch, end, *epochs):
    return VoterLog(epoch, epochs or ((1, 0),), end)


@pytest.mark.parametrize(
    ("logs", "voters", "expected"),
    [
        # A majority in the last epoch holds it.
        ([log(1, 10), log(1, 8), log(1, 5)], 3, 8),
        ([log(1, 10), log(1, 8)], 3, 8),
        # One directory proves nothing of three voters.
        ([log(1, 10)], 3, None),
        ([log(1, 10)], 1, 10),
        # All are there, and the epoch went on without a record: the replica that wins has it.
        ([log(2, 10), log(2, 8), log(2, 5)], 3, 8),
        # The epoch went on and one is missing, which may have written in it.
        ([log(2, 10), log(2, 8)], 3, None),
        # A new leader's first record is on no majority; what the old epoch has is.
        ([log(2, 11, (1, 0), (2, 10)), log(2, 10), log(1, 10)], 3, 10),
        # The new leader lacks what a minority of the old epoch has: it will be cut off.
        ([log(3, 9, (1, 0), (3, 8)), log(3, 8), log(2, 12, (1, 0), (2, 8))], 3, 8),
        # Held by a majority, but a later epoch's log does not have it (Raft's figure 8).
        (
            [
                log(4, 3, (1, 0), (2, 1)),
                log(4, 3, (1, 0), (2, 1)),
                log(3, 2, (1, 0), (3, 1)),
            ],
            3,
            1,
        ),
        ([VoterLog(0, (), 0)] * 3, 3, 0),
    ],
)  # fmt: skip
def test_only_what_is_certainly_committed_counts(logs, voters, expected):
    assert committed_end(logs, voters) == expected


# -- a real quorum's files ---------------------------------------------------------------


def test_a_quorums_files_give_what_its_client_knows(recorded):
    found = table({"path": recorded.root, "partitionBytes": 65536})
    recorded.record.check(data_rows(found))
    offsets = found.column("offset").to_pylist()
    assert offsets == list(range(len(offsets)))
    assert set(found.column("cluster_id").to_pylist()) == {"TestTestTestTestTestTe"}
    control = [name for name in found.column("control").to_pylist() if name]
    assert control.count("LeaderChange") >= 2
    assert {"AddVoter", "RemoveVoter", "FormationCompleted"} <= set(control)


def test_parts_are_cut_within_segments_and_give_the_same(recorded):
    whole = table({"path": recorded.root})
    log = FileLog(parse_options({"path": str(recorded.root), "partitionBytes": "65536"}))
    end = log.look().end
    segments = len(log.parts(0, end))
    big = shutil.copytree(recorded.node(0), recorded.root.parent / "kept", dirs_exist_ok=True)
    assert big.is_dir()
    assert segments >= 4
    middle = table({"path": recorded.root}, 777, 1234)
    assert middle.equals(whole.slice(777, 1234 - 777))


def test_one_directory_of_three_says_what_to_do(recorded):
    with pytest.raises(OptionError, match=r"only [01] directories of 3 voters are here.*upTo=end"):
        table({"path": recorded.node(0)})
    one = table({"path": recorded.node(0), "upTo": "end"})
    both = table({"path": recorded.root})
    assert one.slice(0, 1000).equals(both.slice(0, 1000))


def test_another_cluster_is_refused(recorded):
    with pytest.raises(ClusterIdError, match="TestTestTestTestTestTe, not of Another"):
        table({"path": recorded.root, "clusterId": "Another"})


def test_a_trimmed_log_names_the_offset(recorded, tmp_path):
    copy = shutil.copytree(recorded.root, tmp_path / "copy")
    for node in copy.glob("node-?"):
        first = min((node / "__cluster_metadata-0").glob("*.log"))
        first.unlink()
    log = FileLog(parse_options({"path": str(copy), "upTo": "end"}))
    start = log.look().start
    assert start > 0
    with pytest.raises(TrimmedError, match=f"at offset 1: the log begins at {start}"):
        log.parts(1, start + 5)
    with pytest.raises(TrimmedError, match="no snapshot covers"):
        log.parts(0, start + 5)


def damaged(recorded, tmp_path):
    """A copy with one byte of a value changed in the middle of the log; and that batch."""
    copy = shutil.copytree(recorded.root, tmp_path / "copy")
    for node in copy.glob("node-?"):
        reader = LogReader(Files(), find_log(Files(), node))
        for piece, found in reader.batches(Offset(1000)):
            if not found.header.is_control:
                with piece.path.open("r+b") as file:
                    file.seek(found.position + found.header.size - 2)
                    file.write(b"\x01")
                batch = found.header
                break
    return copy, batch


def test_a_corrupt_batch_is_named_and_left_out_only_when_asked(recorded, tmp_path):
    copy, batch = damaged(recorded, tmp_path)
    with pytest.raises(CorruptError, match=rf"\.log at offset {batch.base_offset}: .*checksum"):
        table({"path": copy})
    whole = table({"path": recorded.root})
    rows = table({"path": copy, "onCorrupt": "skip"}).to_pylist()
    corrupt = [row for row in rows if row["kind"] == "corrupt"]
    assert [row["offset"] for row in corrupt] == [batch.base_offset]
    assert f'"end_offset":{batch.end_offset}' in corrupt[0]["fields"]
    assert "checksum" in corrupt[0]["fields"]
    kept = {row["offset"] for row in rows if row["kind"] != "corrupt"}
    gone = set(range(batch.base_offset, batch.end_offset))
    assert kept == set(whole.column("offset").to_pylist()) - gone


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either `path`"),
        ({"path": "/x", "bootstrapServers": "a:1"}, "either `path`"),
        ({"path": "/nowhere"}, "path: /nowhere is not a directory"),
        ({"path": "/tmp", "onCorrupt": "maybe"}, "onCorrupt is 'maybe'; allowed are fail, skip"),
        ({"path": "/tmp", "valueFormat": "avro"}, "valueFormat is 'avro'"),
        ({"path": "/tmp", "partitonBytes": "1"}, "unknown option partitonbytes"),
        ({"path": "/tmp", "startingOffset": "-3"}, "startingOffset is '-3'"),
        ({"path": "/tmp", "startingOffset": "9", "endingOffset": "3"}, "endingOffset 3 is below"),
        ({"bootstrapServers": "nonsense"}, "bootstrapServers: "),
        ({"path": "/tmp", "clusterId": "-bad"}, "clusterId: "),
    ],
)  # fmt: skip
def test_options_that_cannot_work_are_named(given, message):
    with pytest.raises(OptionError, match=message):
        FileLog(parse_options(given)).look()


def test_a_trimmed_log_begins_with_the_state_and_goes_on_with_the_log(tmp_path):
    history = quorum_history()
    nodes = write_quorum(tmp_path / "nodes", history)
    whole = table({"path": tmp_path / "nodes"}).to_pylist()
    [end] = history.states
    for node in nodes:
        segments = sorted((node / "__cluster_metadata-0").glob("*.log"))
        for segment, following in pairwise(segments):
            if int(following.stem) <= end:
                segment.unlink()
    log = FileLog(parse_options({"path": str(tmp_path / "nodes")}))
    state = log.look()
    assert 0 < state.start <= state.state_end == end
    rows = table({"path": tmp_path / "nodes"}).to_pylist()
    *kept, voters = [row for row in rows if row["kind"] == "state"]
    assert {(row["key"], row["value"], row["offset"]) for row in kept} == {
        (one.key, one.value, one.offset) for one in history.states[end]
    }
    assert [row for row in rows if row["kind"] != "state"] == whole[end:]
    assert all(row["kind"] == "state" for row in rows[: len(kept)])
    assert (voters["control"], voters["offset"], voters["key"]) == ("VoterSet", end - 1, None)
    told = json.loads(voters["fields"])
    assert told["as_of"] == end - 1
    assert [one["node_id"] for one in told["voters"]] == [0, 1, 2]
    assert told["voters"][1]["directory_id"] == format_directory_id(key_of(1, disk=1).directory_id)


def test_a_damaged_snapshot_is_named(tmp_path):
    history = quorum_history()
    for node in write_quorum(tmp_path / "nodes", history):
        inner = node / "__cluster_metadata-0"
        [snapshot] = inner.glob("*.checkpoint")
        data = bytearray(snapshot.read_bytes())
        data[len(data) // 2] ^= 1
        snapshot.write_bytes(data)
        segments = sorted(inner.glob("*.log"))
        for segment, following in pairwise(segments):
            if int(following.stem) <= int(snapshot.name[:20]):
                segment.unlink()
    with pytest.raises(CorruptError, match=r"\.checkpoint at offset 0: .*checksum"):
        table({"path": tmp_path / "nodes"})


def test_what_the_files_proved_once_is_committed_though_an_election_takes_the_proof(tmp_path):
    history = quorum_history()
    paths = write_quorum(tmp_path, history)
    shutil.rmtree(paths.pop())
    options = parse_options({"path": str(tmp_path)})
    log = FileLog(options)
    assert log.look().end == history.end
    # Two of three: that both left the epoch takes the proof, but for what the snapshot covers.
    for number, path in enumerate(paths):
        directory = DataDirectory.open(path, key_of(number).node_id)
        directory.write_quorum_state(QuorumState(Epoch(history.epoch + 1), None))
        directory.close()
    assert FileLog(options).look().end < history.end
    assert log.look().end == history.end
