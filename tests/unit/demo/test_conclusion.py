"""How it ends: the exit code, the report, what is said, for a run that kept its promises or not."""

import dataclasses
import json
from pathlib import Path

import pytest

from kraftquorum_demo import pipeline
from kraftquorum_demo.access_check import Findings
from kraftquorum_demo.conclusion import Conclusion, Proof
from kraftquorum_demo.demo_state import DemoState
from kraftquorum_demo.environment import Environment, Places
from kraftquorum_demo.history import Hang, ReplicaId, Span, StepSpan
from kraftquorum_demo.readback import ReadBack
from kraftquorum_demo.record import Record as Account
from kraftquorum_demo.sample_answers import A, B, C, quorum
from kraftquorum_demo.verify import Verdict
from raftnode.client import LogRecord
from raftnode.core.types import Epoch, Offset
from raftnode.logformat import Record, encode_data_batch, stamp

SAFE = Findings(
    versions={"demo-0:9080": "TLSv1.3"},
    anonymous={"demo-0 GET /metrics": 401},
    reader_reads={"demo-0": 200},
    reader_writes={"demo-0": 403},
    peers={"demo-0": True},
)


class Lines:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, text: str = "") -> None:
        self.told.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self.told)


def write_replica(data: Path, name: str, values: list[bytes]) -> None:
    directory = data / name / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    batches = (
        stamp(encode_data_batch([Record(None, value)], 0), Offset(n), Epoch(1))
        for n, value in enumerate(values)
    )
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))


@pytest.fixture
def conclusion(tmp_path) -> Conclusion:
    places = Places(tmp_path, tmp_path / "quorum.yaml", tmp_path / "crds.yaml")
    places.logs.mkdir()
    environment = Environment(places, name="demo", wanted=3)
    state = DemoState()
    state.history.steps.append(StepSpan("Write", Span(1.0, 9.0)))
    state.history.observe(quorum(A, [A, B, C]), 1.0)
    write = state.record.begin("w0", None, b"v0", 1.0)
    state.record.acknowledge(write, 0, 2.0)
    state.record.close(9.0)
    for name in ("demo-0", "demo-1", "demo-2"):
        write_replica(places.data, name, [b"v0", b"v1"])
    return Conclusion(environment, state, Lines(), lambda: 12.0)


def proof(**figures: int) -> Proof:
    log = (LogRecord(0, 1, 0, None, b"v0"), LogRecord(1, 1, 0, None, b"v1"))
    return Proof(Verdict(**figures), ReadBack(log, (), 2), SAFE, [0, 1, 2])


def test_kept_promises_end_with_0_a_report_and_a_picture(conclusion, tmp_path):
    assert conclusion.conclude(proof(acknowledged=2), held=False) == 0
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["ok"] is True
    names = ("encrypted", "anonymous_refused", "denied_by_role", "peer_refused")
    assert [report["security"][name] for name in names] == [True] * 4
    assert report["replicas"]["end_offsets"] == {"demo-0": 2, "demo-1": 2, "demo-2": 2}
    assert report["seconds"]["whole_demo"] == 12.0
    assert report["longest_write_stall"]["seconds"] == 7.0
    assert (tmp_path / "timeline.png").exists()
    assert "Every promise was kept." in conclusion.view.text
    assert "agree byte by byte up to offset 2" in conclusion.view.text


def test_the_stall_of_a_hung_disk_has_a_figure_of_its_own(conclusion, tmp_path):
    record = conclusion.state.record = Account()
    for number, at_s in enumerate((1.0, 2.0, 5.0, 5.5, 6.0, 7.5)):
        record.acknowledge(record.begin("w0", None, b"%d" % number, 1.0), number, at_s)
    record.close(8.0)
    conclusion.environment.seconds["hung_disk_stall"] = 3.0
    hang = Hang(ReplicaId(0, "AAAAAAAAAAAAAAAAAAAAAQ"), 2.1, 5.2, 0.5, same_process=True)
    found = dataclasses.replace(proof(acknowledged=6), hang=hang)
    assert conclusion.conclude(found, held=False) == 0
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["hung_disk"]["write_stall"] == {"from_s": 2.0, "until_s": 5.0, "seconds": 3.0}
    assert report["longest_write_stall"] == {"from_s": 6.0, "until_s": 7.5, "seconds": 1.5}
    assert {"figure": "longest_write_stall", "seconds": 1.5, "limit_s": 5.0, "met": True} in (
        report["targets"]
    )


