"""Real processes: formation, writes, failures, replacement; nothing acknowledged is lost."""

import asyncio
import signal
import time

import pytest

from proofkit.localquorum import CLUSTER_ID, LocalNode, LocalQuorum, eventually
from raftnode.api.model import FormRequest, JoinRequest, Replica, VoterSpec
from raftnode.client import QuorumClient
from raftnode.client.errors import NotDoneError, OutcomeUnknownError, RefusedError
from raftnode.errors import ExitCode

pytestmark = pytest.mark.timeout(300)


class Writer:
    """Writes numbered values until told to stop and remembers what was acknowledged."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self.quorum = quorum
        self.acknowledged: dict[str, tuple[int, bytes]] = {}
        self.unknown: dict[str, bytes] = {}
        self.stopped = False
        self.longest_stall_s = 0.0

    async def run(self) -> None:
        number, last = 0, time.monotonic()
        while not self.stopped:
            number += 1
            key, value = f"key-{number}", b"value-%d" % number
            try:
                done = await self.quorum.client.put(key, value, timeout_ms=8000)
            except OutcomeUnknownError:
                self.unknown[key] = value
            except NotDoneError:
                continue
            else:
                self.acknowledged[key] = (done.base_offset, value)
                self.longest_stall_s = max(self.longest_stall_s, time.monotonic() - last)
                last = time.monotonic()

    async def check(self) -> None:
        """Everything acknowledged is there once, at its offset, in order."""
        found: dict[str, list[tuple[int, bytes]]] = {}
        offset, end = 0, (await eventually(self.quorum.describe, what="a leader")).high_watermark
        while offset < end:  # who is asked may be behind
            part = await self.quorum.client.read(offset, max_wait_ms=500)
            for record in part.records:
                if record.key is not None and record.value is not None:
                    found.setdefault(record.key.decode(), []).append((record.offset, record.value))
            offset = part.next_offset
        for key, acknowledged in self.acknowledged.items():
            assert found.get(key) == [acknowledged]
        for key, value in self.unknown.items():
            assert [v for _, v in found.get(key, [])] in ([], [value])


async def write_during(quorum: LocalQuorum, work) -> Writer:
    writer = Writer(quorum)
    task = asyncio.get_running_loop().create_task(writer.run())
    try:
        await work()
        await asyncio.sleep(0.5)
    finally:
        writer.stopped = True
        await task
    await writer.check()
    assert writer.acknowledged
    return writer


async def test_a_quorum_forms_and_keeps_what_it_acknowledged(quorum):
    formed = await quorum.form(3)
    assert len(formed.committed_voters) == 3
    await quorum.client.put("Europe/Berlin", b"tz")
    entry = await quorum.client.get("Europe/Berlin")
    assert entry is not None
    assert entry.value == b"tz"


async def test_a_killed_leader_costs_seconds_and_no_write(quorum):
    await quorum.form(3)

    async def kill_leader() -> None:
        await asyncio.sleep(0.5)
        leader = await quorum.leader()
        leader.kill()
        survivor = await quorum.leader()
        assert survivor is not leader
        await asyncio.sleep(0.5)
        leader.start()
        [info] = await quorum.wait_running([leader])
        assert info.incarnation == 2

    writer = await write_during(quorum, kill_leader)
    assert writer.longest_stall_s < 20


async def replace(quorum: LocalQuorum, victim) -> None:
    """What the operator does: join, catch up, AddVoter with `replaces`."""
    old = await quorum.info(victim)
    victim.wipe()
    assert await asyncio.to_thread(victim.wait) == ExitCode.STORAGE_LOST
    assert "STORAGE_LOST" in victim.termination_message.read_text()
    victim.start()
    new = await quorum.observe(victim)
    assert new.directory_id != old.directory_id
    described = await quorum.describe()
    await quorum.client.add_voter(
        VoterSpec(**new.model_dump(), endpoint=str(victim.peer)),
        described.voter_record,
        replaces=Replica(node_id=old.node_id, directory_id=old.directory_id),
    )

    async def replaced() -> bool | None:
        voters = {voter.key for voter in (await quorum.describe()).committed_voters}
        return True if len(voters) == 3 and new.key in voters else None

    await eventually(replaced, what="the old replica to be removed")


@pytest.mark.rule("S4")
async def test_a_follower_whose_disk_is_wiped_under_it_is_replaced(quorum):
    await quorum.form(3)

    async def wipe() -> None:
        leader = await quorum.leader()
        victim = next(node for node in quorum.nodes[:3] if node is not leader)
        await replace(quorum, victim)

    await write_during(quorum, wipe)


@pytest.mark.rule("S1")
async def test_a_leader_whose_disk_is_wiped_under_it_is_replaced(quorum):
    """S1: its new incarnation hears of a leader with its own id and does not believe it is it."""
    await quorum.form(3)

    async def wipe() -> None:
        await replace(quorum, await quorum.leader())

    await write_during(quorum, wipe)


@pytest.mark.quorum_settings(RAFTNODE_FETCH_TIMEOUT_MS="30000")
async def test_a_stopped_leader_transfers_leadership_quickly_and_exits_cleanly(quorum):
    """Without its word the others would miss it for 30 s before they stand."""
    await quorum.form(3)

    async def stop() -> None:
        await asyncio.sleep(0.5)
        leader = await quorum.leader()
        assert await asyncio.to_thread(leader.stop) == ExitCode.OK
        assert await quorum.leader() is not leader

    writer = await write_during(quorum, stop)
    assert writer.longest_stall_s < 20


async def test_a_leader_that_removes_itself_leads_until_that_is_committed(quorum):
    await quorum.form(3)
    leader = await quorum.leader()
    described = await quorum.describe()
    changed = await quorum.client.remove_voter(described.leader, described.voter_record)
    assert described.leader.key not in {voter.key for voter in changed.voters}

    async def other() -> bool | None:
        return True if await quorum.leader() is not leader else None

    await eventually(other, what="another leader")
    await quorum.put("after", b"removal")


async def test_a_stale_voter_record_is_refused(quorum):
    await quorum.form(3)
    described = await quorum.describe()
    victim = next(v for v in described.voters if v.key != described.leader.key)
    target = Replica(node_id=victim.node_id, directory_id=victim.directory_id)
    await quorum.client.remove_voter(target, described.voter_record)
    with pytest.raises(NotDoneError) as caught:
        await quorum.client.remove_voter(described.leader, described.voter_record)
    assert "STALE_VOTER_RECORD" in str(caught.value) or caught.value.error == "STALE_VOTER_RECORD"


async def test_a_paused_leader_does_not_answer_reads_with_what_is_old(quorum):
    """pause-then-stale-read: a read is answered only after a majority confirmed the leader."""
    await quorum.form(3)
    await quorum.client.put("key", b"old")
    leader = await quorum.leader()
    leader.signal(signal.SIGSTOP)
    others = [node for node in quorum.nodes[:3] if node is not leader]

    async def successor() -> LocalNode | None:
        for node in others:
            if (await quorum.info(node)).role == "leader":
                return node
        return None

    new = await eventually(successor, what="a successor")
    async with QuorumClient([new.api], timeout_ms=15_000) as client:
        await eventually(lambda: client.put("key", b"new"), what="a write to the successor")
        async with QuorumClient([leader.api], timeout_ms=3000) as stale:
            read = asyncio.get_running_loop().create_task(stale.get("key"))
            await asyncio.sleep(0.2)
            leader.signal(signal.SIGCONT)
            try:
                entry = await read
            except Exception:  # noqa: BLE001 - any refusal will do, an old value will not
                return
            assert entry is not None
            assert entry.value == b"new"


@pytest.mark.rule("S10", "P20")
@pytest.mark.quorum_settings(RAFTNODE_FETCHES_IN_FLIGHT_MAX="3")
async def test_nothing_is_lost_with_several_fetches_under_way(quorum):
    """Followers and the leader are killed while writes go on."""
    await quorum.form(3)

    async def kill_all_in_turn() -> None:
        for node in quorum.nodes[:3]:
            await asyncio.sleep(0.5)
            node.kill()
            await asyncio.sleep(0.3)
            node.start()
            await quorum.leader()

    writer = await write_during(quorum, kill_all_in_turn)
    assert len(writer.acknowledged) > 10


async def test_a_minority_acknowledges_nothing(quorum):
    await quorum.form(3)
    leader = await quorum.leader()
    for node in quorum.nodes[:3]:
        if node is not leader:
            node.kill()
    # Certainly not done: it was asked when it had missed them for long enough to resign.
    with pytest.raises((OutcomeUnknownError, NotDoneError)):
        await quorum.client.put("lonely", b"write", timeout_ms=4000)


async def test_a_node_takes_one_latch_and_only_if_listed(quorum):
    node = quorum.nodes[0]
    node.start()
    [info] = await quorum.wait_running([node])
    own = VoterSpec(node_id=0, directory_id=info.directory_id, endpoint=info.peer_endpoint)
    stranger = VoterSpec(node_id=1, directory_id="AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises((NotDoneError, RefusedError)):
        await quorum.client.form(node.api, FormRequest(cluster_id="c", voters=(stranger,)))
    latch = FormRequest(cluster_id="c", voters=(own,))
    await quorum.client.form(node.api, latch)
    await quorum.client.form(node.api, latch)
    with pytest.raises((NotDoneError, RefusedError)):
        await quorum.client.form(node.api, FormRequest(cluster_id="d", voters=(own,)))
    with pytest.raises((NotDoneError, RefusedError)):
        await quorum.client.join(node.api, JoinRequest(cluster_id=CLUSTER_ID))


async def test_a_restarted_quorum_has_everything(quorum):
    await quorum.form(3)
    for number in range(20):
        await quorum.client.put(f"key-{number}", b"%d" % number)
    for node in quorum.nodes[:3]:
        node.kill()
    for node in quorum.nodes[:3]:
        node.start()
    await quorum.leader()
    for number in range(20):
        entry = await quorum.client.get(f"key-{number}")
        assert entry is not None
        assert entry.value == b"%d" % number
