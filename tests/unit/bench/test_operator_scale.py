"""The bench of the operator's scale: its simulated quorums, its counts, its report and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftquorum_bench.operatorscale import cli
from kraftquorum_bench.operatorscale.alarms import SETTLED_S, AlarmWatch, alarm_of
from kraftquorum_bench.operatorscale.audit import AuditLog, longest_gap_s
from kraftquorum_bench.operatorscale.cases import SIZES, Case
from kraftquorum_bench.operatorscale.nodes import SimulatedNodes
from kraftquorum_bench.operatorscale.page import render
from kraftquorum_bench.operatorscale.replicas import Disk, RefusedError, SimulatedQuorum
from kraftquorum_bench.operatorscale.report import (
    FILE,
    CaseResult,
    Latency,
    OperatorReport,
    Rest,
    Share,
)
from kraftquorum_bench.report_file import ReportError
from raftnode.api.model import AddVoterRequest, FormRequest, Replica, VoterRecord, VoterSpec

EVIDENCE = Path(__file__).resolve().parents[3] / "docs" / "evidence"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def case(quorums: int = 50, requests: float = 1.5, **more: object) -> CaseResult:
    fields: dict[str, object] = {
        "quorums": quorums,
        "namespaces": 1,
        "formed_s": 30,
        "rest": Rest(
            seconds=60,
            requests_per_quorum_minute=requests,
            by_verb_and_resource=(Share(verb="get", resource="pods", per_quorum_minute=requests),),
            refused=0,
            status_writes_per_quorum_minute=0.1,
            node_requests_per_quorum_minute=30,
            cpu_cores=0.1,
            memory_mib=100,
        ),
        "single_loss": Latency(samples=3, p50_ms=400, p99_ms=500),
        "losses_at_once": 10,
        "loss_at_once": None,
        "repaired_at_once_s": 9,
        "first_evaluation_of_all_s": 3,
        "start_requests": 90,
        "lease_gap_max_s": 2.6,
        "memory_peak_mib": 120,
        "false_alarms": 0,
    }
    return CaseResult.model_validate(fields | more)


def report(*cases: CaseResult, **more: object) -> OperatorReport:
    fields = {"size": "whole", "made_at": "2026-01-02 03:04", "minutes": 12.0, "cases": cases}
    machine = {"cores": "2", "memory": "8192 MiB", "kernel": "Linux 6.1 x86_64"}
    return OperatorReport.model_validate(fields | {"machine": machine} | more)


def formed() -> SimulatedQuorum:
    quorum = SimulatedQuorum("ns", "q")
    for node_id in range(3):
        quorum.start(node_id, Disk())
    voters = tuple(
        VoterSpec(node_id=n, directory_id=quorum.running[n].directory_id) for n in range(3)
    )
    for node_id in range(3):
        quorum.form(node_id, FormRequest(cluster_id=CLUSTER, voters=voters))
    return quorum


def test_a_simulated_quorum_forms_once_a_majority_has_the_latch():
    quorum = formed()
    assert quorum.healthy
    assert [quorum.node(n).role for n in range(3)] == ["leader", "follower", "follower"]
    described = quorum.quorum(0)
    assert described.formation_completed
    assert {voter.node_id for voter in described.voters} == {0, 1, 2}
    with pytest.raises(RefusedError, match="node 1 does not lead"):
        quorum.quorum(1)


def test_a_lost_disk_is_replaced_as_by_a_real_quorum():
    quorum = formed()
    old = Replica(node_id=1, directory_id=quorum.running[1].directory_id)
    quorum.stop(1)
    quorum.await_action()
    quorum.start(1, Disk())
    assert not quorum.healthy
    assert quorum.node(1).role == "blank"
    assert quorum.first_action_s is None
    quorum.join(1, CLUSTER)
    assert quorum.first_action_s is not None
    assert quorum.node(1).role == "observer"
    new = VoterSpec(node_id=1, directory_id=quorum.running[1].directory_id)
    stale = VoterRecord(offset=99, epoch=1)
    with pytest.raises(RefusedError, match="the record is"):
        quorum.add_voter(0, AddVoterRequest(voter=new, expected=stale, replaces=old))
    record = quorum.quorum(0).voter_record
    quorum.add_voter(0, AddVoterRequest(voter=new, expected=record, replaces=old))
    assert quorum.healthy
    assert quorum.node(1).role == "follower"


def test_a_quorum_without_a_majority_has_no_leader():
    quorum = formed()
    quorum.stop(0)
    assert quorum.node(1).role == "leader"
    quorum.stop(1)
    assert quorum.node(2).role == "unattached"
    assert not quorum.healthy


def event(verb: str, resource: str, stage: str = "ResponseComplete", **more: object) -> str:
    about = {"resource": resource.partition("/")[0], "subresource": resource.partition("/")[2]}
    time = {"stageTimestamp": "2026-01-01T00:00:00.000000Z", "requestURI": "/"}
    answer = {"responseStatus": {"code": 200}}
    return json.dumps({"verb": verb, "stage": stage, "objectRef": about} | time | answer | more)


def test_requests_are_counted_once_by_verb_and_resource(tmp_path):
    log = tmp_path / "audit.log"
    lines = [
        event("get", "pods"),
        event("patch", "kraftquorums/status"),
        event("watch", "pods", "ResponseStarted"),
        event("watch", "pods"),
        event("get", "pods", responseStatus={"code": 404}),
        event("update", "leases"),
        event("update", "leases", stageTimestamp="2026-01-01T00:00:02.500000Z"),
    ]
    log.write_text("\n".join(lines) + '\n{"verb": "get", "half')
    audit = AuditLog(log)
    requests = audit.read(30)
    assert requests.counts == {
        ("get", "pods"): 2,
        ("patch", "kraftquorums/status"): 1,
        ("watch", "pods"): 1,
        ("update", "leases"): 2,
    }
    assert requests.refused == {404: 1}
    assert requests.per_minute(quorums=4)["get", "pods"] == 1
    assert longest_gap_s(requests.renewals) == 2.5
    assert audit.read(30).total == 0


def status(**more: object) -> dict[str, object]:
    conditions = [{"type": "Available", "status": "True"}]
    nodes = [{"pod": "q-0", "role": "leader"}]
    return {"phase": "Running", "conditions": conditions, "nodes": nodes} | more


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"conditions": [{"type": "Available", "status": "Unknown"}]}, "Available is Unknown"),
        ({"conditions": []}, "Available is False"),
        ({"phase": "QuorumLost"}, "QuorumLost"),
        ({"nodes": [{"pod": "q-0", "role": "silent"}]}, "silent: q-0"),
    ],
)
def test_a_wrong_report_of_a_healthy_quorum_is_an_alarm(wrong, said):
    assert alarm_of(status()) == ""
    assert said in alarm_of(status(**wrong))


def test_a_report_of_a_quorum_that_was_just_disturbed_is_no_false_alarm():
    nodes = SimulatedNodes(lambda _: None)
    quorum = formed()
    nodes.quorums["ns", "q"] = quorum
    watch = AlarmWatch(nodes)
    meta = {"namespace": "ns", "name": "q"}
    watch.changed("MODIFIED", {"metadata": meta, "status": status(phase="QuorumLost")})
    assert watch.false_alarms == {}
    assert quorum.undisturbed_since_s is not None
    quorum.undisturbed_since_s -= SETTLED_S + 1
    watch.changed("MODIFIED", {"metadata": meta, "status": status()})
    assert watch.false_alarms == {}
    watch.changed("MODIFIED", {"metadata": meta, "status": status(phase="QuorumLost")})
    assert watch.false_alarms == {("ns", "q"): "phase is QuorumLost"}


def test_cases_are_read_and_spread_over_namespaces():
    assert cli.cases_of("10 200/10") == (Case(10), Case(200, 10))
    assert {Case(4, 2).place(number)[0] for number in range(4)} == {"bench-0", "bench-1"}
    assert Case(500) in SIZES["full"]


@pytest.mark.parametrize("text", ["0", "10/20", "ten", "10/0", "99999"])
def test_a_case_that_cannot_be_is_refused(text, capsys):
    assert cli.main(["run", "--cases", text]) == 2
    assert f"--cases {text}: a case is a number of quorums" in capsys.readouterr().err


def test_a_report_is_held_against_its_schema(tmp_path):
    path = tmp_path / "operator.json"
    FILE.write(report(case()), path)
    assert FILE.read(path) == report(case())
    schema = json.loads((tmp_path / "operator.schema.json").read_text())
    assert "audit log" in json.dumps(schema)
    with pytest.raises(ReportError, match=r"cases\.0\.lease_gap_max_s"):
        FILE.parse(path.read_text().replace('"lease_gap_max_s": 2.6', '"lease_gap_max_s": -1'))
    with pytest.raises(ReportError, match="run make bench-operator first"):
        FILE.read(tmp_path / "none.json")


def test_the_page_shows_the_worst_case_of_each_goal():
    text = render(report(case(), case(200, 2.5, lease_gap_max_s=11, false_alarms=1)))
    assert "|API requests per quorum and minute at rest, with 50 quorums or more|2|2.5|" in text
    assert text.count("**not met**") == 3
    assert "|Memory with 500 quorums|256 MiB||not measured|" in text
    assert "|200|1|**2.50**|" in text
    assert "|get pods|1.500|2.500|" in text


def test_only_a_whole_run_without_failures_comes_onto_the_page(tmp_path, capsys):
    path = tmp_path / "operator.json"
    for wrong, said in (
        ({"size": "quick"}, "is of a quick run"),
        ({"failures": [{"what": "10 in 1", "why": "late"}]}, "a run that failed: 10 in 1: late"),
    ):
        FILE.write(report(case(), **wrong), path)
        assert cli.main(["docs", str(path)]) == 2
        assert said in capsys.readouterr().err


def test_the_committed_page_is_of_the_committed_report():
    committed = EVIDENCE / "operator-scale.json"
    shown = FILE.read(committed) if committed.exists() else None
    page = (EVIDENCE / "operator-scale.md").read_text(encoding="utf-8")
    assert page == render(shown), "run make bench-operator-docs"
