"""Waits at every replica between two reconciliations, so that the operator notices a loss at once.

One request waits at each replica that answered the last reconciliation. The replica answers once
its role, leader or readiness has changed, or, on a leader, other voters are caught up. When the
request is answered or fails, the operator reconciles the quorum. A process that exits closes its
connection. Keep-alive probes notice a process that is cut off or whose machine is down. The other
replicas notice a process that hangs. This sends no request to the API server, and two requests a
minute to a replica while nothing happens.

No decision is made here: only the next reconciliation comes earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from kraftquorum_operator.clients.nodes import NodeApi
from kraftquorum_operator.errors import NodeError

WAIT_S = 30.0
"""How long a request waits at a replica where nothing happens."""

REST_S = 1.0
"""Pause between two requests to a replica: a replica that changes all the time, or closes every
connection, causes one reconciliation a second."""

FAILURES_MAX = 5
UNABLE_S = 300.0
"""After `FAILURES_MAX` failed requests of this kind, the operator sends none to the replica for
this long. An earlier version of the node, for example, does not answer them."""

Quorum = tuple[str, str]
"""Namespace and name."""


class ReplicaWatches:
    """One waiting request for each replica; an async context manager.

    Args:
        nodes: sends the requests to the replicas.
        wake: has a quorum reconciled.
    """

    def __init__(self, nodes: NodeApi, wake: Callable[[str, str], None]) -> None:
        self._nodes = nodes
        self._wake = wake
        self._group = asyncio.TaskGroup()
        self._tasks: dict[Quorum, dict[str, asyncio.Task[None]]] = {}
        self._unable: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for quorum in tuple(self._tasks):
            self.drop(*quorum)
        await self._group.__aexit__(kind, error, trace)

    def keep(self, namespace: str, name: str, addresses: Iterable[str]) -> None:
        """Keep one request at each of these replicas of a quorum, and at no other replica of it."""
        wanted, quorum = set(addresses), (namespace, name)
        tasks = self._tasks.setdefault(quorum, {})
        for gone in set(tasks) - wanted:
            tasks.pop(gone).cancel()
        now_s = time.monotonic()
        self._unable = {at: until_s for at, until_s in self._unable.items() if until_s > now_s}
        for address in sorted(wanted - set(tasks)):
            if address not in self._unable:
                made = self._group.create_task(self._watch(quorum, address), name=f"at {address}")
                tasks[address] = made
        if not tasks:
            del self._tasks[quorum]

    def drop(self, namespace: str, name: str) -> None:
        """Cancel the requests of a quorum, deleted or reconciled by another operator now."""
        for task in self._tasks.pop((namespace, name), {}).values():
            task.cancel()

    async def _watch(self, quorum: Quorum, address: str) -> None:
        """Wait at one replica until it is dropped; wake its quorum at a change or a failure."""
        known, failures, nodes = "", 0, self._nodes.of("/".join(quorum))
        while failures < FAILURES_MAX:
            try:
                state = await nodes.state(address, known, WAIT_S if known else 0.0)
            except (NodeError, ValueError):
                if known:
                    self._wake(*quorum)
                known, failures = "", failures + 1
                await asyncio.sleep(REST_S)
                continue
            if known and state != known:
                self._wake(*quorum)
                await asyncio.sleep(REST_S)
            known, failures = state, 0
        self._unable[address] = time.monotonic() + UNABLE_S
        self._tasks.get(quorum, {}).pop(address, None)
