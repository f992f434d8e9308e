"""Many quorums are reconciled at once over real HTTP, and no quorum affects another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.clients import nodes as nodes_module
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import NodeUnreachableError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.schedule.turns import Turns
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.fleet import NAMESPACE, Fleet, Member


class Held:
    held = True


@asynccontextmanager
async def started(fleet: Fleet, nodes: HttpNodes) -> AsyncGenerator[asyncio.TaskGroup]:
    """The fleet answers; connections are closed at the end."""
    async with asyncio.timeout(240), fleet.serving():
        try:
            async with asyncio.TaskGroup() as group:
                yield group
        finally:
            await nodes.close()


def reconciler(fleet: Fleet, nodes: HttpNodes) -> Reconciler:
    return Reconciler(
        kube=fleet.kube,
        nodes=nodes,
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )


async def test_200_quorums_that_start_together_are_all_seen_as_they_are() -> None:
    """Connections were closed under their requests, and healthy quorums reported without leader."""
    fleet, nodes = Fleet(200), HttpNodes(Settings().node_timeout_s)
    async with started(fleet, nodes):
        look = reconciler(fleet, nodes).reconcile
        outcomes = await asyncio.gather(
            *(look(NAMESPACE, m.name, m.owner.uid) for m in fleet.members.values())
        )
    wrong = {
        name: (observation["Available"]["status"], observation["Available"]["message"])
        for name in fleet.members
        for observation in fleet.conditions(name)
        if observation["Available"]["status"] != "True"
        or observation["Degraded"]["status"] != "False"
    }
    assert not wrong, f"{len(wrong)} of 200 healthy quorums were reported otherwise"
    assert all(isinstance(outcome.decision, Done) for outcome in outcomes)
    assert all(fleet.conditions(name) for name in fleet.members)


async def test_quorums_whose_replicas_do_not_answer_keep_no_other_from_being_looked_at() -> None:
    """They come first and their answers are held back until all others have been looked at."""
    fleet, nodes, answers = Fleet(60), HttpNodes(120.0), asyncio.Event()
    members = list(fleet.members.values())
    slow, quick = members[:40], members[40:]
    for member in slow:
        member.held = answers
    async with started(fleet, nodes) as group:
        look = reconciler(fleet, nodes).reconcile

        async def look_at(member: Member) -> None:
            await look(NAMESPACE, member.name, member.owner.uid)

        waiting = [group.create_task(look_at(member)) for member in slow]
        await asyncio.gather(*(look_at(member) for member in quick))
        assert all(fleet.conditions(m.name)[-1]["Ready"]["status"] == "True" for m in quick)
        assert not any(task.done() for task in waiting)
        answers.set()
        await asyncio.gather(*waiting)
        assert all(fleet.conditions(m.name)[-1]["Ready"]["status"] == "True" for m in slow)


async def test_a_client_is_closed_once_idle_for_long_and_never_while_a_request_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodes_module, "IDLE_MAX", 1)
    fleet, nodes, answers = Fleet(4), HttpNodes(120.0), asyncio.Event()
    first, *others = fleet.members.values()
    first.held = answers
    async with started(fleet, nodes) as group:
        held = group.create_task(nodes.node(f"{first.address(0)}:{names.API_PORT}"))
        await first.was_asked.wait()
        for member in others:
            await nodes.node(f"{member.address(0)}:{names.API_PORT}")
        assert len(nodes._used) == 1
        assert list(nodes._idle) == [(f"{others[-1].address(0)}:{names.API_PORT}", None)]
        answers.set()
        assert (await held).directory_id == first.directory_id(0)
        monkeypatch.setattr(nodes_module, "IDLE_S", 0.0)
        await nodes.node(f"{first.address(0)}:{names.API_PORT}")
        assert not nodes._idle
        assert not nodes._used


async def test_time_in_which_the_operator_was_stopped_is_no_silence_of_a_replica() -> None:
    """The answer has come meanwhile; only this process has not read it."""
    fleet, nodes = Fleet(1), HttpNodes(1.0)
    (member,) = fleet.members.values()
    member.held = asyncio.Event()
    async with started(fleet, nodes) as group:
        asked = group.create_task(nodes.node(f"{member.address(0)}:{names.API_PORT}"))
        await member.was_asked.wait()
        member.held.set()
        time.sleep(2.0)  # noqa: ASYNC251 - the whole process stands still
        assert (await asked).node_id == 0
        member.held = asyncio.Event()
        with pytest.raises(NodeUnreachableError, match="did not answer within 1000 ms"):
            await nodes.node(f"{member.address(0)}:{names.API_PORT}")


async def test_a_slow_look_gives_its_place_up_and_waits_among_the_slow_ones_next_time() -> None:
    turns, go, order = Turns(at_once=1, slow_s=0.05), asyncio.Event(), list[str]()

    async def look(name: str, wait: asyncio.Event | None = None) -> None:
        async with turns.turn(name):
            order.append(name)
            if wait is not None:
                await wait.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        slow = [group.create_task(look(name, go)) for name in ("a", "b")]
        await asyncio.sleep(0)
        await look("c")
        assert order == ["a", "b", "c"]
        go.set()
        await asyncio.gather(*slow)
        order.clear()
        held = asyncio.Event()
        turns._slow_s = 3600.0
        again = [group.create_task(look(name, held)) for name in ("a", "b")]
        await asyncio.sleep(0)
        await look("c")
        assert order == ["a", "c"], "b waits for the place that a holds, c does not"
        held.set()
        await asyncio.gather(*again)
        turns.forget("a")
        assert turns._were_slow == set(), "a quick look leaves the slow ones"
