"""A writer of unique values, readers, and an administrator that changes voters."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofkit.simulator.node import Answer, PendingWrite, SimNode
from raftnode.core.effects import (
    AppendAccepted,
    Confirmed,
    Done,
    Refused,
    VoterChangeCompleted,
)
from raftnode.core.events import (
    AddVoterRequested,
    AppendRequested,
    CommitAwaited,
    ConfirmRequested,
    ReassignmentRequested,
    RemoveVoterRequested,
    RequestAbandoned,
    ResignRequested,
    Target,
    UpgradeRequested,
)
from raftnode.core.records import RAFT_VERSION
from raftnode.core.roles import Leader
from raftnode.core.types import FIRST_OFFSET, NO_OFFSET, Offset, ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from proofkit.simulator.world import World


@dataclass(slots=True)
class Writer:
    """Appends numbered values and remembers the outcome of each."""

    world: World
    outcomes: dict[bytes, str] = field(default_factory=dict[bytes, str])
    record_counts: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """How many records the batch of a value has."""
    finishes: random.Random | None = None
    """Chooses the batches of clients that finish theirs, in worlds that have such clients."""
    written: int = 0
    acknowledged_end: Offset = FIRST_OFFSET
    """One past the last acknowledged record: what every later read must see."""

    def write(self) -> bytes | None:
        """Send one or more values, a batch each, to a node that takes itself for the leader.

        Returns:
            The last value; None: there is no such node.
        """
        leaders = self.world.believed_leaders()
        if not leaders:
            return None
        node = self.world.rng.choice(leaders)
        value: bytes | None = None
        for record_count in self._batches():
            if node.core is not None:  # it may have died over the batch before
                value = self._send(node, record_count)
        return value

    def _batches(self) -> list[int]:
        """The number of records of each batch that a node gives its core in one go.

        Finished batches stay apart, so there may be several; other writes share a batch.
        """
        if self.finishes is None or self.finishes.random() < 0.5:
            return [1]
        counts = self.finishes.choices([1, 2, 7, 100], k=self.finishes.randint(1, 3))
        self.world.faults.counts["finished_batches"] += sum(count > 1 for count in counts)
        return counts

    def _send(self, node: SimNode, record_count: int) -> bytes:
        self.written += 1
        value = b"write-%d" % self.written
        self.outcomes[value] = "open"
        self.record_counts[value] = record_count
        call = self.world.keyvalue.wrote(self.written, value)

        def ended(outcome: str, last: Offset = NO_OFFSET) -> None:
            self.world.keyvalue.ended(call, outcome)
            self._end(value, outcome, last)

        def answered(answer: Answer) -> None:
            if isinstance(answer, AppendAccepted):
                last = answer.last_offset
                node.writes.append(PendingWrite(last, lambda outcome: ended(outcome, last)))
            else:
                unknown = isinstance(answer, Refused) and answer.outcome == "unknown"
                ended("unknown" if unknown else "refused")

        node.ask(lambda request_id: AppendRequested(request_id, value, record_count), answered)
        return value

    def _end(self, value: bytes, outcome: str, last: Offset) -> None:
        self.outcomes[value] = outcome
        if outcome == "acknowledged":
            self.world.acknowledged_now(value)
            self.acknowledged_end = max(self.acknowledged_end, Offset(last + 1))

    def count(self, outcome: str) -> int:
        """Return the number of writes with an outcome."""
        return sum(kind == outcome for kind in self.outcomes.values())


@dataclass(slots=True)
class Reader:
    """Asks for confirmed answers, which must cover every write acknowledged before (S11)."""

    world: World
    rng: random.Random
    answered: int = 0

    def read(self) -> list[int]:
        """Ask each node that takes itself for the leader: a deposed leader must not answer.

        Returns:
            The numbers of the reads.
        """
        required = max(self.world.writer.acknowledged_end, self.world.administrator.completed_end)
        begun: list[int] = []
        for node in self.world.believed_leaders():
            begun.append(self._read_from(node, required))
            self._describe(node, self.world.administrator.completed_end)
        self._wait_for_news()
        return begun

    def _wait_for_news(self) -> None:
        """Let a client of some node wait for the commit of what that node appends next."""
        node = self.rng.choice(self.world.everybody)
        if node.core is not None:
            node.deliver(node.life, CommitAwaited(node.core.replica.log.end))

    def _read_from(self, node: SimNode, required: Offset) -> int:
        keyvalue, life = self.world.keyvalue, node.life
        asking = True
        key, call = keyvalue.reads_key(node)

        def answered(answer: Answer) -> None:
            if isinstance(answer, Confirmed):
                self.answered += 1
                if asking and _has_others(node):
                    self.world.faults.counts["lease_reads"] += 1
                self.world.checker.confirmed(node, answer.high_watermark, required)
                keyvalue.confirmed(node, life, call, key, answer.high_watermark)

        node.ask(lambda request_id: ConfirmRequested(request_id, for_read=True), answered)
        asking = False
        return call

    def _describe(self, node: SimNode, required: Offset) -> None:
        """A confirmed description knows every voter change that was completed before (S11)."""

        def answered(answer: Answer) -> None:
            if isinstance(answer, Confirmed) and node.core is not None:
                record = node.core.replica.log.voter_record
                self.world.checker.confirmed(node, Offset(record.offset + 1), required)

        node.ask(lambda request_id: ConfirmRequested(request_id, for_read=False), answered)


def _has_others(node: SimNode) -> bool:
    """Whether an answer at once cannot have come from a round."""
    return node.core is not None and not node.core.replica.knows_no_other_voter


MEETING_MS = 6000
"""So long after a volume went back its leader may still take it for what it was: a fetch
timeout and the latest of its messages."""


@dataclass(slots=True)
class Administrator:
    """Changes voters as the operator would, but in any order that the leader allows."""

    world: World
    rng: random.Random
    voters_max: int = 5
    changes: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("add", "remove", "transfer", "given_up", "upgrade", "reassign", "take_back"), 0
        )
    )
    completed_end: Offset = FIRST_OFFSET
    """One past the last voter record that was reported as committed."""
    reassigns: random.Random | None = None
    """Chooses targets, in worlds in which voters are reassigned."""

    def act(self) -> None:
        """Ask a node that takes itself for the leader for a sensible change."""
        leaders = self.world.believed_leaders()
        if not leaders or self.world.calm:
            return
        node = self.rng.choice(leaders)
        if self.reassigns is not None and self._reassign(node, self.reassigns):
            return
        assert node.core is not None
        replica = node.core.replica
        if not isinstance(replica.role, Leader):
            return
        voters = replica.log.voters
        if self.rng.random() < 0.1:
            self._transfer(node, voters)
            return
        if replica.log.raft_version < RAFT_VERSION and self.rng.random() < 0.3:
            self._upgrade(node)
            return
        dead = [key for key in voters if self.world.is_lost(key)]
        fresh = [key for key in replica.role.progress if key not in voters and self._is_well(key)]
        repaired = [key for key in fresh if any(old.node_id == key.node_id for old in dead)]
        replaced = [
            key for key in dead if any(new.node_id == key.node_id and new != key for new in voters)
        ]
        if replaced:
            self._remove(node, self.rng.choice(replaced))
        elif repaired:
            self._add(node, self.rng.choice(repaired), self.rng.random() < 0.5)
        elif fresh and len(voters) < self.voters_max and self.rng.random() < 0.6:
            self._add(node, self.rng.choice(fresh), with_removal=False)
        elif len(voters) > 3 and not dead and self.rng.random() < 0.5:
            self._remove(node, self.rng.choice(list(voters)))

    def _is_well(self, key: ReplicaKey) -> bool:
        """Whether it may be leaned on.

        One whose volume just went back in time looks well until a replica meets it (S3), and a
        set of two that counts it is stuck: no rule can keep an administrator from that.
        """
        went_back_ms = self.world.now_ms - self.world.put_back_at_ms.get(key, -MEETING_MS)
        ill = self.world.is_lost(key) or went_back_ms < MEETING_MS
        return self.world.is_live(key) and not ill

    def _add(self, node: SimNode, key: ReplicaKey, with_removal: bool) -> None:  # noqa: FBT001
        assert node.core is not None
        log = node.core.replica.log
        old = next((k for k in log.voters.with_id(key.node_id) if self.world.is_lost(k)), None)
        expected, deadline = log.voter_record, node.own_ms + self.rng.randint(50, 5000)
        replaces = old if with_removal else None
        request = node.ask(
            lambda request_id: AddVoterRequested(
                request_id, Voter(key), expected, deadline, replaces
            ),
            lambda answer: self._count("add", answer),
        )
        if self.rng.random() < 0.1:
            self.changes["given_up"] += 1
            self.world.after(
                self.rng.randint(0, 500),
                lambda: node.deliver(node.life, RequestAbandoned(request)),
            )

    def _remove(self, node: SimNode, key: ReplicaKey) -> None:
        assert node.core is not None
        expected = node.core.replica.log.voter_record
        deadline = node.own_ms + self.rng.randint(50, 5000)
        node.ask(
            lambda request_id: RemoveVoterRequested(request_id, key, expected, deadline),
            lambda answer: self._count("remove", answer),
        )

    def _reassign(self, node: SimNode, rng: random.Random) -> bool:
        """Set, replace or take back a target at times, and always once a disk of it is lost."""
        assert node.core is not None
        replica = node.core.replica
        target, role = replica.log.target_voters, replica.role
        if not isinstance(role, Leader):
            return False
        hopeless = any(self.world.is_lost(key) for key in target)
        if not hopeless and rng.random() > (0.15 if target else 0.4):
            return bool(target)
        choice: list[ReplicaKey] = []
        if not hopeless and rng.random() < 0.8:
            known = dict.fromkeys([*replica.log.voters, *role.progress])
            well = [key for key in known if self._is_well(key)]
            by_id = list({key.node_id: key for key in well}.values())
            choice = rng.sample(by_id, rng.randint(0, min(len(by_id), self.voters_max)))
        wanted = VoterSet.of(Voter(key) for key in choice)
        if choice and not self.world.faults.may_reassign(replica.log.voters, wanted):
            return False
        targets = tuple(
            Target(key.node_id, key.directory_id if rng.random() < 0.7 else None) for key in choice
        )
        expected = replica.log.assignment_record
        deadline = node.own_ms + rng.randint(50, 5000)
        node.ask(
            lambda request_id: ReassignmentRequested(
                request_id, targets, expected if targets else None, deadline
            ),
            lambda answer: self._count("reassign" if targets else "take_back", answer),
        )
        return True

    def _upgrade(self, node: SimNode) -> None:
        """Ask for any version, a lower one too: that must be refused."""
        version = self.rng.randint(0, RAFT_VERSION)
        deadline = node.own_ms + self.rng.randint(50, 5000)
        node.ask(
            lambda request_id: UpgradeRequested(request_id, version, deadline),
            lambda answer: self._count("upgrade", answer),
        )

    def _transfer(self, node: SimNode, voters: VoterSet) -> None:
        preferred = self.rng.choice([None, *voters])
        node.ask(
            lambda request_id: ResignRequested(request_id, preferred),
            lambda answer: self._count("transfer", answer),
        )

    def _count(self, kind: str, answer: Answer) -> None:
        if isinstance(answer, VoterChangeCompleted):
            self.changes[kind] += 1
            self.completed_end = max(self.completed_end, Offset(answer.voter_record.offset + 1))
        elif isinstance(answer, Done):
            self.changes[kind] += 1
