"""The script's frame: order, failure by name, and what kills the leader at the right moment."""

import asyncio
import dataclasses
import time

import pytest

from kraftquorum_demo import steps
from kraftquorum_demo.demo_state import DemoState
from kraftquorum_demo.environment import Environment, Places
from kraftquorum_demo.errors import DeadlineError, StepFailedError
from kraftquorum_demo.plan import SHORT
from kraftquorum_demo.readback import ReadBack
from kraftquorum_demo.sample_answers import A, B, C, quorum, replica
from kraftquorum_demo.steps import DemoSteps, Step
from kraftquorum_demo.watcher import Watcher
from proofkit.faultynode import NodeFaults
from raftnode.api.model import QuorumInfo
from raftnode.client import UnavailableError

D, E = replica(3), replica(4)


class Lines:
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.said: list[str] = []

    def step(self, number: int, title: str, why: str) -> None:
        assert why
        self.steps.append(f"{number} {title}")

    def say(self, text: str) -> None:
        self.said.append(text)


class Ended:
    """Writers that have nothing left to write."""

    async def end(self) -> None:
        pass


class Client:
    """Answers DescribeQuorum from a list, the last one for ever."""

    def __init__(self, answers: list) -> None:
        self._answers = answers

    async def describe_quorum(self, **_: object):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def demo_steps(tmp_path) -> DemoSteps:
    environment = Environment(Places(tmp_path, tmp_path, tmp_path), name="demo", wanted=3)
    state = DemoState()
    watcher = Watcher(Client([]), None, "/krq", state, time.monotonic, lambda _: None)
    return DemoSteps(environment, SHORT, state, Lines(), watcher, None, time.monotonic)


def test_the_script_is_the_promised_one(demo_steps):
    assert [step.title for step in demo_steps.script()] == [
        "Apply the quorum",
        "Write",
        "Scale 3 → 5",
        "Scale 5 → 3, and kill the leader in the middle of it",
        "Destroy a follower's disk under its running process",
        "Destroy the leader's disk",
        "Let the leader's disk hang",
        "Read everything back",
    ]


async def test_a_failing_step_is_named_and_ends_the_script(demo_steps, monkeypatch):
    ran: list[str] = []

    async def fine() -> None:
        ran.append("fine")

    async def late() -> None:
        raise DeadlineError("a miracle", 5, "nothing")

    script = (Step("One", "why", fine), Step("Two", "why", late), Step("Three", "why", fine))
    monkeypatch.setattr(DemoSteps, "script", lambda _: script)
    with pytest.raises(StepFailedError, match="step “Two” failed: not within 5 s: a miracle"):
        await demo_steps.run()
    assert ran == ["fine"]
    assert demo_steps.view.steps == ["1 One", "2 Two"]
    assert [step.span.until_s is not None for step in demo_steps.state.history.steps] == [
        True,
        True,
    ]


async def test_the_leader_is_killed_once_a_removal_is_in_its_log(demo_steps, monkeypatch):
    killed: list[int] = []
    monkeypatch.setattr(steps, "kill", killed.append)
    five = [A, B, C, D, E]
    demo_steps.watcher.client = Client(
        [quorum(A, five), UnavailableError("moved", {}), quorum(B, five[:4], committed=five)]
    )
    await demo_steps._kill_amid_removal(5, {node: 100 + node for node in range(5)})
    assert killed == [101]
    assert demo_steps.leader_kill["removal_committed"] is False
    assert demo_steps.state.history.faults[0].violent
    assert "appended, not yet committed" in demo_steps.view.said[0]


async def test_a_removal_that_never_comes_is_a_deadline(demo_steps, monkeypatch):
    monkeypatch.setattr(steps, "kill", lambda _: pytest.fail("killed too early"))
    demo_steps.plan = dataclasses.replace(SHORT, fault_s=0.05)
    demo_steps.watcher.client = Client([quorum(A, [A, B, C, D, E])])
    with pytest.raises(DeadlineError, match="a removal in the leader's log"):
        await demo_steps._kill_amid_removal(5, dict.fromkeys(range(5), 1))


async def hung(demo_steps) -> None:
    """Wait until the demo lets the leader's flushes hang."""
    while demo_steps.environment.disk_faults(0).path.read_text() != "sync hang\n":  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.01)


