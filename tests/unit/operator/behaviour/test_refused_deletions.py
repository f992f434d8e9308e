"""Pods and claims that the API server does not let the operator evict or delete."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kraftquorum_operator.reconcile as module
from kraftquorum_operator import evaluation
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import ConflictError, KubeUnavailableError, RefusedError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import Budget, Observation, Progress
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.read import Observed
from kraftquorum_operator.plan import actions as act
from kraftquorum_operator.plan.actions import Decision, Wait
from kraftquorum_operator.plan.compare import Desired
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.observations import (
    CLUSTER,
    NOW_MS,
    UID,
    claim,
    healthy,
    node,
    pod,
    quorum,
    recorded,
    replica,
    spec,
    voter,
    with_claim,
    with_node,
    with_pod,
    without_node,
)

TWO_BUDGETS = KubeUnavailableError(
    500,
    "InternalError",
    "POST pods/demo-1/eviction: 500 This pod has more than one PodDisruptionBudget, which the "
    "eviction subresource does not support.",
)
NEVER = KubeUnavailableError(
    429,
    "TooManyRequests",
    "POST pods/demo-1/eviction: 429 Cannot evict pod as it would violate the pod's disruption "
    "budget.",
)
DENIED = RefusedError(403, "Forbidden", "DELETE: 403 admission webhook denied the request")
CHANGED = ConflictError(409, "Conflict", "PATCH statefulsets/demo: 409 it has been modified")
FIVE = spec(voters=5, replacement={"gracePeriodSeconds": 2})
LOOK_MS = 1_000


class Kube:
    """Takes every status."""

    def __init__(self) -> None:
        self.statuses: list[Any] = []

    async def apply(self, body: Any, subresource: str = "") -> Any:
        assert subresource == "status"
        self.statuses.append(body["status"])
        return body


class Evaluations:
    """Looks at a quorum that stays as it is, while actions on some objects are refused."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, wanted: QuorumSpec, observation: Observation
    ) -> None:
        self.kube, self.observation, self.now_ms = Kube(), observation, NOW_MS
        self.refused: dict[str, Exception] = {}
        """By UID of a pod or a claim."""
        self.asked: list[tuple[int, str]] = []
        """When an action on a pod or a claim was asked for, and its UID."""

        async def observe(*_: object, **__: object) -> Observed:
            return Observed(
                wanted, self.observation, Owner("test", "demo", UID), {"metadata": {}}, (), (), 1
            )

        async def run(action: Any, _: object) -> str:
            uid = getattr(action, "uid", "")
            self.asked.append((self.now_ms, uid))
            if uid in self.refused:
                raise self.refused[uid]
            if isinstance(action, act.MoveLeadership):
                assert self.observation.quorum is not None
                led = replace(self.observation.quorum, leader=action.preferred)
                self.observation = replace(self.observation, quorum=led)
            return "done"

        clock = SimpleNamespace(monotonic=lambda: self.now_ms / 1000, time=lambda: 0.0)
        monkeypatch.setattr(evaluation, "observe", observe)
        monkeypatch.setattr(
            evaluation, "compare", lambda *_: Desired({}, self.observation.outdated, ())
        )
        monkeypatch.setattr(module, "run", run)
        monkeypatch.setattr(module, "time", clock)
        self.reconciler = Reconciler(
            kube=cast("Any", self.kube),
            nodes=HttpNodes(1.0),
            lease=cast("Any", SimpleNamespace(held=True)),
            settings=Settings(),
            metrics=Metrics(),
            failpoints=Failpoints(),
        )

    async def __call__(self, count: int) -> list[Decision]:
        """So many looks, a second apart."""
        found: list[Decision] = []
        for _ in range(count):
            outcome = await self.reconciler.reconcile("test", "demo", UID)
            assert outcome.decision is not None
            found.append(outcome.decision)
            self.now_ms += LOOK_MS
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        present = self.kube.statuses[-1]["conditions"]
        return next((c for c in present if c["type"] == kind), {"status": "False"})


