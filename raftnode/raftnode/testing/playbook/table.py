"""The replicas at the table and the messages between them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    AppendAccepted,
    Confirmed,
    Done,
    Effect,
    Refused,
    SendRequest,
    SendResponse,
    ServeFetch,
    VoterChangeCompleted,
)
from raftnode.core.events import (
    AddVoterRequested,
    AppendRequested,
    ClusterJoined,
    ConfirmRequested,
    DiskSpaceChanged,
    Event,
    LatchReceived,
    RemoveVoterRequested,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    TimePassed,
)
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Request,
    Response,
    VoteRequest,
)
from raftnode.core.roles import Follower, Resigned, Unattached
from raftnode.core.state import Latch
from raftnode.core.types import NodeId, ReplicaKey, Voter, VoterRecordId, VoterSet
from raftnode.testing.playbook.seat import Seat
from raftnode.testing.simulator.disk import SimDisk

CLUSTER_ID = "playbook"
Answer = AppendAccepted | Refused | VoterChangeCompleted | Confirmed | Done

KINDS: dict[str, type[Request]] = {
    "vote": VoteRequest,
    "begin": BeginQuorumEpochRequest,
    "end": EndQuorumEpochRequest,
    "fetch": FetchRequest,
}


@dataclass(slots=True)
class Message:
    """A request (`response` None) or an answer on its way."""

    number: int
    source: str
    target: str | None
    request: Request
    response: Response | None = None
    answers: tuple[str, int] | None = None
    """The life of the asker, as (name, incarnation): an answer is for that life only."""

    @property
    def kind(self) -> str:
        """`vote`, `pre-vote`, `begin`, `end` or `fetch`, with `-answer` in an answer."""
        if isinstance(self.request, VoteRequest) and self.request.pre_vote:
            kind = "pre-vote"
        else:
            kind = next(name for name, type_ in KINDS.items() if isinstance(self.request, type_))
        return kind if self.response is None else f"{kind}-answer"


def key_of(name: str) -> ReplicaKey:
    """The replica of a name: `3` is node 3, `3'` the same node on its second disk."""
    node_id = int(name.rstrip("'"))
    disk = name.count("'")
    return ReplicaKey(NodeId(node_id), uuid.UUID(int=(node_id << 64) | (disk + 1), version=4))


def name_of(key: ReplicaKey) -> str:
    """The name of a replica: the other way round."""
    disk = 0
    while key_of(f"{key.node_id}{chr(39) * disk}") != key:
        disk += 1
        assert disk < 9, key
    return f"{key.node_id}{chr(39) * disk}"


@dataclass(slots=True)
class Playbook:
    """A few replicas; messages wait in `pending` until they are delivered or dropped."""

    config: CoreConfig = field(default_factory=CoreConfig)
    now_ms: int = 1000
    seats: dict[str, Seat] = field(default_factory=dict[str, Seat])
    pending: list[Message] = field(default_factory=list[Message])
    isolated: set[str] = field(default_factory=set[str])
    answers: dict[int, list[Answer]] = field(default_factory=dict[int, list[Answer]])
    watch: Callable[[Seat, Effect], None] | None = None
    """Called with every effect."""
    on_delivery: Callable[[Message], None] | None = None
    _numbers: int = 0
    _questions: dict[int, Message] = field(default_factory=dict[int, Message])

    # -- setting the table ---------------------------------------------------------------

    @classmethod
    def formed(cls, *names: str, leader: str = "1", config: CoreConfig | None = None) -> Playbook:
        """A quorum of `names`, formed and quiet, led by `leader` in epoch 1."""
        book = cls(config or CoreConfig())
        book.latch(*names)
        book.impatient(leader)
        book.settle()
        assert book.seats[leader].replica.log.formation_completed
        return book

    def latch(self, *names: str) -> None:
        """Seat blank replicas and give each the latch that lists them all (S18)."""
        latch = Latch(CLUSTER_ID, VoterSet.of(Voter(key_of(name)) for name in names))
        for name in names:
            if name not in self.seats:
                self.blank(name)
            self.give(name, LatchReceived(self.number(), latch))

    def blank(self, name: str) -> Seat:
        """Seat a replica with an empty disk."""
        seat = Seat(name, SimDisk(key_of(name)), self._carry_out, self.config)
        self.seats[name] = seat
        seat.start(self.now_ms)
        return seat

    def observer(self, name: str) -> Seat:
        """Seat a replica that knows the cluster and nothing else (S5)."""
        seat = self.blank(name)
        self.give(name, ClusterJoined(self.number(), CLUSTER_ID))
        return seat

    def __getitem__(self, name: str) -> Seat:
        return self.seats[name]

    @property
    def leaders(self) -> list[str]:
        """Who believes that it leads."""
        return [name for name, seat in self.seats.items() if seat.role == "leader"]

    # -- what happens --------------------------------------------------------------------

    def give(self, name: str, event: Event) -> list[Effect]:
        """Hand one event to one replica."""
        return self.seats[name].take(event, self.now_ms)

    def deliver(
        self, kind: str = "", source: str = "", target: str = "", *, limit: int = 1_000_000
    ) -> int:
        """Deliver what waits now and matches, in order; what that causes waits in turn."""
        chosen = self._matching(kind, source, target)[:limit]
        for message in chosen:
            self.pending.remove(message)
            self._deliver(message)
        return len(chosen)

    def drop(self, kind: str = "", source: str = "", target: str = "") -> int:
        """Lose what waits now and matches; nobody is told."""
        chosen = self._matching(kind, source, target)
        for message in chosen:
            self.pending.remove(message)
        return len(chosen)

    def repeat(self, kind: str = "", source: str = "", target: str = "") -> None:
        """Make a second copy of what waits now and matches."""
        for message in self._matching(kind, source, target):
            self.pending.append(message)

    def _matching(self, kind: str, source: str, target: str) -> list[Message]:
        return [
            message
            for message in self.pending
            if kind in {"", message.kind}
            and source in {"", message.source}
            and target in {"", message.target}
        ]

    def settle(self) -> None:
        """Deliver and flush until nothing more happens by itself."""
        for _ in range(10_000):
            moved = self.deliver()
            flushed = [seat.flush(self.now_ms) for seat in self.seats.values() if seat.flushes]
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
            raise AssertionError("time stands still: somebody always wants to be woken at once")
        self.now_ms = end

    def _deadlines(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, seat in self.seats.items():
            deadline = seat.core.next_deadline_ms() if seat.core and not seat.halted else None
            if deadline is not None:
                found[name] = deadline
        return found

    def wait(self, duration_ms: int, *names: str) -> None:
        """Let time pass without any delivery; only `names` (default: all) look at the clock."""
        self.now_ms += duration_ms
        for name in names or tuple(self.seats):
            self.give(name, TimePassed())

    def stand(self, name: str) -> None:
        """Let time pass until the replica asks for votes; only it looks at the clock."""
        for _ in range(20):
            deadline = self._deadlines().get(name)
            assert deadline is not None, f"{name} will never stand"
            self.now_ms = max(self.now_ms, deadline)
            self.give(name, TimePassed())
            if self.seats[name].role in {"prospective", "candidate", "leader"}:
                return
        raise AssertionError(f"{name} does not stand: it is {self.seats[name].role}")

    def elect(self, name: str) -> None:
        """Make `name` leader: by the present leader's hand, or because that is not heard.

        Without a leader in reach everybody misses it just long enough, and `name` stands first.
        """
        handing = [leader for leader in self.leaders if leader not in self.isolated]
        if handing and name not in self.isolated:
            self.run(self.config.fetch_max_wait_ms * 2)
            self.transfer(handing[0], name)
            self.settle()
            assert self.leaders == [name], self.describe()
            return
        for seat in self.seats.values():
            role = seat.core.replica.role if seat.core else None
            if isinstance(role, Follower) and role.heard_at_ms is not None:
                self.now_ms = max(self.now_ms, role.heard_at_ms + self.config.fetch_timeout_ms)
        self.impatient(name)
        self.settle()
        assert self.seats[name].role == "leader", self.describe()

    def impatient(self, name: str) -> None:
        """Let the replica's election time be now."""
        role = self.seats[name].replica.role
        assert isinstance(role, Unattached | Follower | Resigned), role
        role.election_at_ms = self.now_ms
        self.give(name, TimePassed())

    def crash(self, name: str, *, keep_unflushed: bool = False) -> None:
        """Kill a process; requests that it was asked fail for those who asked."""
        self.seats[name].stop(keep_unflushed=keep_unflushed)
        for number, message in list(self._questions.items()):
            if message.target == name:
                del self._questions[number]
                self._fail(message)

    def restart(self, name: str) -> None:
        """Start a process again on its disk."""
        self.seats[name].start(self.now_ms)
        self.give(name, TimePassed())

    def wipe(self, name: str) -> str:
        """Lose the disk for good: the node comes back as another replica, whose name is given."""
        if self.seats[name].core is not None:
            self.crash(name)
        reborn = name + "'"
        self.observer(reborn)
        return reborn

    def isolate(self, *names: str) -> None:
        """Cut replicas off from all others; requests fail."""
        self.isolated.update(names)

    def heal(self) -> None:
        """Mend the network."""
        self.isolated.clear()

    # -- clients and administrators ----------------------------------------------------------

    def number(self) -> int:
        """A request id that was never used."""
        self._numbers += 1
        return self._numbers

    def ask(self, name: str, make: Callable[[int], Event]) -> int:
        """Ask a replica something; `answers` of the returned id holds what it said."""
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
        record = expected or self.seats[name].replica.log.voter_record
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
        record = expected or self.seats[name].replica.log.voter_record
        return self.ask(
            name,
            lambda request_id: RemoveVoterRequested(
                request_id, key_of(voter), record, self.now_ms + within_ms
            ),
        )

    def confirm(self, name: str, *, for_read: bool = True) -> int:
        """Ask whether the replica still leads."""
        return self.ask(name, lambda request_id: ConfirmRequested(request_id, for_read))

    def transfer(self, name: str, preferred: str | None = None) -> int:
        """Ask a leader to hand over."""
        key = key_of(preferred) if preferred else None
        return self.ask(name, lambda request_id: ResignRequested(request_id, key))

    def disk_space(self, name: str, *, low: bool) -> None:
        """Fill a disk, or free it."""
        self.give(name, DiskSpaceChanged(low))

    def answer(self, request_id: int) -> Answer | None:
        """The last answer to a request; None: it waits."""
        return self.answers[request_id][-1] if self.answers[request_id] else None

    def voters(self, name: str) -> str:
        """The voter set in force in a replica's log, by names."""
        return "{" + ",".join(name_of(key) for key in self.seats[name].replica.log.voters) + "}"

    def describe(self) -> list[str]:
        """One line for each seat."""
        return [describe_seat(self, seat) for seat in self.seats.values()]

    # -- inside --------------------------------------------------------------------------

    def _deliver(self, message: Message) -> None:
        if self.on_delivery:
            self.on_delivery(message)
        if message.response is not None:
            self._deliver_answer(message, message.response)
            return
        target = self._find(message)
        if target is None:
            self._fail(message)
            return
        request_id = self.number()
        self._questions[request_id] = Message(
            request_id, message.source, target.name, message.request, answers=message.answers
        )
        source = self.seats[message.source].key
        target.take(RequestReceived(request_id, source, message.request), self.now_ms)

    def _deliver_answer(self, message: Message, response: Response) -> None:
        assert message.target is not None
        asker = self.seats[message.target]
        if self._life(asker) == message.answers and not self._cut(message.source, asker.name):
            source = self.seats[message.source].key
            asker.take(ResponseReceived(source, message.request, response), self.now_ms)

    def _find(self, message: Message) -> Seat | None:
        if message.target is None:
            others = [
                seat
                for seat in self.seats.values()
                if seat.core and seat.name != message.source and not self._cut_from(message, seat)
            ]
            return others[0] if others else None
        seat = self.seats.get(message.target)
        if seat is None or seat.core is None or self._cut_from(message, seat):
            return None
        return seat

    def _cut_from(self, message: Message, seat: Seat) -> bool:
        return self._cut(message.source, seat.name)

    def _cut(self, one: str, other: str) -> bool:
        return one != other and bool({one, other} & self.isolated)

    def _fail(self, message: Message) -> None:
        asker = self.seats[message.source]
        if self._life(asker) == message.answers:
            target = key_of(message.target) if message.target else None
            asker.take(RequestFailed(target, message.request), self.now_ms)

    @staticmethod
    def _life(seat: Seat) -> tuple[str, int]:
        return seat.name, seat.disk.incarnation if seat.core else -1

    def _carry_out(self, seat: Seat, effect: Effect) -> None:
        if self.watch:
            self.watch(seat, effect)
        match effect:
            case SendRequest(target, request):
                name = name_of(target) if target else None
                message = Message(self.number(), seat.name, name, request, answers=self._life(seat))
                self.pending.append(message)
            case SendResponse(request_id, response):
                self._answer(request_id, response)
            case ServeFetch():
                self._answer(effect.request_id, seat.read(effect))
            case AppendAccepted() | Refused() | VoterChangeCompleted() | Confirmed() | Done():
                self.answers.setdefault(effect.request_id, []).append(effect)
            case _:
                pass

    def _answer(self, request_id: int, response: Response) -> None:
        question = self._questions.pop(request_id, None)
        if question is not None:
            assert question.target is not None
            self.pending.append(
                Message(
                    self.number(),
                    question.target,
                    question.source,
                    question.request,
                    response,
                    question.answers,
                )
            )


def describe_seat(book: Playbook, seat: Seat) -> str:
    """Role, epoch, log and voters of one seat in one line."""
    if seat.core is None:
        return f"{seat.name} down"
    replica, log = seat.replica, seat.replica.log
    leader = name_of(replica.leader) if replica.leader else "-"
    stopped = " HALTED" if seat.halted else ""
    return (
        f"{seat.name} {seat.role}{stopped} epoch={replica.epoch} leader={leader} "
        f"log={log.end}@{log.last_epoch} durable={log.durable_end} "
        f"committed={replica.high_watermark} voters={book.voters(seat.name)}"
    )
