"""Actions that fail: reported with the server's message, and not repeated in every reconciliation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

import kraftquorum_operator.evaluation as evaluation_module
import kraftquorum_operator.reconcile as module
from kraftquorum_operator import names
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import ConflictError, NodeRefusedError, RefusedError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.memory import refused_requests
from kraftquorum_operator.memory.image_turn import ImageTurn
from kraftquorum_operator.memory.refused_requests import FIRST_MS, LONGEST_MS, Refusals
from kraftquorum_operator.memory.request_failures import CONFLICTS_REPORTED_AFTER
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.engine import KAFKA
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation, ReplicaId, VoterRecord
from kraftquorum_operator.observe.read import Observed
from kraftquorum_operator.plan.actions import ApplyObjects, CountPod, GrowClaim, JoinNode, Wait
from kraftquorum_operator.plan.compare import Desired
from kraftquorum_operator.reconcile import Outcome, Reconciler
from kraftquorum_operator.report.events import EventLog
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.observations import (
    UID,
    healthy,
    node,
    pod,
    spec,
    with_node,
    with_pod,
    with_quorum,
    with_size,
    without_node,
)
from raftnode.commands.storage import random_id

KEY = ObjectRef("Service", "demo-client")


class Kube:
    """Takes every status."""

    def __init__(self) -> None:
        self.statuses: list[Any] = []
        self.patched: list[Any] = []

    async def apply(self, body: Any, subresource: str = "") -> Any:
        assert subresource == "status"
        self.statuses.append(body["status"])
        return body

    async def patch(self, *_: object, change: Any, **__: object) -> None:
        self.patched.append(change["status"])


class KubeThatKeeps(Kube):
    """Keeps a condition that a merge patch has written, as server-side apply does."""

    async def apply(self, body: Any, subresource: str = "") -> Any:
        status = (await super().apply(body, subresource))["status"]
        kept = [{"type": "Failing", "status": "True"}, {"type": "OfAnother", "status": "True"}]
        return body | {"status": status | {"conditions": [*status["conditions"], *kept]}}


@pytest.mark.parametrize(("kube", "patches"), [(KubeThatKeeps(), 1), (Kube(), 0)])
async def test_a_condition_that_a_failed_look_has_written_goes_once_it_holds_no_more(
    monkeypatch: pytest.MonkeyPatch, kube: Kube, patches: int
) -> None:
    await looks(monkeypatch, healthy(), ValueError("unused"), 1, kube)
    assert len(kube.patched) == patches
    for change in kube.patched:
        assert change["conditions"] == kube.statuses[-1]["conditions"]
        assert "Failing" not in {condition["type"] for condition in change["conditions"]}


class Held:
    held = True


async def looks(
    monkeypatch: pytest.MonkeyPatch,
    observation: Observation,
    error: Exception,
    count: int,
    kube: Kube | None = None,
    turn: ImageTurn | None = None,
    annotations: dict[str, str] | None = None,
) -> tuple[list[Outcome], list[Any]]:
    """Look so many times at a quorum whose every action fails.

    With a turn, the quorum is to change to the image `node:2`.
    """
    kube = kube or Kube()
    observed = Observed(
        spec(voters=3, tls={"mode": "Disabled"}),
        observation,
        Owner("test", "demo", UID),
        {"metadata": {"annotations": annotations}},
        (),
        (),
        1,
        next_image="node:2" if turn is not None else None,
    )

    async def observe(*_: object, **__: object) -> Observed:
        return observed

    async def run(*_: object) -> str:
        raise error

    monkeypatch.setattr(evaluation_module, "observe", observe)
    monkeypatch.setattr(
        evaluation_module, "compare", lambda *_: Desired({}, observation.outdated, ())
    )
    monkeypatch.setattr(module, "run", run)
    reconciler = Reconciler(
        kube=cast("Any", kube),
        nodes=HttpNodes(1.0),
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
        image_turn=turn or ImageTurn(),
    )
    found = [await reconciler.reconcile("test", "demo", UID) for _ in range(count)]
    return found, kube.statuses


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile",
    "*ignored_annotations(observed.spec, annotations, observation.certificates),",
    "",
)
async def test_an_annotation_without_effect_has_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {names.ANNOTATION_ROTATE_CA: "1"}
    outcomes, _ = await looks(monkeypatch, healthy(), ValueError("unused"), 2, annotations=asked)
    events = [event for outcome in outcomes for event in outcome.events]
    assert [(event.type, event.reason) for event in events] == [("Warning", "AnnotationIgnored")]
    assert events[0].message.startswith("annotation kraftquorum.io/rotate-ca: ")


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile",
    "why + self.image_turn.wait_of(observed.owner, image)",
    "why",
)
async def test_a_quorum_that_waits_for_another_image_says_for_which_quorum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = ImageTurn(Owner("north", "first", "other"))
    _, (status,) = await looks(monkeypatch, healthy(), ValueError("unused"), 1, turn=turn)
    said = "default image node:2 waits for quorum first in namespace north"
    assert said in status["message"]
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "True", "it is well, with the image that it has"
    assert said in ready["message"]
    _, (status,) = await looks(monkeypatch, healthy(), ValueError("unused"), 1)
    assert said not in status["message"]


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile",
    "memory.refusals.counting_failed(decision, failure, generation, now_ms)",
    "pass",
)
async def test_a_repair_does_not_wait_for_a_budget_that_takes_no_other_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An admission webhook that refuses the budget would keep every lost disk as it is."""
    error = RefusedError(403, "Forbidden", "PATCH: 403 a webhook denies it")
    observation = with_node(healthy(), node(2, "b", blank=True))
    found, _ = await looks(monkeypatch, observation, error, 3)
    assert found[0].decision == CountPod("demo-2", voter=False)
    assert "403 a webhook denies it" in found[0].events[-1].message
    assert [type(outcome.decision) for outcome in found[1:]] == [JoinNode, JoinNode]


