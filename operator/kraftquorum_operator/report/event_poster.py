"""Posts events of Kubernetes: it counts a repeated event instead of posting it again.

An event is a report, so nothing waits for it. The operator posts events one after the other beside
its reconciliations, and drops those that are too many. Losing this state only loses a count.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.report.events import Event

PENDING_MAX = 100
"""The most events that wait to be posted."""

KNOWN_MAX = 5_000
"""The most events with a count; the count of others starts again."""

CLOSE_S = 2.0
"""How long the operator's exit waits for events that are not sent yet."""


@dataclass(slots=True)
class EventPoster:
    """Sends events of all quorums.

    Attributes:
        kube: where they are sent.
        identity: of this operator, as in the Lease.
        kind: of the resources that the events are about.
    """

    kube: KubeClient
    identity: str
    kind: str = names.KIND
    _run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """An operator that begins does not know what was counted, so its events are others."""
    _counts: OrderedDict[str, tuple[int, str]] = field(
        default_factory=OrderedDict[str, tuple[int, str]]
    )
    """How often each was posted, and when first."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def pending(self) -> int:
        """How many events are not sent yet."""
        return len(self._tasks)

    def post(self, owner: Owner, events: Iterable[Event]) -> None:
        """Send events about a resource, soon."""
        for event in events:
            if len(self._tasks) >= PENDING_MAX:
                return
            task = asyncio.get_running_loop().create_task(self._send(self._body(owner, event)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def sent(self) -> None:
        """Wait until all are sent or have failed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Send what is pending, in bounded time; nothing uses the client after that."""
        if not self._tasks:
            return
        _, unsent = await asyncio.wait(self._tasks, timeout=CLOSE_S)
        for task in unsent:
            task.cancel()
        if unsent:
            await asyncio.wait(unsent)

    async def _send(self, body: Body) -> None:
        async with self._turn:
            with suppress(KubeError):
                await self.kube.apply(body)

    def _body(self, owner: Owner, event: Event) -> Body:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        same = f"{self._run}\n{owner.uid}\n{event.type}\n{event.reason}\n{event.about}"
        name = f"{owner.name}.{hashlib.sha256(same.encode()).hexdigest()[:16]}"
        count, first = self._counts.pop(name, (0, now))
        self._counts[name] = (count + 1, first)
        if len(self._counts) > KNOWN_MAX:
            self._counts.popitem(last=False)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": owner.namespace, "name": name},
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": self.kind,
                "namespace": owner.namespace,
                "name": owner.name,
                "uid": owner.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": count + 1,
            "firstTimestamp": first,
            "lastTimestamp": now,
            "source": {"component": names.MANAGER},
            "reportingComponent": names.MANAGER,
            "reportingInstance": self.identity,
        }
