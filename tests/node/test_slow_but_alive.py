"""A node that is slow but alive, on real processes: the rest of the quorum goes on without it (S35).

The watchdog is off: what is shown is that no process need end for writes and reads to resume.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from proofkit.busyclients import BusyClients, busy_clients
from proofkit.faultynode import NodeFaults
from proofkit.linearizability import check
from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.errors import ExitCode

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("S35")]

OPERATIONS = 40
"""More than the clients can have under way at once: a hung leader still commits one batch."""
WITHIN_S = 40.0
"""How long a test waits for so many answers on a busy machine."""
STALL_MAX_S = 10.0
"""What is promised: no client waits longer for one answer, whatever ails one node."""


@dataclass(frozen=True)
class Illness:
    """What is done to a node, and how it is ended."""

    name: str
    begin: Callable[[LocalNode, NodeFaults], None]
    end: Callable[[LocalNode, NodeFaults], None] = lambda _, faults: faults.heal()
    ends_process: ExitCode | None = None


ILLNESSES = {
    one.name: one
    for one in (
        Illness("flush-hangs", lambda _, faults: faults.hang("sync")),
        Illness("flush-takes-100-ms", lambda _, faults: faults.slow("sync", 100)),
        Illness("flush-takes-1-s", lambda _, faults: faults.slow("sync", 1000)),
        Illness("flush-takes-10-s", lambda _, faults: faults.slow("sync", 10_000)),
        Illness("write-hangs", lambda _, faults: faults.hang("write")),
        Illness("read-hangs", lambda _, faults: faults.hang("read")),
        Illness("all-hang", lambda _, faults: faults.hang("sync", "write", "read")),
        Illness("loop-stalls", lambda _, faults: faults.hang("loop")),
        Illness(
            "process-stopped",
            lambda node, _: node.signal(signal.SIGSTOP),
            lambda node, _: node.signal(signal.SIGCONT),
        ),
        Illness(
            "no-space",
            lambda _, faults: faults.fail("write", "ENOSPC"),
            ends_process=ExitCode.STORAGE_FULL,
        ),
    )
}
FAST = [("flush-hangs", "leader"), ("flush-hangs", "follower")]
"""Part of `make test`; the others of `make extended` for a leader, of `make nightly` for both."""
LONG = {
    "leader": (pytest.mark.extended,),
    "follower": (pytest.mark.extended, pytest.mark.nightly),
}


async def make_quorum(quorum: LocalQuorum) -> dict[int, NodeFaults]:
    """Three voters, each of which can be made ill."""
    faults = {node.node_id: node.make_faulty() for node in quorum.nodes[:3]}
    await quorum.form(3)
    return faults


async def at_work(clients: BusyClients, since: float, *, within_s: float = WITHIN_S) -> None:
    """Wait until writes and reads that began after a time are answered, one after the other."""

    async def look() -> bool | None:
        done = [clients.answered(writes=writes, called_after=since) for writes in (True, False)]
        assert all(len(answered) >= OPERATIONS for answered in done), [len(one) for one in done]
        return True

    await eventually(look, within_s=within_s, what="writes and reads to go on")


@pytest.mark.quorum_settings(RAFTNODE_STALL_TIMEOUT_MS="0")
@pytest.mark.parametrize(
    ("name", "who"),
    [
        pytest.param(name, who, marks=[] if (name, who) in FAST else LONG[who])
        for name in ILLNESSES
        for who in ("leader", "follower")
    ],
)
async def test_writes_and_reads_go_on_without_a_node_that_is_slow_but_alive(
    quorum: LocalQuorum, name: str, who: str
) -> None:
    illness, faults = ILLNESSES[name], await make_quorum(quorum)
    async with busy_clients(quorum.nodes[:3]) as clients:
        await at_work(clients, time.monotonic())
        leader = await quorum.leader()
        others = [node for node in quorum.nodes[:3] if node is not leader]
        node = leader if who == "leader" else others[0]
        began = time.monotonic()
        illness.begin(node, faults[node.node_id])
        try:
            await at_work(clients, began)
            # The gap that matters may come after the first answers.
            await asyncio.sleep(5)
            await at_work(clients, time.monotonic())
            if illness.ends_process is not None:
                assert await asyncio.to_thread(node.wait) == illness.ends_process
        finally:
            illness.end(node, faults[node.node_id])
        if illness.ends_process is not None:
            node.start()
        healed = time.monotonic()
        await at_work(clients, healed)
        await all_caught_up(quorum)
    for kind, writes in (("writes", True), ("reads", False)):
        longest_s = clients.longest_wait(writes=writes, since=began)
        print(f"{name} of the {who}: {kind} waited {longest_s:.2f} s")  # noqa: T201
        assert longest_s < STALL_MAX_S, f"{kind} waited {longest_s:.1f} s"
    violation = check(clients.history.all())
    assert violation is None, str(violation)


async def all_caught_up(quorum: LocalQuorum) -> None:
    async def look() -> bool | None:
        voters = (await quorum.describe()).voters
        assert all(one.caught_up for one in voters), voters
        return True

    await eventually(look, what="all voters to be caught up")
