"""The figures as text and as JSON."""

import json

from kraftquorum_demo.history import Fault, Hang, History, ReplicaId, Span, StepSpan
from kraftquorum_demo.log_comparison import Agreement
from kraftquorum_demo.record import Stall
from kraftquorum_demo.report import (
    control_lines,
    control_records,
    hang_figures,
    make_report,
    targets,
    timing_lines,
    verdict_lines,
)
from kraftquorum_demo.verify import Verdict
from raftnode.client import LogRecord

WHO = {"node_id": 2, "directory_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
LOG = [
    LogRecord(0, 1, 0, b"", b"", "LeaderChange", {"leader": WHO, "voters": [WHO]}),
    LogRecord(1, 1, 0, b"", b"", "AddVoter", {"voter": WHO, "endpoint": None}),
    LogRecord(2, 1, 0, b"k", b"v"),
    LogRecord(3, 2, 0, b"", b"", "FormationCompleted", {}),
    LogRecord(4, 2, 0, b"", b"", "RemoveVoter", {"voter": WHO}),
]


def test_control_records_name_offset_epoch_kind_and_replica():
    found = [control.as_dict() for control in control_records(LOG)]
    assert [entry["record"] for entry in found] == [
        "LeaderChange",
        "AddVoter",
        "FormationCompleted",
        "RemoveVoter",
    ]
    assert found[3] == {"offset": 4, "epoch": 2, "record": "RemoveVoter", **WHO}
    assert found[2]["node_id"] is None


def test_only_voter_changes_are_printed():
    assert control_lines(control_records(LOG)) == [
        "  offset  epoch  record       id  directory id",
        "       1      1  AddVoter      2  AAAAAAAAAAAAAAAAAAAAAQ",
        "       4      2  RemoveVoter   2  AAAAAAAAAAAAAAAAAAAAAQ",
    ]


def test_the_verdict_is_told_with_what_differs():
    lines = verdict_lines(Verdict(acknowledged=9, unknown=2, unknown_found=1, lost=1))
    assert lines[:3] == [
        "      acknowledged  9",
        "           unknown  2   (1 of them turned out to be written)",
        "              lost  1",
    ]
    verdict = Verdict(lost=1)
    verdict.say("write 3 is not in the log")
    assert verdict_lines(verdict)[-1] == "    differs: write 3 is not in the log"


def test_a_missed_limit_is_said_and_not_hidden():
    seconds = {"leader_disk": 31.0, "longest_write_stall": 2.5, "load": 1.0}
    assert timing_lines(seconds) == [
        "                         zone files loaded     1.0 s",
        "     leader's disk wiped → full redundancy    31.0 s   (limit 30 s) MISSED",
        "    longest write stall of the other steps     2.5 s   (limit 5 s)",
    ]
    assert [(target["figure"], target["met"]) for target in targets(seconds)] == [
        ("leader_disk", False),
        ("longest_write_stall", True),
    ]


def test_a_disk_that_hangs_has_a_limit_for_its_stall_and_figures_of_its_own():
    assert timing_lines({"hung_disk_stall": 3.2}) == [
        "   longest write stall, leader's disk hung     3.2 s   (limit 10 s)"
    ]
    assert [line[-6:] for line in timing_lines({"hung_disk_stall": 10.0})] == ["MISSED"]
    assert targets({"hung_disk_stall": 10.0}) == [
        {"figure": "hung_disk_stall", "seconds": 10.0, "limit_s": 10.0, "met": False}
    ]
    hang = Hang(ReplicaId(1, "AAAAAAAAAAAAAAAAAAAAAQ"), 20.0, 28.0, 0.5, same_process=True)
    assert hang_figures(hang, Stall(20.25, 23.5)) == {
        "node_id": 1,
        "directory_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "from_s": 20.0,
        "until_s": 28.0,
        "caught_up_after_s": 0.5,
        "same_process": True,
        "write_stall": {"from_s": 20.25, "until_s": 23.5, "seconds": 3.25},
    }


def test_the_report_is_json_and_has_the_promised_figures_on_top():
    history = History(
        steps=[StepSpan("Write", Span(1.0, 2.0))], faults=[Fault(1.5, "disk wiped", violent=True)]
    )
    report = make_report(
        ok=True,
        verdict=Verdict(acknowledged=5),
        seconds={"whole_demo": 100.0},
        history=history,
        stall=Stall(1.0, 2.5),
        controls=control_records(LOG),
        agreement=Agreement({"demo-0": 5}, 5, 700, []),
        facts={"tzdata": "2026.1"},
    )
    read = json.loads(json.dumps(report))
    for figure in ("unknown", "lost", "duplicated", "out_of_order", "bytes_mismatched"):
        assert read[figure] == 0
    assert read["acknowledged"] == 5
    assert read["longest_write_stall"]["seconds"] == 1.5
    assert read["replicas"]["agree_up_to_offset"] == 5
    assert read["steps"] == [{"title": "Write", "from_s": 1.0, "until_s": 2.0}]
    assert read["machine"]["cores"] >= 1
