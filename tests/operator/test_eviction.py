"""The disruption budget under real evictions (S22): a drain never costs the quorum its majority."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

MAY_GO, TOO_MANY = 201, 429
CALM = {"fetch_timeout_ms": 9000}
"""No election but by a leadership transfer, and no voter that falls behind, however slow the machine."""


def _budget_counts(krq, needed: int, voters: range) -> bool:
    """Whether so many are needed, and the controller has counted the voters' pods as they are."""
    budget, counted = krq.get("pdb"), len(krq.counted())
    status = budget.get("status", {})
    return (
        counted in voters
        and budget["spec"]["minAvailable"] == needed
        and status.get("observedGeneration") == budget["metadata"]["generation"]
        and status["expectedPods"] == status["currentHealthy"] == counted
    )


@contextmanager
def _held(krq, operator, needed: int, voters: range) -> Iterator[None]:
    """Stop the operator where the budget says that, whatever the operator is at."""

    def is_there() -> bool:
        operator.send_signal(signal.SIGSTOP)
        if _budget_counts(krq, needed, voters):
            return True
        operator.send_signal(signal.SIGCONT)
        return False

    krq.until(f"{needed} needed of {voters}", is_there)
    yield
    operator.send_signal(signal.SIGCONT)


def _evict_voters(krq, needed: int) -> list[int]:
    """Ask for the eviction of every voter's pod at once, the leader's first; which may go."""
    leader = krq.leader()
    counted = sorted(int(name.rpartition("-")[2]) for name in krq.counted())
    asked = sorted(counted, key=lambda ordinal: (ordinal != leader, ordinal))
    answers = {ordinal: krq.evict(ordinal) for ordinal in asked}
    assert set(answers.values()) <= {MAY_GO, TOO_MANY}
    gone = [ordinal for ordinal in asked if answers[ordinal] == MAY_GO]
    assert gone == asked[: len(counted) - needed], answers
    return gone


def _uids(krq) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}


def _writes_go_on(krq, writing) -> None:
    before = writing.acknowledged
    krq.until("writable", lambda: writing.acknowledged > before + 5)


@pytest.mark.rule("S22")
@pytest.mark.nightly
def test_evictions_in_the_middle_of_every_change_leave_a_majority(krq, operators, writing) -> None:
    operator = operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    writing.start()

    # 3 to 5: three voters are a majority of five, so none may go until there is a fourth.
    krq.kubectl("scale", "krq", "demo", "--replicas=5")
    with _held(krq, operator, 3, range(3, 4)):
        assert not _evict_voters(krq, 3)
    with _held(krq, operator, 3, range(4, 5)):
        assert len(_evict_voters(krq, 3)) == 1
        _writes_go_on(krq, writing)
    krq.ready(5)

    # 5 to 3: a voter that is removed has left the budget, and the budget was counted again.
    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    with _held(krq, operator, 3, range(3, 5)):
        _evict_voters(krq, 3)
        _writes_go_on(krq, writing)
    krq.ready(3)

    # A replacement: two of three are left, so no voter may go; the empty replica may.
    lost = (krq.leader() + 1) % 3
    old = dict(krq.voters())[lost]
    krq.wipe(lost)
    with _held(krq, operator, 2, range(2, 3)):
        assert not _evict_voters(krq, 2)
        assert krq.evict(lost) == MAY_GO
        _writes_go_on(krq, writing)
    krq.replaced(lost, old)

    changes = krq.changes(writing.finish(bounded=True))
    steps = [(kind, node_id) for kind, node_id, _ in changes]
    assert steps[:2] == [("AddVoter", 3), ("AddVoter", 4)]
    # Of the two, the one whose pod was evicted goes first, since it does not count anyway.
    assert set(steps[2:4]) == {("RemoveVoter", 4), ("RemoveVoter", 3)}
    assert steps[4:] == [("AddVoter", lost), ("RemoveVoter", lost)]


