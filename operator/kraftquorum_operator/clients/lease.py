"""The Lease that makes one of several operators the active one (S26).

It makes two active operators rare, not impossible; the preconditions of every action
keep them harmless. The operator measures how long it holds the Lease by the monotonic
clock, from before the request that renewed it. So an operator that was stopped knows
when it continues that it no longer holds the Lease.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import cast

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import ConflictError, KubeError
from kraftquorum_operator.model.objects import Body


class Lease:
    """One operator's claim to be the active one; `run` keeps it until cancelled."""

    def __init__(
        self,
        kube: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration_s = duration_s
        self._clock = clock
        self._held_until = -math.inf
        self._last_renewal: tuple[str, float] = ("", -math.inf)
        """The last renewal of another holder, and when it was first seen here."""
        self.may_renew: Callable[[], bool] = lambda: True
        """Asked before each renewal."""
        self._own: Body | None = None
        """The Lease as this operator wrote it last, if no later request has failed."""

    @property
    def held(self) -> bool:
        """Whether this operator may act now."""
        return self._clock() < self._held_until

    async def run(self) -> None:
        """Take or renew the Lease, for ever."""
        while True:
            try:
                if self.may_renew():
                    await self.step()
            except KubeError:
                pass
            except asyncio.CancelledError:
                # When kopf is restarted, it cancels every task created since its start, such as a
                # host's resolution that our request waits for. This task itself is not cancelled
                # then; without the Lease this operator would never act again.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            await asyncio.sleep(self._duration_s / 4 if self.held else self._duration_s / 8)

    async def step(self) -> None:
        """Take or renew the Lease once, if that may be.

        A renewal needs no read: its resourceVersion is that of the last write.
        """
        started = self._clock()
        own, self._own = self._own, None
        if own is not None and self.held and await self._take(started, own):
            return
        lease = await self._kube.get("Lease", self._namespace, self._name)
        if lease is None:
            await self._take(started, None)
            return
        spec = cast("Body", lease.get("spec") or {})
        holder = str(spec.get("holderIdentity") or "")
        if holder not in {"", self._identity} and not self._is_expired(spec, holder):
            self._held_until = -math.inf
            return
        await self._take(started, lease)

    def _is_expired(self, spec: Body, holder: str) -> bool:
        """Another's Lease expires once it has not changed for its duration, by our own clock."""
        mark = f"{holder} {spec.get('renewTime')} {spec.get('leaseTransitions')}"
        if mark != self._last_renewal[0]:
            self._last_renewal = (mark, self._clock())
        duration_s = float(spec.get("leaseDurationSeconds") or self._duration_s)
        return self._clock() - self._last_renewal[1] > duration_s

    async def _take(self, started: float, lease: Body | None) -> bool:
        """Write the Lease; returns whether this operator holds it now."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        before = cast("Body", (lease or {}).get("spec") or {})
        mine = before.get("holderIdentity") == self._identity
        spec: Body = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._duration_s),
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (not mine),
        }
        try:
            if lease is None:
                meta = {"namespace": self._namespace, "name": self._name}
                self._own = await self._kube.create(_lease(meta, spec))
            else:
                self._own = await self._kube.replace(_lease(lease["metadata"], spec))
        except ConflictError:
            self._held_until = -math.inf
            return False
        self._held_until = started + self._duration_s
        return True

    async def release(self) -> None:
        """Release the Lease at a clean exit, so that another operator need not wait."""
        if not self.held:
            return
        self._held_until = -math.inf
        with suppress(KubeError):
            lease = await self._kube.get("Lease", self._namespace, self._name)
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                spec = lease["spec"] | {"holderIdentity": ""}
                await self._kube.replace(_lease(lease["metadata"], spec))


def _lease(meta: Body, spec: Body) -> Body:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": meta,
        "spec": spec,
    }
