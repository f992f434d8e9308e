"""S3: the node's gate: durable before it is open, and not to be fooled by strangers."""

from __future__ import annotations

import asyncio
import random
import threading
import uuid

import pytest

from raftnode.core.config import CoreConfig
from raftnode.core.log_index import LogIndex
from raftnode.core.replica import Replica
from raftnode.core.replication.peer_memory import Mark
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.errors import StorageFailedError
from raftnode.runtime.peers.gatekeeper import Gatekeeper
from raftnode.runtime.process.tasks import Tasks
from raftnode.transport import Identity, RefusalReason
from raftnode.transport.hello import Refusal

OWN, VOTER, STRANGER = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2, 9))
NONCES = tuple(f"{number:016x}" for number in range(5))


def peer(
    incarnation: int, *line: str, key: ReplicaKey = VOTER, cluster: str | None = "c"
) -> Identity:
    return Identity(key, cluster, incarnation, None, None, line, Offset(0), Epoch(3))


class Bench:
    def __init__(self, *, voters: tuple[ReplicaKey, ...] = (OWN, VOTER)) -> None:
        self.written: list[dict[ReplicaKey, Mark]] = []
        self.stale: list[str] = []
        self.failed: list[BaseException] = []
        self.error: Exception | None = None
        self.writing, self.may_write = threading.Event(), threading.Event()
        self.may_write.set()
        index = LogIndex(VoterSet.of(Voter(key) for key in voters))
        self.replica = Replica(
            OWN, CoreConfig(), random.Random(0), index, QuorumState(Epoch(5)), "c"
        )
        self.gate = Gatekeeper(
            self.replica,
            {},
            write=self.write,
            on_stale=self.stale.append,
            spawn=Tasks(self.failed.append),
        )

    def write(self, marks) -> None:
        if self.error is not None:
            raise self.error
        self.writing.set()
        self.may_write.wait(10)
        self.written.append(dict(marks))


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    made.gate.close()


@pytest.mark.rule("S3")
@pytest.mark.without(
    "runtime.peers.gatekeeper:Gatekeeper.admit", "await asyncio.shield(remembering)", "pass"
)
async def test_a_start_is_durable_before_it_is_admitted(bench) -> None:
    assert await bench.gate.admit(peer(1, NONCES[0])) is None
    assert bench.written == [{VOTER: Mark(1, NONCES[0])}]
    assert await bench.gate.admit(peer(1, NONCES[0])) is None
    assert len(bench.written) == 1


async def test_a_start_that_cannot_be_remembered_is_not_admitted(bench) -> None:
    bench.error = StorageFailedError("no")
    with pytest.raises(StorageFailedError):
        await bench.gate.admit(peer(1, NONCES[0]))
    await asyncio.sleep(0)
    assert bench.failed


@pytest.mark.rule("S3")
@pytest.mark.without(
    "runtime.peers.gatekeeper:Gatekeeper.admit",
    "self._memory.why_stale(peer.key, peer.start)",
    "None",
)
async def test_a_stale_peer_is_refused_by_name(bench) -> None:
    await bench.gate.admit(peer(2, NONCES[1], NONCES[0]))
    refusal = await bench.gate.admit(peer(2, NONCES[2], NONCES[0]))
    assert refusal is not None
    assert (refusal.reason, refusal.replica, refusal.cluster_id) == (
        RefusalReason.STALE_STORAGE,
        OWN,
        "c",
    )
    assert len(bench.written) == 1


async def test_of_two_starts_at_once_one_is_admitted(bench) -> None:
    answers = await asyncio.gather(
        bench.gate.admit(peer(1, NONCES[0])), bench.gate.admit(peer(1, NONCES[1]))
    )
    assert [answer is None for answer in answers] == [True, False]
    assert bench.gate.is_current(peer(1, NONCES[0]))
    assert not bench.gate.is_current(peer(1, NONCES[1]))


async def test_a_hello_that_is_given_up_is_remembered_all_the_same(bench) -> None:
    """Taking the shield out of `Gatekeeper.admit` makes this fail."""
    bench.may_write.clear()
    task = asyncio.get_running_loop().create_task(bench.gate.admit(peer(1, NONCES[0])))
    await asyncio.to_thread(bench.writing.wait, 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    bench.may_write.set()
    assert await bench.gate.admit(peer(1, NONCES[0])) is None
    assert len(bench.written) == 1


async def test_strangers_without_a_cluster_leave_no_trace(bench) -> None:
    assert await bench.gate.admit(peer(1, NONCES[0], key=STRANGER, cluster=None)) is None
    assert bench.written == []
    assert await bench.gate.admit(peer(1, NONCES[0], cluster=None)) is None
    assert len(bench.written) == 1  # a voter that has not heard of its formation yet


async def test_epochs_above_the_own_are_not_held_against_a_peer(bench) -> None:
    """A damaged one would make a healthy replica stale at its next start."""
    await bench.gate.admit(peer(1, NONCES[0]))
    bench.gate.note_epoch(VOTER, Epoch(6))
    assert await bench.gate.admit(peer(2, NONCES[1], NONCES[0])) is None
    bench.gate.note_epoch(VOTER, Epoch(5))
    refusal = await bench.gate.admit(peer(3, NONCES[2], NONCES[1]))
    assert refusal is not None
    assert "it had been in epoch 5" in refusal.detail


def stale(teller: ReplicaKey | None, cluster: str | None = "c") -> Refusal:
    return Refusal(RefusalReason.STALE_STORAGE, "why", teller, cluster)


async def test_a_voter_is_believed_once(bench) -> None:
    bench.gate.refused(stale(VOTER))
    bench.gate.refused(stale(VOTER))
    [told] = bench.stale
    assert f"replica {VOTER} has seen more" in told
    assert "why" in told


@pytest.mark.parametrize(
    "refusal",
    [
        stale(STRANGER),
        stale(None),
        stale(VOTER, "another"),
        stale(VOTER, None),
        Refusal(RefusalReason.WRONG_REPLICA, "why", VOTER, "c"),
    ],
)
async def test_no_other_replica_stops_a_voter(bench, refusal: Refusal) -> None:
    """Taking any part of the condition out of `Gatekeeper.refused` makes this fail."""
    bench.gate.refused(refusal)
    assert bench.stale == []


@pytest.mark.parametrize("voters", [(), (OWN,)])
async def test_a_replica_without_other_voters_believes_its_cluster(voters) -> None:
    """No other replica could tell it."""
    bench = Bench(voters=voters)
    bench.gate.refused(stale(STRANGER, "another"))
    assert bench.stale == []
    bench.gate.refused(stale(STRANGER))
    assert len(bench.stale) == 1
    bench.gate.close()