@pytest.mark.parametrize(
    "figure", ["lost", "duplicated", "out_of_order", "bytes_mismatched", "unexpected"]
)
def test_one_broken_promise_ends_with_1(conclusion, tmp_path, figure):
    assert conclusion.conclude(proof(acknowledged=2, **{figure: 1}), held=False) == 1
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["ok"], report[figure]) == (False, 1)
    assert "A PROMISE WAS BROKEN" in conclusion.view.text


@pytest.mark.parametrize(
    ("figure", "change"),
    [
        ("encrypted", {"plain_answers": ["demo-0:9080: b'HTTP/1.1 200 OK'"]}),
        ("encrypted", {"versions": {"demo-0:9093": ""}}),
        ("anonymous_refused", {"anonymous": {"demo-0 GET /v1/quorum": 200}}),
        ("anonymous_refused", {"anonymous": {}}),
        ("denied_by_role", {"reader_writes": {"demo-0": 200}}),
        ("denied_by_role", {"reader_reads": {"demo-0": 403}}),
        ("peer_refused", {"peers": {"demo-0": True, "demo-1": False}}),
        ("peer_refused", {"peers": {}}),
    ],
)
def test_a_node_that_is_open_to_strangers_ends_with_1(conclusion, tmp_path, figure, change):
    found = dataclasses.replace(proof(acknowledged=2), access=dataclasses.replace(SAFE, **change))
    assert conclusion.conclude(found, held=False) == 1
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["ok"], report["security"][figure]) == (False, False)


def test_files_that_differ_end_with_1(conclusion, tmp_path):
    (tmp_path / "data" / "demo-2").rename(tmp_path / "data" / "old")
    write_replica(tmp_path / "data", "demo-2", [b"v0", b"vX"])
    assert conclusion.conclude(proof(acknowledged=2), held=False) == 1
    assert "The replicas' files do not agree" in conclusion.view.text


def test_a_replica_whose_files_are_missing_ends_with_1(conclusion, tmp_path):
    (tmp_path / "data" / "demo-1").rename(tmp_path / "data" / "old")
    assert conclusion.conclude(proof(acknowledged=2), held=False) == 1
    assert "demo-1 ends at offset 0, before 2" in conclusion.view.text


def test_a_held_demo_told_its_proof_before_and_has_no_whole_time(conclusion, tmp_path):
    assert conclusion.conclude(proof(acknowledged=2), held=True) == 0
    assert "The answers that the clients got" not in conclusion.view.text
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert "whole_demo" not in report["seconds"]


def test_keeping_moves_data_out_and_removes_the_clusters_state(conclusion, tmp_path):
    claims = tmp_path / "state" / "volumes" / "by-claim" / "default"
    volume = tmp_path / "state" / "volumes" / "data" / "pvc-3"
    claims.mkdir(parents=True)
    volume.mkdir(parents=True)
    (claims / "data-demo-3").symlink_to(volume)
    (tmp_path / "state" / "logs").mkdir()
    (tmp_path / "state" / "logs" / "etcd.log").write_text("hello")
    conclusion.keep()
    assert not (tmp_path / "state").exists()
    assert (tmp_path / "data" / "demo-3").is_dir()
    assert (tmp_path / "logs" / "cluster" / "etcd.log").read_text() == "hello"
    assert (tmp_path / "writes.jsonl").read_text().count("\n") == 1


def test_what_the_pipeline_found_is_part_of_the_report_and_of_the_outcome(
    conclusion, tmp_path, monkeypatch
):
    figures = {"rows": 2, "missing": 1, "duplicated": 0, "audit": "ok", "seconds": 9.5}
    outcome = pipeline.Outcome(figures, ok=False)
    asked = []
    monkeypatch.setattr(pipeline, "reason_to_leave_out", lambda: "")
    monkeypatch.setattr(pipeline, "run_pipeline", lambda *given: asked.append(given) or outcome)
    conclusion.spark = True
    assert conclusion.conclude(proof(acknowledged=2), held=False) == 1
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["ok"], report["pipeline"]) == (False, figures)
    assert report["seconds"]["whole_demo"] == 12.0  # its time is apart
    [(material, *_)] = asked
    assert (material.data, material.committed_end) == (tmp_path / "data", 2)


@pytest.mark.parametrize("spark", [True, False])
def test_a_pipeline_that_is_left_out_changes_nothing(conclusion, tmp_path, monkeypatch, spark):
    monkeypatch.setattr(pipeline, "reason_to_leave_out", lambda: "there is no Java")
    conclusion.spark = spark
    assert conclusion.conclude(proof(acknowledged=2), held=False) == 0
    assert ("The pipeline is left out: there is no Java." in conclusion.view.text) == spark
    assert "pipeline" not in json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
