"""An operator on standby writes nothing, and does all of it once it is the active one."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kraftquorum_devcluster.faultproxy import FaultProxy

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

FINALIZER = "kraftquorum.io/quorum"
READS = {"get", "list", "watch"}


def writes(proxy: FaultProxy) -> list[str]:
    """What was asked for beyond reads and reviews, which are kept nowhere."""
    return [
        f"{entry.request.verb} {entry.request.path}"
        for entry in list(proxy.log)
        if entry.request.verb not in READS and not entry.request.path.endswith("reviews")
    ]


async def test_an_operator_on_standby_writes_nothing(krq, operators, tmp_path: Path) -> None:
    """No finalizer, annotation or event: from a resource's creation until it is deleted."""
    async with FaultProxy(krq.cluster, tmp_path) as proxy:

        def apply() -> None:
            krq.apply(voters=1, deletion={"claims": "Delete"})
            krq.ready(1)
            krq.until("held", lambda: krq.get()["metadata"].get("finalizers") == [FINALIZER])

        def live() -> None:
            active = operators.start()
            krq.until("active", lambda: operators.holds_lease(active))
            operators.start(proxy.kubeconfig)
            krq.until("watching", lambda: any(e.request.verb == "watch" for e in list(proxy.log)))
            apply()
            change = '{"spec":{"replacement":{"gracePeriodSeconds":9}}}'
            krq.kubectl("patch", "krq", "demo", "--type=merge", "-p", change)
            krq.delete()
            krq.until("gone", lambda: not krq.list("krq") and not krq.list("pvc"))
            time.sleep(2)
            assert operators.holds_lease(active)
            assert writes(proxy) == []

            # It continues a deletion that the active operator began.
            apply()
            operators.stop(active)
            krq.delete()
            krq.until("gone", lambda: not krq.list("krq") and not krq.list("pvc"))
            assert writes(proxy)

        await asyncio.to_thread(live)
