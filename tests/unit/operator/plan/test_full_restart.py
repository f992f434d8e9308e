"""All pods of a quorum restart, and claims of former voters remain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.kube import read_pods
from kraftquorum_operator.plan.actions import SetReplicas
from kraftquorum_operator.plan.formation import RESTART_PATIENCE_MS
from proofkit.operatorworld import user_actions
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.reported_world import ReportedWorld
from proofkit.operatorworld.truth import TICK_MS
from proofkit.operatorworld.world import World


def scaled_down() -> ReportedWorld:
    """Formed with five voters and scaled to three; the claims of two are kept."""
    told = ReportedWorld(World(QuorumSpec.model_validate({"voters": 5})))
    told.settle()
    told.world.spec = QuorumSpec.model_validate({"voters": 3})
    for _ in told.run(60):
        pass
    assert told.settle().replicas == 3
    assert set(told.world.disks) == {0, 1, 2, 3, 4}
    assert told.world.replicas == 3
    return told


@pytest.mark.parametrize("ticks", [0, 5, 40])
def test_a_full_restart_starts_no_pods_for_kept_claims(ticks: int) -> None:
    told = scaled_down()
    for ordinal in range(3):
        told.world.crash(ordinal, ticks=ticks)
    told.world.changes.clear()
    for _ in told.run(ticks + 20):
        assert set(told.world.runners) <= {0, 1, 2}
    assert told.settle().leader is not None
    assert not [change for change in told.world.changes if "SetReplicas" in change]


def test_every_claim_gets_its_pod_if_those_that_are_there_stay_silent() -> None:
    """S25: the replicas may be those of an old backup, and the voters on other claims."""
    told = scaled_down()
    for ordinal in range(3):
        told.world.crash(ordinal, ticks=10_000)
    for _ in told.run(RESTART_PATIENCE_MS // TICK_MS + 10):
        pass
    assert told.world.replicas == 5


def test_a_pod_that_fails_to_start_is_not_waited_for() -> None:
    told = scaled_down()
    user_actions.scale_statefulset(told.world, 1)
    told.world.crash(0)
    for _ in told.run(3):
        pass
    assert told.world.replicas == 3 or told.world.leader is not None
    observation = scaled_down().world.look()
    away = tuple(replace(p, ready=False, unready_ms=1, running=False) for p in observation.pods)
    silent = replace(observation, quorum=None, nodes=(), pods=away)
    wanted = QuorumSpec.model_validate({"voters": 3})
    assert not isinstance(decide(wanted, silent, 0), SetReplicas)
    ended = replace(silent, pods=tuple(replace(p, restarts=3) for p in away))
    assert isinstance(decide(wanted, ended, 0), SetReplicas)


def test_since_when_a_pod_is_not_ready_is_read_off_its_condition() -> None:
    body = {
        "metadata": {"name": "demo-0", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": "Running"},
    }
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert read_pods("demo", [body], now)[0].unready_ms == 60_000, "since it is there"
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:50Z"}
    body["status"]["conditions"] = [ready]
    assert read_pods("demo", [body], now)[0].unready_ms == 10_000
    ready["status"] = "True"
    assert read_pods("demo", [body], now)[0].unready_ms == 0
