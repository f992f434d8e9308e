"""Waiting on what is seen, against a node in memory and a made-up API server."""

import asyncio
import time
from collections.abc import Callable

import pytest

from kraftquorum_demo.demo_state import DemoState
from kraftquorum_demo.errors import DeadlineError
from kraftquorum_demo.history import ReplicaId
from kraftquorum_demo.sample_answers import C2, A, B, C, quorum
from kraftquorum_demo.task_groups import run_with_background
from kraftquorum_demo.watcher import Watcher
from raftnode.client import QuorumClient
from raftnode.core.types import Endpoint


class Api:
    """Answers with a resource whose phase can be set."""

    phase = "Forming"

    async def get(self, path: str) -> dict:
        assert path == "/krq"
        status = {"phase": self.phase, "observedGeneration": 1, "replicas": 3, "message": "hello"}
        return {"metadata": {"generation": 1}, "spec": {"voters": 3}, "status": status}


def watcher(
    client: QuorumClient | None = None, say: Callable[[str], None] = lambda _: None
) -> Watcher:
    absent = QuorumClient([Endpoint("127.0.0.1", 1)])
    return Watcher(client or absent, Api(), "/krq", DemoState(), time.monotonic, say)


def test_redundant_means_committed_caught_up_and_no_change_under_way():
    seen = watcher()
    assert not seen.redundant(3)
    seen.state.quorum = quorum(A, [A, B, C])
    assert seen.redundant(3)
    assert not seen.redundant(5)
    seen.state.quorum = quorum(A, [A, B, C], lagging=[C])
    assert not seen.redundant(3)
    seen.state.quorum = quorum(A, [A, B, C], committed=[A, B])
    assert not seen.redundant(3)


def test_redundant_counts_ids_and_not_disks():
    seen = watcher()
    seen.state.quorum = quorum(A, [A, C, C2])
    assert not seen.redundant(3)


def test_without_a_seat_means_that_its_successor_votes():
    seen = watcher()
    assert not seen.without(ReplicaId.of(C), 3)
    seen.state.quorum = quorum(A, [A, B, C])
    assert not seen.without(ReplicaId.of(C), 3)
    seen.state.quorum = quorum(A, [A, B, C2])
    assert seen.without(ReplicaId.of(C), 3)


def test_another_leads_once_it_has_answered():
    seen = watcher()
    assert not seen.led_by_another(ReplicaId.of(A))
    seen.state.quorum = quorum(A, [A, B, C])
    assert not seen.led_by_another(ReplicaId.of(A))
    seen.state.quorum = quorum(B, [A, B, C])
    assert seen.led_by_another(ReplicaId.of(A))


def test_level_means_that_no_replica_lags():
    seen = watcher()
    assert not seen.level()
    seen.state.quorum = quorum(A, [A, B, C], lagging=[B])
    assert not seen.level()
    seen.state.quorum = quorum(A, [A, B, C])
    assert seen.level()
    assert seen.level(100)
    assert not seen.level(101)


async def test_a_leader_that_does_not_answer_just_now_is_waited_for():
    seen = watcher()

    async def later() -> None:
        await asyncio.sleep(0)
        seen.state.quorum = quorum(A, [A, B, C])
        seen._tell()

    async with asyncio.TaskGroup() as group:
        group.create_task(later())
        found = await seen.led(within_s=60)
    assert found.leader == A
    seen.state.quorum = None
    with pytest.raises(DeadlineError, match=r"not within 0 s: a leader; last seen: .* no leader"):
        await seen.led(within_s=0.02)


async def test_what_does_not_come_true_in_time_says_what_was_seen():
    seen = watcher()
    with pytest.raises(DeadlineError, match="not within 0 s: a miracle; last seen: phase none"):
        await seen.until(lambda: False, within_s=0.02, what="a miracle")
    seen.state.quorum = quorum(A, [A, B, C])
    assert f"{ReplicaId.of(A)} leads voters" in seen.describe()


async def test_changes_are_said_once_and_wake_who_waits():
    said: list[str] = []
    async with QuorumClient([Endpoint("127.0.0.1", 1)], timeout_ms=10) as client:
        seen = watcher(client, said.append)

        async def script() -> None:
            await seen.until(lambda: seen.resource.phase == "Forming", within_s=60, what="forming")
            seen.api.phase = "Running"
            await seen.until(lambda: seen.resource.settled, within_s=60, what="running")
            await asyncio.sleep(0.2)

        await run_with_background(script(), seen.run())
    assert said == ["operator: hello", "operator: hello"]
    assert seen.quorum is None
