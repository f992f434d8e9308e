"""The operator behind a proxy that does harm: errors, lost answers, cut and silent watches."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_devcluster.faultproxy.rules import CutWatch, Delay, Drop, SilenceWatch, StaleAnswer

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


async def test_faults_of_the_api_delay_the_operator_and_break_nothing(
    krq, operators, tmp_path: Path
) -> None:
    async with FaultProxy(krq.cluster) as proxy:
        for verb in ("create", "patch", "delete"):
            proxy.fail(500, verb=verb, times=2)
            proxy.fail(429, verb=verb, times=2, skip=3, retry_after_s=1)
            proxy.fail(409, verb=verb, times=1, skip=6)
            # The write takes effect, and the operator does not hear of it.
            proxy.add(Drop(after=True), verb=verb, times=2, skip=4)
        proxy.add(CutWatch(after_events=2), verb="watch", times=4)
        proxy.add(SilenceWatch(after_events=1), verb="watch", path="/pods", times=2, skip=1)
        proxy.add(Delay(0.3), verb="list", times=10)
        operators.start(proxy.kubeconfig)
        await asyncio.to_thread(krq.apply, voters=3, replacement={"gracePeriodSeconds": 2})
        await asyncio.to_thread(krq.ready, 3)
        cluster_id = krq.status()["clusterId"]

        proxy.add(StaleAnswer(), verb="get", path="/statefulsets/demo", times=6)
        await asyncio.to_thread(krq.kubectl, "scale", "krq", "demo", "--replicas=5")
        await asyncio.to_thread(krq.ready, 5)
        await asyncio.to_thread(krq.kubectl, "scale", "krq", "demo", "--replicas=3")
        await asyncio.to_thread(krq.ready, 3)

        old = dict(krq.voters())[1]
        proxy.fail(500, verb="delete", times=2)
        proxy.add(Drop(after=True), verb="delete", times=1)
        folder = krq.cluster.volume_dir(krq.namespace, "data-demo-1")
        next(folder.rglob("meta.properties")).unlink()
        await asyncio.to_thread(krq.kubectl, "delete", "pod", "demo-1", "--wait=false")
        await asyncio.to_thread(krq.replaced, 1, old)
        assert krq.status()["clusterId"] == cluster_id
        latches = [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]
        assert len(latches) == 1
        await asyncio.to_thread(krq.delete)


def in_the_middle(krq, operators, voters: int) -> None:
    """Kill the API server twice in a scale-up: before a pod is there, and before it is added."""
    krq.kubectl("scale", "krq", "demo", f"--replicas={voters}")
    for action in ("SetReplicas", "JoinNode"):
        done = len([a for a in operators.actions() if a.startswith(action)])
        krq.until(
            action,
            lambda a=action, n=done: len([x for x in operators.actions() if x.startswith(a)]) > n,
        )
        krq.cluster.restart_apiserver()


@pytest.mark.nightly
def test_the_api_server_is_killed_in_the_middle_of_a_scale_up_and_of_a_replacement(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    writing.start()
    in_the_middle(krq, operators, 5)
    krq.ready(5)
    old = dict(krq.voters())[1]
    krq.wipe(1)
    krq.until("joined", lambda: [a for a in operators.actions() if a.startswith("JoinNode 1-")])
    krq.cluster.restart_apiserver()
    krq.replaced(1, old, 5)
    added = [a.split()[1] for a in operators.actions() if a.startswith("AddVoter") and "done" in a]
    assert len(set(added)) == len(added), "none was added twice"
    # The operator does not wait a minute after an outage: what a person asks for is begun at once.
    krq.cluster.restart_apiserver()
    krq.kubectl("scale", "krq", "demo", "--replicas=3")
    begun = krq.until("begun", lambda: krq.status().get("phase") == "Changing")
    assert begun < 45
    krq.ready(3)
    writing.finish(bounded=True)


async def test_watches_that_end_with_gone_are_begun_again(krq, operators) -> None:
    """Every watch is cut, and refused with 410 when it goes on; reads fail with 429 and 500."""
    async with FaultProxy(krq.cluster) as proxy:
        proxy.add(CutWatch(after_events=2), verb="watch", times=5)
        proxy.fail(410, verb="watch", times=5, skip=5)
        operators.start(proxy.kubeconfig)
        await asyncio.to_thread(krq.apply, voters=1)
        await asyncio.to_thread(krq.ready, 1)
        for status in (429, 500):
            proxy.fail(status, verb="list", times=4)
            proxy.fail(status, verb="get", times=4, skip=2)
        await asyncio.to_thread(krq.kubectl, "scale", "krq", "demo", "--replicas=3")
        await asyncio.to_thread(krq.ready, 3)
        assert len([e for e in proxy.log if e.request.verb == "watch" and e.status == 410]) > 1
        await asyncio.to_thread(krq.delete)
