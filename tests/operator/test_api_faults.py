"""The operator behind a proxy that does harm: errors, lost answers, cut and silent watches."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_devcluster.faultproxy.rules import CutWatch, Delay, Drop, SilenceWatch, StaleAnswer

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]


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
        await asyncio.to_thread(krq.ready, 3, 120)
        cluster_id = krq.status()["clusterId"]

        proxy.add(StaleAnswer(), verb="get", path="/statefulsets/demo", times=6)
        await asyncio.to_thread(krq.kubectl, "scale", "krq", "demo", "--replicas=5")
        await asyncio.to_thread(krq.ready, 5, 120)
        await asyncio.to_thread(krq.kubectl, "scale", "krq", "demo", "--replicas=3")
        await asyncio.to_thread(krq.ready, 3, 120)

        old = dict(krq.voters())[1]
        proxy.fail(500, verb="delete", times=2)
        proxy.add(Drop(after=True), verb="delete", times=1)
        folder = krq.cluster.volume_dir(krq.namespace, "data-demo-1")
        next(folder.rglob("meta.properties")).unlink()
        await asyncio.to_thread(krq.kubectl, "delete", "pod", "demo-1", "--wait=false")
        await asyncio.to_thread(krq.replaced, 1, old, 3, 120)
        assert krq.status()["clusterId"] == cluster_id
        latches = [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]
        assert len(latches) == 1
        await asyncio.to_thread(krq.delete)
