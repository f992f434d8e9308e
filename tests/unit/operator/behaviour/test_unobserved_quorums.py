"""Conditions that the operator cannot observe are Unknown, with the time of the last observation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, cast

import pytest

import kraftquorum_operator.reconcile as module
from kraftquorum_operator import names
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import KubeUnavailableError, RefusedError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.http.page.verdict import judge
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from kraftquorum_operator.report.timeline import timeline
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.fleet import NAMESPACE, Fleet, FleetKube
from proofkit.operatorworld.observations import NOW_MS, healthy, spec
from raftnode.errors import ExitCode

FORBIDDEN = RefusedError(403, "Forbidden", "pods is forbidden")
AWAY = KubeUnavailableError(500, "InternalError", "etcdserver: request timed out")


class Held:
    held = True


class Watched:
    """One healthy quorum, observed once and found well."""

    def __init__(self, fleet: Fleet, nodes: HttpNodes) -> None:
        self.fleet = fleet
        (self.member,) = fleet.members.values()
        self.kube: FleetKube = fleet.kube
        self.reconciler = Reconciler(
            kube=cast("Any", self.kube),
            nodes=nodes,
            lease=cast("Any", Held()),
            settings=Settings(),
            metrics=Metrics(),
            failpoints=Failpoints(),
        )

    async def look(self) -> None:
        await self.reconciler.reconcile(NAMESPACE, self.member.name, self.member.owner.uid)

    @property
    def conditions(self) -> dict[str, Any]:
        return self.fleet.conditions(self.member.name)[-1]

    @property
    def statuses(self) -> dict[str, str]:
        return {name: found["status"] for name, found in self.conditions.items()}

    def metric(self, condition: str) -> float | None:
        labels = {"namespace": NAMESPACE, "quorum": self.member.name, "condition": condition}
        registry = self.reconciler.metrics.registry
        return registry.get_sample_value("kraftquorum_condition", labels)


@pytest.fixture
async def watched() -> AsyncGenerator[Watched]:
    fleet, nodes = Fleet(1), HttpNodes(0.3)
    async with asyncio.timeout(120), fleet.serving():
        found = Watched(fleet, nodes)
        await found.look()
        assert found.statuses["Available"] == "True"
        yield found
        await nodes.close()


async def test_what_a_refused_look_cannot_see_is_unknown_with_the_time_of_the_last_look(
    watched: Watched,
) -> None:
    watched.kube.fails = FORBIDDEN
    await watched.look()
    statuses = watched.statuses
    assert statuses.pop("Failing") == "True"
    assert set(statuses.values()) == {"Unknown"}
    observed_at = watched.reconciler.memories[watched.member.owner.uid].observed_at
    message = watched.conditions["Available"]["message"]
    assert message.startswith(
        f"last observed at {observed_at}, when it was True, LeaderConfirmed: 0-"
    )
    assert watched.metric("Available") is None
    assert watched.metric("Failing") == 1
    written = len(watched.fleet.statuses["q0"])
    await watched.look()
    assert len(watched.fleet.statuses["q0"]) == written, "what is said already is not said again"
    watched.kube.fails = None
    await watched.look()
    assert watched.statuses["Available"] == "True"
    assert watched.metric("Available") == 1


async def test_an_api_server_that_fails_for_a_while_leaves_nothing_as_it_was(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.kube.fails = AWAY
    monkeypatch.setattr(module, "UNOBSERVED_S", 3600.0)
    await watched.look()
    assert watched.statuses["Available"] == "True", "one lost answer is everyday"
    monkeypatch.setattr(module, "UNOBSERVED_S", 0.0)
    await watched.look()
    assert watched.statuses["Available"] == "Unknown"
    assert watched.conditions["Failing"]["reason"] == "InternalError"


async def test_replicas_that_only_the_operator_cannot_reach_are_not_called_unavailable(
    watched: Watched,
) -> None:
    watched.member.held = asyncio.Event()
    await watched.look()
    memory = watched.reconciler.memories[watched.member.owner.uid]
    for name in ("Ready", "Available", "Degraded", "DiskLow", "StorageDamaged", "VolumeFromCopy"):
        found = watched.conditions[name]
        assert (found["status"], found["reason"]) == ("Unknown", "NotObserved"), name
        assert "reports as ready: q0-0, q0-1, q0-2" in found["message"]
        assert str(memory.last_answer_at) in found["message"]
        assert watched.metric(name) is None
    entry = watched.reconciler.statuses.quorums[NAMESPACE, "q0"]
    assert judge(entry, entry.at_s).level == "unknown"
    for ordinal in range(3):
        pod = watched.fleet.objects["Pod", names.pod("q0", ordinal)]
        pod["status"]["conditions"][0]["status"] = "False"
    await watched.look()
    assert watched.statuses["Available"] == "False", "Kubernetes does not reach them either"


def test_what_cannot_be_seen_is_neither_a_fault_nor_a_repair() -> None:
    """The timeline tells what began and ended, and not that it was out of sight."""
    wanted, well = spec(voters=3), healthy()

    def status(at: str) -> Any:
        decision = decide(wanted, well, NOW_MS)
        stamp = Stamp(at, 1)
        return build_status(wanted, well, decision, current_action=None, before=(), stamp=stamp)

    observation = status("1")
    hidden = observation.model_copy(
        update={
            "conditions": [
                c.model_copy(update={"status": "Unknown"}) if c.type != "Ready" else c
                for c in observation.conditions
            ]
        }
    )
    assert (
        timeline(hidden, observation, "2")
        == timeline(observation, hidden, "2")
        == list(observation.timeline)
    )


def test_a_pod_s_end_is_told_though_no_replica_answers() -> None:
    """That a disk is a stale copy stands in the pod's exit code; that none is would be a guess."""
    observation = replace(healthy(), nodes=(), quorum=None)
    stale = replace(
        observation.pods[0], ready=False, exit_code=ExitCode.STORAGE_STALE, detail="STORAGE_STALE"
    )
    observation = replace(observation, pods=(stale, *observation.pods[1:]))
    decision = decide(spec(voters=3), observation, NOW_MS)
    found = {c.type: c for c in conditions(observation, 3, decision, (), Stamp("1", 1))}
    assert found["VolumeFromCopy"].status == "True"
    assert found["StorageDamaged"].status == "Unknown"