@pytest.mark.rule("S22")
def test_pods_that_restart_without_an_operator_are_counted_and_block_no_drain(
    krq, operators, writing
) -> None:
    """Their label went with them: a drain was refused, and at last no budget counted any voter."""
    operator = operators.start()
    krq.apply(voters=3, config=CALM, replacement={"gracePeriodSeconds": 9})
    krq.ready(3)
    krq.until("counted", lambda: _budget_counts(krq, 2, range(3, 4)))
    # As the operator before wrote it: by a label, which its pods had.
    old = {"matchExpressions": None, "matchLabels": {"kraftquorum.io/voter": "true"}}
    change = json.dumps({"spec": {"selector": old}})
    krq.kubectl("patch", "pdb", "demo", "--type=merge", "-p", change)
    krq.until("counted by name", lambda: _budget_counts(krq, 2, range(3, 4)))
    operators.stop(operator)
    writing.start()
    uids = _uids(krq)
    for ordinal in range(3):  # a drain of each node, one after the other
        krq.until(f"{ordinal} may go", lambda n=ordinal: krq.evict(n) == MAY_GO)
        before = uids[f"demo-{ordinal}"]
        krq.until(
            f"{ordinal} is another pod",
            lambda n=f"demo-{ordinal}", old=before: _uids(krq).get(n, old) != old,
        )
        others = [krq.evict(other) for other in range(3) if other != ordinal]
        assert others.count(MAY_GO) <= 1, "two voters at a time"
        krq.until("counted again", lambda: _budget_counts(krq, 2, range(3, 4)))
        uids = _uids(krq)
    _writes_go_on(krq, writing)
    writing.finish(bounded=True)


@pytest.mark.rule("S21", "S22")
def test_a_roll_that_was_decided_before_a_drain_takes_no_second_voter(
    krq, operators, writing
) -> None:
    """The operator stops between its decision and the request; a drain comes first."""
    operator = operators.start(stop_before_delete=1)
    spec = {"voters": 3, "config": CALM, "replacement": {"gracePeriodSeconds": 9}}
    krq.apply(image="kraftquorum/raftnode:1", **spec)
    krq.ready(3)
    krq.until("counted", lambda: _budget_counts(krq, 2, range(3, 4)))
    writing.start()
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}
    krq.apply(image="kraftquorum/raftnode:2", **spec)

    def stopped() -> bool:
        stat = Path(f"/proc/{operator.pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0] == "T"

    krq.until("stopped before its first eviction", stopped)
    # The status is written before the action that it names.
    action, chosen = krq.status()["currentAction"].split()[:2]
    assert action == "EvictPod"
    drained = min(name for name in before if name not in {f"demo-{krq.leader()}", chosen})
    # A drain cordons first: so the evicted pod is away until the operator has asked, however long
    # a busy machine takes for that, and no probe that comes late lets the budget count it.
    krq.cluster.kubectl("cordon", "devcluster")
    try:
        krq.until("drained", lambda: krq.evict(int(drained.rpartition("-")[2])) == MAY_GO)
        operator.send_signal(signal.SIGCONT)
        krq.until("refused", lambda: any(" 429 " in action for action in operators.actions()))
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}
        assert now[chosen] == before[chosen]
        _writes_go_on(krq, writing)
    finally:
        krq.cluster.kubectl("uncordon", "devcluster")
    krq.ready(3)
    assert not set(before.values()) & {pod["metadata"]["uid"] for pod in krq.list("pods")}
    writing.finish(bounded=True)


@pytest.mark.rule("S24")
@pytest.mark.nightly
def test_a_second_budget_over_the_same_pods_holds_back_the_roll_and_no_repair(
    krq, operators, writing
) -> None:
    """Kubernetes refuses the eviction of a pod that two budgets select, whatever they allow."""
    operators.start()
    krq.apply(voters=3, image="kraftquorum/raftnode:1", replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    writing.start()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "second"},
        "spec": {
            "minAvailable": 0,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": "demo"}},
        },
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(budget))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}
    krq.apply(voters=3, image="kraftquorum/raftnode:2", replacement={"gracePeriodSeconds": 2})
    krq.until("told", lambda: krq.condition("Failing")["status"] == "True")
    failing = krq.condition("Failing")["message"]
    assert "EvictPod demo-" in failing
    assert "more than one PodDisruptionBudget" in failing
    krq.until("waited for", lambda: krq.condition("Ready")["reason"] == "EvictionAccepted")
    now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in krq.list("pods")}
    assert now == before, "a healthy pod was ended in spite of the refusal"

    lost = (krq.leader() + 1) % 3
    old = dict(krq.voters())[lost]
    krq.wipe(lost)
    krq.until("replaced", lambda: dict(krq.reported()).get(lost, old) != old)

    krq.kubectl("delete", "pdb", "second")
    krq.ready(3)
    krq.until("over", lambda: krq.condition("Failing")["status"] == "False")
    assert not set(before.values()) & {pod["metadata"]["uid"] for pod in krq.list("pods")}
    writing.finish(bounded=True)
