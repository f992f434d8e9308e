"""The actions of a script: time, elections, faults, clients."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proofkit.playbook.message import key_of, name_of
from proofkit.playbook.scripted_node import ScriptedNode
from proofkit.playbook.scripted_quorum import AT_ONCE, Answer, ScriptedQuorum
from proofkit.simulator.disk import SimDisk
from proofkit.simulator.watcher import Watcher
from raftnode.core.config import CoreConfig
from raftnode.core.effects import SendResponse
from raftnode.core.events import (
    AddVoterRequested,
    AppendRequested,
    ClusterJoined,
    ConfirmRequested,
    DiskSpaceChanged,
    Event,
    LatchReceived,
    ReassignmentRequested,
    RemoveVoterRequested,
    RequestAbandoned,
    RequestReceived,
    ResignRequested,
    Target,
    TimePassed,
    UpgradeRequested,
)
from raftnode.core.messages import VoteRequest, VoteResponse
from raftnode.core.records import RAFT_VERSION
from raftnode.core.roles import ConfirmationRound, Follower, Leader, Resigned, Unattached
from raftnode.core.state import Latch
from raftnode.core.types import (
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
)

CLUSTER_ID = "playbook"


class AnsweredRounds(dict[tuple[str, ReplicaKey], ConfirmationRound]):
    """Confirmation rounds of a leader that all replicas have answered (S34)."""

    def get(self, *_: object) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A round of the first token, which every other one is newer than."""
        return ConfirmationRound(0, sys.maxsize)