async def test_an_object_that_is_refused_is_told_and_not_tried_at_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = RefusedError(422, "Invalid", "PATCH: 422 spec.ports is invalid")
    observation = replace(healthy(), outdated=(KEY,))
    (first, *others), statuses = await looks(monkeypatch, observation, error, 4)
    assert first.decision == ApplyObjects((KEY,))
    assert first.failed
    assert first.pause_s > 0
    warning = first.events[-1]
    assert (warning.type, warning.reason) == ("Warning", "ApplyObjectsFailed")
    assert "422 spec.ports is invalid" in warning.message
    for outcome in others:
        assert isinstance(outcome.decision, Wait)
        assert outcome.decision.guard == "objects_written"
    assert "422 spec.ports is invalid" in statuses[-1]["message"]
    ready = next(c for c in statuses[-1]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ObjectsWritten")
    assert "422 spec.ports is invalid" in ready["message"]


async def test_a_value_that_fits_no_model_is_a_failed_action(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joining = with_pod(with_node(healthy(), node(2, "b", blank=True)), pod(2, voter=False))
    found, _ = await looks(monkeypatch, joining, ValueError("cluster_id: bad pattern"), 2)
    assert [type(outcome.decision) for outcome in found] == [JoinNode, JoinNode]
    assert all(outcome.failed for outcome in found)
    told = [event.reason for outcome in found for event in outcome.events]
    assert told.count("JoinNodeFailed") == 1, "the same failure is not told twice in a minute"


async def test_a_reason_that_no_condition_can_hold_keeps_no_action_from_being_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A webhook may give a whole sentence; the status is written before the action is done."""
    joining = with_pod(with_node(healthy(), node(2, "b", blank=True)), pod(2, voter=False))
    error = RefusedError(403, "no, since " + "x" * 128, "denied")
    found, statuses = await looks(monkeypatch, joining, error, 5)
    assert [type(outcome.decision) for outcome in found] == [JoinNode] * 5
    failing = next(c for c in statuses[-1]["conditions"] if c["type"] == "Failing")
    assert (failing["status"], failing["reason"]) == ("True", "Refused")


def test_refusals_wait_longer_each_time_until_the_object_is_written_or_changed() -> None:
    refusals, observation, now_ms = (
        Refusals(),
        replace(healthy(), outdated=(KEY, ObjectRef("Service", "b"))),
        0,
    )
    pauses: list[int] = []
    for _ in range(8):
        refusals.failed([KEY], "422", observation.generation, now_ms)
        marked = refusals.mark(observation, now_ms)
        assert (marked.outdated, marked.refused) == ((ObjectRef("Service", "b"),), ((KEY, "422"),))
        pauses.append(refusals.known[KEY].pause_ms)
        now_ms = refusals.known[KEY].until_ms
        assert refusals.mark(observation, now_ms).outdated == observation.outdated
    assert (pauses[0], pauses[1], pauses[-1]) == (FIRST_MS, 2 * FIRST_MS, LONGEST_MS)
    refusals.failed([KEY], "422", observation.generation, now_ms)
    assert (
        refusals.mark(replace(observation, generation=2), now_ms).outdated == observation.outdated
    )
    refusals.mark(replace(observation, outdated=()), now_ms)
    assert not refusals.known


def test_a_failure_is_told_again_when_it_lasts() -> None:
    log, action = EventLog(), ApplyObjects((KEY,))
    told = [bool(log.of_failure(action, "422", at, 60_000)) for at in (0, 5_000, 60_000)]
    assert told == [True, False, True]
    assert log.of_failure(action, "403", 61_000, 60_000)


@pytest.mark.parametrize(
    "error",
    [
        ConflictError(409, "Conflict", "PATCH: the object has been modified"),
        NodeRefusedError("STALE_VOTER_RECORD", "the set has changed"),
    ],
)
async def test_a_conflict_is_no_failure_unless_it_lasts(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Another client was faster; the next look begins with what is there now."""
    joining = with_pod(with_node(healthy(), node(2, "b", blank=True)), pod(2, voter=False))
    found, statuses = await looks(monkeypatch, joining, error, CONFLICTS_REPORTED_AFTER - 1)
    assert not [e for outcome in found for e in outcome.events if e.type == "Warning"]
    assert not [e for s in statuses for e in s.get("timeline", ()) if e["kind"] == "Fault"]
    lasting, statuses = await looks(monkeypatch, joining, error, CONFLICTS_REPORTED_AFTER + 1)
    assert [e.reason for o in lasting for e in o.events if e.type == "Warning"] == [
        "JoinNodeFailed"
    ]
    failing = next(c for c in statuses[-1]["conditions"] if c["type"] == "Failing")
    assert failing["status"] == "True"


class Leases:
    """Held for a number of questions."""

    def __init__(self, times: int) -> None:
        self.times = times

    @property
    def held(self) -> bool:
        self.times -= 1
        return self.times >= 0


class Leader:
    """The nodes, and the removals that their leader was asked for."""

    def __init__(self) -> None:
        self.removed: list[int] = []

    def of(self, _: str) -> Leader:
        return self

    async def remove_voter(self, address: str, request: Any) -> None:
        self.removed.append(request.voter.node_id)


def leaving() -> Observation:
    """The fourth of four voters is to be removed, on an engine whose leader checks no change."""
    seen = without_node(with_pod(healthy(4), pod(3, voter=False)), 3)
    assert seen.quorum is not None
    leaves = replace(seen.quorum.voters[3], replica=ReplicaId(3, random_id()))
    voters = (*seen.quorum.voters[:3], leaves)
    seen = with_quorum(seen, voters=voters, committed=tuple(v.replica for v in voters))
    return replace(seen, engine=KAFKA)


LEAVING = leaving()


@pytest.mark.rule("S11", "S26")
@pytest.mark.parametrize(
    ("again", "held", "removed"),
    [
        (LEAVING, 9, [3]),
        (with_quorum(LEAVING, confirmed=False), 9, []),
        (with_quorum(LEAVING, epoch=4, basis=VoterRecord(9, 4)), 9, []),
        (None, 9, []),
        (LEAVING, 2, []),
    ],
    ids=["the-same", "unconfirmed", "other-voters", "gone", "lease-lost"],
)
async def test_a_change_that_no_leader_checks_is_observed_and_decided_again(
    monkeypatch: pytest.MonkeyPatch, again: Observation | None, held: int, removed: list[int]
) -> None:
    """The Lease may run out during the second observation."""
    seen = [LEAVING, again]

    async def observe(*_: object, **__: object) -> Observed | None:
        observation = seen.pop(0)
        if observation is None:
            return None
        owner = Owner("test", "demo", UID)
        return Observed(spec(voters=3), observation, owner, {"metadata": {}}, (), (), 1)

    monkeypatch.setattr(evaluation_module, "observe", observe)
    monkeypatch.setattr(evaluation_module, "compare", lambda *_: Desired({}, (), ()))
    leader = Leader()
    reconciler = Reconciler(
        kube=cast("Any", Kube()),
        nodes=cast("Any", leader),
        lease=cast("Any", Leases(held)),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )
    outcome = await reconciler.reconcile("test", "demo", UID)
    assert leader.removed == removed
    assert seen == []
    assert outcome.failed is not bool(removed)


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile",
    "memory.refusals.growth_failed(decision, failure, generation, now_ms)",
    "pass",
)
async def test_a_claim_that_may_not_grow_is_reported_and_the_others_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = RefusedError(403, "Forbidden", "PATCH: 403 the class must support resize")
    observation = healthy()
    for ordinal in range(3):
        observation = with_size(observation, ordinal, 0.5, 0.5)
    outcomes, statuses = await looks(monkeypatch, observation, error, 4)
    claims = [o.decision.claim for o in outcomes[:3] if isinstance(o.decision, GrowClaim)]
    assert claims == ["data-demo-1", "data-demo-2", "data-demo-0"]
    last = outcomes[3].decision
    assert isinstance(last, Wait)
    assert last.guard == "claim_growth_accepted"
    conditions = {c["type"]: c for c in statuses[-1]["conditions"]}
    assert conditions["VolumesGrowing"]["reason"] == "Refused"
    assert conditions["Available"]["status"] == "True"
    assert conditions["Progressing"]["status"] == "False", "a person must act"


@pytest.mark.without(
    "kraftquorum_operator.reconcile:Reconciler._reconcile",
    "if not isinstance(decision, GrowClaim):",
    "if True:",
)
async def test_a_claim_that_may_not_grow_changes_no_condition_while_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No alert and no entry of the timeline comes and goes with each attempt."""
    monkeypatch.setattr(refused_requests, "FIRST_MS", 0)
    error = RefusedError(403, "Forbidden", "PATCH: 403 the class must support resize")
    observation = healthy()
    for ordinal, size in enumerate((1, 0.5, 1)):
        observation = with_size(observation, ordinal, size, size)
    outcomes, statuses = await looks(monkeypatch, observation, error, 6)
    assert [type(outcome.decision) for outcome in outcomes] == [GrowClaim] * 6
    assert all(outcome.pause_s > 0 for outcome in outcomes)
    for status in statuses[1:]:
        conditions = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
        assert conditions["Ready"] == ("False", "ClaimGrowthAccepted")
        assert conditions["Progressing"] == ("False", "ClaimGrowthAccepted")
        assert conditions["VolumesGrowing"] == ("True", "Refused")
        assert "Failing" not in conditions
        assert status.get("currentAction") is None


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:awaits_only_volumes",
    "isinstance(decision, Wait)",
    "False",
)
async def test_a_quorum_gets_its_turn_for_an_image_while_its_volumes_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observation, turn = with_size(healthy(), 1, 1, 0.5), ImageTurn()
    (outcome,), _ = await looks(monkeypatch, observation, ValueError("unused"), 1, turn=turn)
    assert isinstance(outcome.decision, Wait)
    assert outcome.decision.guard == "volume_has_grown"
    assert turn.holder == Owner("test", "demo", UID)
    assert outcome.pause_s == 0