def rotten(ordinal: int, observation: Observation) -> Observation:
    """A voter whose scrub found damage, and whose claim is deleted already: its pod is next."""
    damaged = replace(node(ordinal), damage=("a segment is rotten",))
    going = replace(claim(ordinal), terminating=True)
    return with_claim(with_node(observation, damaged), going)


def going(observation: Observation, *ordinals: int) -> Observation:
    """A person deleted the claims of well voters."""
    for ordinal in ordinals:
        observation = with_claim(observation, replace(claim(ordinal), terminating=True))
    return observation


def lost(ordinal: int, observation: Observation) -> Observation:
    """A voter's disk is lost; an empty one answers in its place."""
    assert observation.quorum is not None
    voters = tuple(
        voter(ordinal, silent_ms=20_000) if one.replica.node_id == ordinal else one
        for one in observation.quorum.voters
    )
    observation = with_node(observation, node(ordinal, "b", blank=True, incarnation=1))
    return with_pod(replace(observation, quorum=quorum(voters)), pod(ordinal, voter=False))


@pytest.mark.parametrize("error", [TWO_BUDGETS, NEVER], ids=["two budgets", "never allowed"])
@pytest.mark.rule("S24")
async def test_an_eviction_that_is_always_refused_does_not_delay_the_replacement_of_a_lost_disk(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    looks = Evaluations(monkeypatch, FIVE, lost(4, rotten(1, healthy(5))))
    looks.refused["pod-1"] = error
    first, *others = await looks(4)
    assert isinstance(first, act.EvictPod)
    assert act.JoinNode(replica(4, "b"), CLUSTER) in others


@pytest.mark.rule("S24")
async def test_an_eviction_that_is_always_refused_does_not_keep_a_removed_voter_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `order: RemoveFirst` voter 4 was removed and its successor has caught up."""
    wanted = spec(voters=5, replacement={"order": "RemoveFirst"})
    back = Progress(replica(4, "b"), caught_up=True, silent_since_ms=NOW_MS)
    four = quorum([voter(n) for n in range(4)], observers=[back])
    observation = recorded(with_node(healthy(5), node(4, "b")), 4, "b")
    observation = with_pod(replace(observation, quorum=four), pod(4, voter=False))
    looks = Evaluations(monkeypatch, wanted, rotten(1, observation))
    looks.refused["pod-1"] = TWO_BUDGETS
    first, *others = await looks(4)
    assert isinstance(first, act.EvictPod)
    assert [one for one in others if isinstance(one, act.AddVoter)]


async def test_an_eviction_that_is_always_refused_does_not_keep_the_quorum_from_growing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observation = with_claim(healthy(), replace(claim(1), terminating=True))
    looks = Evaluations(monkeypatch, spec(voters=5), observation)
    looks.refused["pod-1"] = TWO_BUDGETS
    first, *others = await looks(4)
    assert isinstance(first, act.EvictPod)
    assert act.SetReplicas("sts-1", "42", 4) in others


async def test_a_claim_that_may_not_be_deleted_does_not_delay_another_replacement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damaged = replace(node(1), damage=("a segment is rotten",))
    looks = Evaluations(monkeypatch, FIVE, lost(4, with_node(healthy(5), damaged)))
    looks.refused["claim-1"] = DENIED
    first, *others = await looks(4)
    assert isinstance(first, act.DeleteClaim)
    assert act.JoinNode(replica(4, "b"), CLUSTER) in others


async def test_a_stuck_pod_that_may_not_be_deleted_does_not_keep_the_next_one_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observation = replace(healthy(), quorum=None)
    for n in (1, 2):
        old = {"revision": "r0", "version": "77", "ready": False, "running": False}
        stuck = replace(pod(n, voter=False), phase="Pending", **cast("Any", old))
        observation = with_pod(without_node(observation, n), stuck)
    looks = Evaluations(monkeypatch, spec(voters=3), observation)
    looks.refused["pod-1"] = DENIED
    found = await looks(4)
    assert {one.pod for one in found if isinstance(one, act.DeletePod)} == {"demo-1", "demo-2"}


async def test_a_refused_eviction_is_told_by_pod_and_answer_and_asked_for_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Evaluations(
        monkeypatch, spec(voters=3), with_pod(healthy(), replace(pod(1), revision="r0"))
    )
    looks.refused["pod-1"] = TWO_BUDGETS
    found = await looks(200)
    waits = [one for one in found if isinstance(one, Wait)]
    assert {wait.guard for wait in waits} == {"eviction_accepted"}
    assert "pod demo-1" in waits[0].why
    assert "more than one PodDisruptionBudget" in waits[0].why
    times = [at for at, uid in looks.asked if uid == "pod-1"]
    gaps = [late - early for early, late in itertools.pairwise(times)]
    assert gaps[0] < gaps[-1] == max(gaps) <= 61_000
    assert gaps == sorted(gaps)
    # What is not done is told all along, between two tries as well.
    failing = looks.condition("Failing")
    assert (failing["status"], failing["reason"]) == ("True", "InternalError")
    assert "EvictPod demo-1" in failing["message"]
    assert "more than one PodDisruptionBudget" in failing["message"]
    assert (
        len(
            {
                c["status"]
                for s in looks.kube.statuses[5:]
                for c in s["conditions"]
                if c["type"] == "Failing"
            }
        )
        == 1
    )


async def refused_roll(monkeypatch: pytest.MonkeyPatch) -> tuple[Observation, Evaluations]:
    """A quorum whose outdated pod was refused its eviction until that is reported."""
    old = with_pod(healthy(), replace(pod(1), revision="r0"))
    looks = Evaluations(monkeypatch, spec(voters=3), old)
    looks.refused["pod-1"] = TWO_BUDGETS
    await looks(10)
    assert looks.condition("Failing")["status"] == "True"
    return old, looks


async def test_a_refusal_ends_with_its_pod_and_when_nothing_asks_for_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, looks = await refused_roll(monkeypatch)
    looks.observation = with_pod(old, replace(pod(1), uid="pod-1b", revision="r0"))
    assert isinstance((await looks(1))[0], act.EvictPod), "another pod is not the refused one"
    assert looks.condition("Failing")["status"] == "False"

    looks.observation = old
    await looks(10)
    looks.observation = healthy()
    await looks(200)
    assert looks.condition("Failing")["status"] == "False", "the roll was taken back"


async def test_one_refusal_passes_without_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain was faster by a moment."""
    looks = Evaluations(
        monkeypatch, spec(voters=3), with_pod(healthy(), replace(pod(1), revision="r0"))
    )
    looks.refused["pod-1"] = NEVER
    await looks(2)
    looks.refused.clear()
    found = await looks(3)
    assert [one for one in found if isinstance(one, act.EvictPod)]
    assert {c["type"] for s in looks.kube.statuses for c in s["conditions"]}.isdisjoint({"Failing"})


def moves(found: list[Decision]) -> list[act.MoveLeadership]:
    return [one for one in found if isinstance(one, act.MoveLeadership)]


@pytest.mark.parametrize("rolls", [False, True], ids=["no roll", "a roll of the leader"])
@pytest.mark.parametrize("deleted", [(0, 1), (0, 1, 2)], ids=["two of three", "all"])
async def test_leadership_does_not_go_to_and_fro_between_voters_that_may_not_be_evicted(
    monkeypatch: pytest.MonkeyPatch, deleted: tuple[int, ...], rolls: bool
) -> None:
    observation = going(healthy(), *deleted)
    if rolls:
        assert observation.quorum is not None
        led = replace(observation.quorum, leader=replica(2))
        observation = replace(with_pod(observation, replace(pod(2), revision="r0")), quorum=led)
    looks = Evaluations(monkeypatch, spec(voters=3), observation)
    looks.refused = {f"pod-{ordinal}": TWO_BUDGETS for ordinal in range(3)}
    found = await looks(200)
    assert len(moves(found)) <= 1
    pauses = {one.guard for one in found if isinstance(one, Wait)}
    assert pauses == {"eviction_accepted"}


async def test_leadership_does_not_go_to_and_fro_between_voters_that_the_budget_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observation = replace(going(healthy(), 0, 1), budget=Budget("pdb", counted=3, allowed=0))
    found = await Evaluations(monkeypatch, spec(voters=3), observation)(20)
    assert not moves(found)
    assert {one.guard for one in found if isinstance(one, Wait)} == {"budget_allows_eviction"}


async def test_a_leader_is_restarted_though_the_eviction_of_a_follower_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leadership goes to the voter that stays, also where its id is the higher."""
    looks = Evaluations(monkeypatch, spec(voters=3), going(healthy(), 0, 1))
    looks.refused["pod-1"] = TWO_BUDGETS
    found = await looks(8)
    assert moves(found) == [act.MoveLeadership(replica(0), replica(2))]
    assert "pod-0" in [one.uid for one in found if isinstance(one, act.EvictPod)]


async def test_evictions_that_are_always_refused_do_not_delay_a_repair_beside_a_going_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Evaluations(monkeypatch, FIVE, lost(4, going(healthy(5), 0, 1)))
    looks.refused = {"pod-0": TWO_BUDGETS, "pod-1": TWO_BUDGETS}
    assert act.JoinNode(replica(4, "b"), CLUSTER) in await looks(4)

    # The same while nothing but the refused evictions is left of the repairs.
    looks = Evaluations(monkeypatch, spec(voters=5), going(healthy(3), 0, 1))
    looks.refused = {"pod-0": TWO_BUDGETS, "pod-1": TWO_BUDGETS}
    assert act.SetReplicas("sts-1", "42", 4) in await looks(10)


async def test_an_eviction_that_is_accepted_ends_the_report_of_its_refusals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, looks = await refused_roll(monkeypatch)
    looks.refused.clear()
    while not isinstance((await looks(1))[0], act.EvictPod):
        pass
    looks.observation = with_pod(old, replace(pod(1), revision="r0", terminating=True))
    await looks(1)
    assert looks.condition("Failing")["status"] == "False"
    # It is there still, and one more refusal is the first in a row again.
    looks.observation, looks.refused["pod-1"] = old, TWO_BUDGETS
    assert isinstance((await looks(2))[0], act.EvictPod)
    assert looks.condition("Failing")["status"] == "False"


async def test_a_conflict_while_a_volume_is_given_up_is_no_refusal_of_its_deletion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another writer changed the StatefulSet between reading it and noting the volume on it."""
    damaged = replace(node(1), damage=("a segment is rotten",))
    looks = Evaluations(monkeypatch, FIVE, with_node(healthy(5), damaged))
    looks.refused["claim-1"] = CHANGED
    found = await looks(4)
    assert [type(one) for one in found] == [act.DeleteClaim] * 4
    assert looks.condition("Failing")["status"] == "False"
    await looks(2)
    assert looks.condition("Failing")["reason"] == "Conflict", "five in a row do not pass"
    looks.refused.clear()
    await looks(2)
    assert looks.condition("Failing")["status"] == "False"


@pytest.mark.rule("S22")
async def test_a_healthy_pod_whose_eviction_is_refused_is_never_deleted_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A budget of a person is kept; only our own one's number may be passed over, see `_replace_storage`."""
    observation = replace(rotten(1, healthy(5)), budget=Budget("pdb", counted=5, allowed=1))
    looks = Evaluations(monkeypatch, FIVE, observation)
    looks.refused["pod-1"] = TWO_BUDGETS
    found = await looks(60)
    assert not [one for one in found if isinstance(one, act.DeletePod)]