@dataclass(slots=True)
class Playbook(ScriptedQuorum):
    """A few replicas; nothing happens by itself."""

    disks_work: bool = True
    """Whether `settle` and `run` let disks store and read snapshots."""
    rounds_answered: bool = True
    """Whether a leader that is asked for a change of voters has an answer of all of them (S34).

    Then it is appended at once, unless something else is in its way.
    """

    # -- starting the quorum -------------------------------------------------------------

    @classmethod
    def formed(
        cls,
        *names: str,
        leader: str = "1",
        config: CoreConfig | None = None,
        raft_version: int = RAFT_VERSION,
        watcher: Watcher | None = None,
    ) -> Playbook:
        """A quorum of `names`, formed and quiet, led by `leader` in epoch 1."""
        book = cls(config or AT_ONCE, watcher=watcher)
        book.latch(*names, raft_version=raft_version)
        book.impatient(leader)
        book.settle()
        assert book.nodes[leader].replica.log.formation_completed or not raft_version
        return book

    def latch(self, *names: str, raft_version: int = RAFT_VERSION) -> None:
        """Add blank replicas and give each the latch that lists them all (S18)."""
        voters = VoterSet.of(Voter(key_of(name)) for name in names)
        latch = Latch(CLUSTER_ID, voters, raft_version)
        for name in names:
            if name not in self.nodes:
                self.blank(name)
            self.give(name, LatchReceived(self.number(), latch))

    def observer(self, name: str) -> ScriptedNode:
        """ScriptedNode a replica that knows the cluster and nothing else (S5)."""
        node = self.blank(name)
        self.give(name, ClusterJoined(self.number(), CLUSTER_ID))
        return node

    # -- time and elections --------------------------------------------------------------

    def settle(self) -> None:
        """Deliver and flush until nothing more happens by itself."""
        for _ in range(10_000):
            moved = self.deliver() + (self.work_storage() if self.disks_work else 0)
            flushed = [node.flush(self.now_ms) for node in self.nodes.values() if node.flushes]
            if not moved and not any(flushed):
                return
        raise AssertionError("the replicas never come to rest: a busy loop")

    def run(self, duration_ms: int) -> None:
        """Let time pass; each replica wakes at its deadlines and everything is delivered."""
        end = self.now_ms + duration_ms
        self.settle()
        for _ in range(100_000):
            due = [(at, name) for name, at in self._deadlines().items() if at <= end]
            if not due:
                break
            at, name = min(due)
            self.now_ms = max(self.now_ms, at)
            self.give(name, TimePassed())
            self.settle()
        else:
            raise AssertionError("time stands still: a replica always wants to be woken at once")
        self.now_ms = end

    def _deadlines(self) -> dict[str, int]:
        deadlines: dict[str, int] = {}
        for name, node in self.nodes.items():
            awake = node.core and not node.halted and node.stuck is None
            deadline = node.core.next_deadline_ms() if node.core and awake else None
            if deadline is not None:
                deadlines[name] = deadline
        return deadlines

    def wait(self, duration_ms: int, *names: str) -> None:
        """Let time pass without any delivery; only `names` (default: all) notice it."""
        self.now_ms += duration_ms
        for name in names or tuple(self.nodes):
            self.give(name, TimePassed())

    def stand(self, name: str) -> None:
        """Let time pass until the replica asks for votes; only it notices the time."""
        for _ in range(20):
            deadline = self._deadlines().get(name)
            assert deadline is not None, f"{name} will never stand"
            self.now_ms = max(self.now_ms, deadline)
            self.give(name, TimePassed())
            if self.nodes[name].role in {"prospective", "candidate", "leader"}:
                return
        raise AssertionError(f"{name} does not stand: it is {self.nodes[name].role}")

    def elect(self, name: str) -> None:
        """Make `name` leader: the present leader transfers leadership, or cannot be reached.

        Without a reachable leader, `name` is the first whose election timeout ends.
        """
        handing = [leader for leader in self.leaders if leader not in self.isolated]
        if handing and name not in self.isolated:
            self.run(self.config.fetch_max_wait_ms * 2)
            self.transfer(handing[0], name)
            self.settle()
            assert self.leaders == [name], self.describe()
            return
        for node in self.nodes.values():
            role = node.core.replica.role if node.core else None
            if isinstance(role, Follower) and role.heard_at_ms is not None:
                self.now_ms = max(self.now_ms, role.heard_at_ms + self.config.fetch_timeout_ms)
        self.impatient(name)
        self.settle()
        assert self.nodes[name].role == "leader", self.describe()

    def impatient(self, name: str) -> None:
        """Let the replica's election time be now."""
        role = self.nodes[name].replica.role
        assert isinstance(role, Unattached | Follower | Resigned), role
        role.election_at_ms = self.now_ms
        self.give(name, TimePassed())

    def vote(
        self, source: str, target: str, epoch: int, end: int = 99, *, pre: bool = False
    ) -> VoteResponse:
        """Return the answer of `target` to a Vote of `source` with the longest possible log."""
        last = LogPosition(Epoch(epoch), Offset(end))
        request = VoteRequest(Epoch(epoch), key_of(source), key_of(target), last, pre)
        effects = self.give(target, RequestReceived(self.number(), key_of(source), request))
        answers = [effect.response for effect in effects if isinstance(effect, SendResponse)]
        [answer] = [answer for answer in answers if isinstance(answer, VoteResponse)]
        return answer

    # -- faults --------------------------------------------------------------------------

    def crash(self, name: str, *, keep_unflushed: bool = False) -> None:
        """Kill a process; requests to it fail."""
        self.nodes[name].stop(keep_unflushed=keep_unflushed)
        self.fail_questions(name)

    def restart(self, name: str) -> None:
        """Start a process again on its disk."""
        self.nodes[name].start(self.now_ms)
        if self.nodes[name].core is None:
            return
        self.greet(name)
        self.give(name, TimePassed())

    def close_gates(self) -> None:
        """From now on each message passes a gate, and each start sends hellos (S3)."""
        self.gated = True
        for name in self.nodes:
            self.greet(name)

    def greet(self, name: str) -> None:
        """Exchange hellos with every voter that can be reached."""
        node = self.nodes[name]
        for other in self.nodes.values():
            if not self.gated or node.core is None or other.core is None or other is node:
                continue
            known = other.key in node.replica.log.voters and not self.is_cut(name, other.name)
            if known and self.passes(node, other):
                self.passes(other, node)

    def put_back(self, name: str, disk: SimDisk) -> None:
        """Restore an earlier copy of the disk of a process that is down (S3)."""
        assert self.nodes[name].core is None, f"{name} is up"
        self.nodes[name].disk = disk

    def snapshot(self, name: str, *, trim_to: int | None = None) -> None:
        """Let a replica take a snapshot, and trim its log behind it."""
        self.nodes[name].snapshot(self.now_ms, trim_to=trim_to)

    def wipe(self, name: str) -> str:
        """Lose the disk for good; return the name of the new replica of the node."""
        if self.nodes[name].core is not None:
            self.crash(name)
        if self.watcher is not None:
            self.watcher.lost(self.nodes[name])
        reborn = name + "'"
        self.observer(reborn)
        return reborn

    def hang(self, name: str) -> None:
        """Let a replica's disk hang: nothing becomes durable, and no call returns."""
        self.nodes[name].hangs = True

    def go_on(self, name: str) -> None:
        """Let a disk that hung work again."""
        self.nodes[name].go_on()
        self.give(name, TimePassed())

    def isolate(self, *names: str) -> None:
        """Cut replicas off from all others; requests fail."""
        self.isolated.update(names)

    def heal(self) -> None:
        """Reconnect all replicas."""
        self.isolated.clear()

    # -- clients and administrators ----------------------------------------------------------

    def ask(self, name: str, make: Callable[[int], Event]) -> int:
        """Send a request to a replica; `answers` has its answers by the returned id."""
        request_id = self.number()
        self.answers[request_id] = []
        self.give(name, make(request_id))
        return request_id

    def append(self, name: str, data: bytes) -> int:
        """Append one record."""
        return self.ask(name, lambda request_id: AppendRequested(request_id, data, 1))

    def add(
        self,
        name: str,
        voter: str,
        *,
        expected: VoterRecordId | None = None,
        replaces: str | None = None,
        within_ms: int = 5000,
    ) -> int:
        """Ask for AddVoter with the voter record that the replica has now."""
        record = expected or self.nodes[name].replica.log.voter_record
        self._answer_rounds(name)
        old = key_of(replaces) if replaces else None
        return self.ask(
            name,
            lambda request_id: AddVoterRequested(
                request_id, Voter(key_of(voter)), record, self.now_ms + within_ms, old
            ),
        )

    def remove(
        self,
        name: str,
        voter: str,
        *,
        expected: VoterRecordId | None = None,
        within_ms: int = 5000,
    ) -> int:
        """Ask for RemoveVoter with the voter record that the replica has now."""
        record = expected or self.nodes[name].replica.log.voter_record
        self._answer_rounds(name)
        return self.ask(
            name,
            lambda request_id: RemoveVoterRequested(
                request_id, key_of(voter), record, self.now_ms + within_ms
            ),
        )

    def reassign(
        self,
        name: str,
        *targets: str,
        expected: VoterRecordId | None = None,
        within_ms: int = 5000,
    ) -> int:
        """Ask for other voters, by names or by bare node ids such as `#4`; none: take it back."""
        record = expected or self.nodes[name].replica.log.assignment_record

        def target(text: str) -> Target:
            if text.startswith("#"):
                return Target(NodeId(int(text[1:])))
            key = key_of(text)
            return Target(key.node_id, key.directory_id)

        wanted = tuple(target(text) for text in targets)
        self._answer_rounds(name)
        return self.ask(
            name,
            lambda request_id: ReassignmentRequested(
                request_id, wanted, record if wanted else expected, self.now_ms + within_ms
            ),
        )

    def _answer_rounds(self, name: str) -> None:
        role = self.nodes[name].replica.role
        if self.rounds_answered and isinstance(role, Leader):
            role.confirmation_rounds = AnsweredRounds()

    def upgrade(self, name: str, version: int, *, within_ms: int = 5000) -> int:
        """Ask for a raft.version to be finalised."""
        return self.ask(
            name,
            lambda request_id: UpgradeRequested(request_id, version, self.now_ms + within_ms),
        )

    def abandon(self, name: str, request_id: int) -> None:
        """Stop waiting for an answer (S24)."""
        self.give(name, RequestAbandoned(request_id))

    def confirm(self, name: str, *, for_read: bool = True) -> int:
        """Ask whether the replica still leads."""
        return self.ask(name, lambda request_id: ConfirmRequested(request_id, for_read))

    def transfer(self, name: str, preferred: str | None = None) -> int:
        """Ask a leader to transfer leadership."""
        key = key_of(preferred) if preferred else None
        return self.ask(name, lambda request_id: ResignRequested(request_id, key))

    def disk_space(self, name: str, *, low: bool, full: bool = False) -> None:
        """Fill a disk, or free it."""
        self.give(name, DiskSpaceChanged(low, full))

    def answer(self, request_id: int) -> Answer | None:
        """The last answer to a request; None: it waits."""
        return self.answers[request_id][-1] if self.answers[request_id] else None

    def voters(self, name: str) -> str:
        """The voter set in force in a replica's log, by names."""
        return "{" + ",".join(name_of(key) for key in self.nodes[name].replica.log.voters) + "}"

    def describe(self) -> list[str]:
        """One line for each node."""
        return [describe_node(self, node) for node in self.nodes.values()]


def describe_node(book: Playbook, node: ScriptedNode) -> str:
    """Role, epoch, log and voters of one node in one line."""
    if node.core is None:
        return f"{node.name} down"
    replica, log = node.replica, node.replica.log
    leader = name_of(replica.leader) if replica.leader else "-"
    stopped = " HALTED" if node.halted else ""
    trimmed = f"{log.start}.." if log.start else ""
    return (
        f"{node.name} {node.role}{stopped} epoch={replica.epoch} leader={leader} "
        f"log={trimmed}{log.end}@{log.last_epoch} durable={log.durable_end} "
        f"committed={replica.high_watermark} voters={book.voters(node.name)}"
    )
