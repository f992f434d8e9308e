"""What is moved to where people look for it."""

import hashlib
import json

from kraftquorum_demo.history import Fault, ReplicaId
from kraftquorum_demo.kept_files import keep_data, keep_events, keep_writes, tail
from kraftquorum_demo.record import Record


def test_every_claims_volume_is_moved_under_its_pods_name(tmp_path):
    claims = tmp_path / "state" / "volumes" / "by-claim" / "default"
    claims.mkdir(parents=True)
    for node in range(2):
        volume = tmp_path / "state" / "volumes" / "data" / f"pvc-{node}"
        volume.mkdir(parents=True)
        (volume / "meta.properties").write_text(str(node))
        (claims / f"data-demo-{node}").symlink_to(volume)
    (claims / "data-demo-2").symlink_to(tmp_path / "gone")
    data = tmp_path / "data"
    assert keep_data(tmp_path / "state", data) == ["demo-0", "demo-1"]
    assert (data / "demo-1" / "meta.properties").read_text() == "1"
    assert keep_data(tmp_path / "nothing", data) == []


def test_the_account_is_a_line_for_each_write(tmp_path):
    record = Record()
    record.acknowledge(record.begin("load0", "Europe/Berlin", b"TZif2\x00\xff", 1.0), 7, 1.25)
    record.lose_sight(record.begin("w0", None, b"w0 0000001 noise", 2.0), "cut", 2.5)
    path = tmp_path / "writes.jsonl"
    keep_writes(record.writes, path, 1000.0)
    first, second = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (first["key"], first["offset"], first["outcome"]) == (
        "Europe/Berlin",
        7,
        "acknowledged",
    )
    assert (second["key"], second["outcome"], second["reason"]) == (None, "unknown", "cut")
    # As the pipeline reads it: times since 1970, and what identifies a value.
    assert (first["started_ms"], first["ended_ms"]) == (1_001_000.0, 1_001_250.0)
    assert first["value_sha256"] == hashlib.sha256(b"TZif2\x00\xff").hexdigest()


def test_what_was_done_is_kept_with_its_time_of_day(tmp_path):
    path = tmp_path / "events.json"
    keep_events(
        [
            Fault(1.5, "disk wiped", violent=True, lost=ReplicaId(2, "uuid")),
            Fault(2.0, "scale", violent=False),
        ],
        path,
        1000.0,
    )
    first, second = json.loads(path.read_text())
    assert first == {
        "at_ms": 1_001_500,
        "title": "disk wiped",
        "violent": True,
        "lost_replica": "2-uuid",
    }
    assert (second["violent"], second["lost_replica"]) == (False, None)


def test_the_end_of_a_file_that_is_not_there_is_empty(tmp_path):
    (tmp_path / "log").write_text("1\n2\n3\n")
    assert tail(tmp_path / "log", 2) == "2\n3"
    assert tail(tmp_path / "none", 2) == ""