@pytest.fixture
def faults(demo_steps, tmp_path, monkeypatch) -> NodeFaults:
    """Of the leader's disk, with a process that lives through it."""

    async def settled(*_: object) -> None:
        pass

    found = NodeFaults(tmp_path / "pvc-0.faults")
    found.heal()
    monkeypatch.setattr(Environment, "disk_faults", lambda _self, _node_id: found)
    monkeypatch.setattr(Environment, "pid", lambda _self, node_id: 100 + node_id)
    monkeypatch.setattr(DemoSteps, "_settle", settled)
    demo_steps.plan = dataclasses.replace(SHORT, fault_s=30, hang_s=0.05, linger_s=0.0)
    demo_steps.state.quorum = quorum(A, [A, B, C])
    return found


async def test_the_leader_s_disk_hangs_until_writes_have_gone_on_without_it(demo_steps, faults):
    record = demo_steps.state.record
    begun = [record.begin("w0", None, b"%d" % number, demo_steps.clock()) for number in range(100)]

    async def others() -> None:
        await hung(demo_steps)
        # What was under way at the leader does not count: no other node leads yet.
        for write in begun[:50]:
            record.acknowledge(write, write.number, demo_steps.clock())
        demo_steps.watcher._tell()
        await asyncio.sleep(0.3)
        assert faults.path.read_text() == "sync hang\n"
        demo_steps.state.quorum = quorum(B, [A, B, C], epoch=2)
        demo_steps.watcher._tell()
        await asyncio.sleep(0.05)
        assert faults.path.read_text() == "sync hang\n"
        for write in begun[50:]:
            record.acknowledge(write, write.number, demo_steps.clock())
        demo_steps.watcher._tell()

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        await demo_steps._hang_disk()
    assert faults.path.read_text() == ""
    assert demo_steps.hang.replica_id.node_id == A.node_id
    assert demo_steps.hang.same_process
    assert (
        0.3
        <= demo_steps.seconds["hung_disk_stall"]
        < demo_steps.hang.until_s - demo_steps.hang.from_s
    )
    assert [(fault.violent, fault.lost) for fault in demo_steps.state.history.faults] == [
        (True, None),
        (False, None),
    ]


async def test_a_disk_answers_again_though_the_step_failed(demo_steps, faults):
    demo_steps.plan = dataclasses.replace(demo_steps.plan, fault_s=0.2)
    with pytest.raises(DeadlineError, match=r"another leader than 0 .*, whose disk hangs"):
        await demo_steps._hang_disk()
    assert faults.path.read_text() == ""


async def test_a_leader_that_acknowledges_nothing_is_no_end_of_the_stall(demo_steps, faults):
    demo_steps.plan = dataclasses.replace(demo_steps.plan, fault_s=0.2)

    async def other() -> None:
        await hung(demo_steps)
        demo_steps.state.quorum = quorum(B, [A, B, C], epoch=2)
        demo_steps.watcher._tell()

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        with pytest.raises(DeadlineError, match="writes acknowledged again"):
            await demo_steps._hang_disk()
    assert faults.path.read_text() == ""


async def test_an_election_in_the_read_back_is_waited_out_before_the_voters_are_told(
    demo_steps, monkeypatch
):
    """The new leader's record is committed by two, and the third has to get it, too."""

    def see(found) -> None:
        demo_steps.state.quorum = found
        demo_steps.state.history.observe(found, 1.0)
        demo_steps.watcher._tell()

    async def settled(*_: object) -> None:
        see(quorum(A, [A, B, C]))

    deposed = asyncio.Event()

    async def read(_client) -> ReadBack:
        see(None)
        deposed.set()
        return ReadBack((), (), 101)

    async def followers() -> None:
        await deposed.wait()
        # As it was before the election, then after it.
        for end, lagging in ((100, []), (101, [C])):
            see(ending(end, quorum(B, [A, B, C], lagging=lagging)))
            await asyncio.sleep(0.01)
            assert demo_steps.proof is None
        see(ending(101, quorum(B, [A, B, C])))

    monkeypatch.setattr(DemoSteps, "_settle", settled)
    monkeypatch.setattr(DemoSteps, "_check_access", settled)
    monkeypatch.setattr(steps, "read_back", read)
    demo_steps.writers = Ended()
    async with asyncio.TaskGroup() as group:
        group.create_task(followers())
        await demo_steps._verify()
    assert demo_steps.proof.voters == [0, 1, 2]


def ending(end: int, found: QuorumInfo) -> QuorumInfo:
    return found.model_copy(update={"high_watermark": end, "log_end_offset": end})
