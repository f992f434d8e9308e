"""The rules of a small world."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

from proofkit.explorer.action import Action
from proofkit.explorer.bounds import BUDGETS, Bounds
from proofkit.explorer.local import (
    CURRENT,
    Letter,
    Local,
    Locals,
    Step,
    Stimulus,
    Volume,
    in_flight_of,
    ranked,
)
from proofkit.explorer.progress import ProgressBesideSlow
from proofkit.explorer.snapshot import (
    LATER_MS,
    NOW_MS,
    disk_stalled,
    due_begins,
    due_election,
    due_election_released,
    due_fetch,
    leader_not_fresh,
    majority_silent,
)
from proofkit.explorer.state import State
from proofkit.explorer.step_checks import Leaders, watch
from proofkit.explorer.void_messages import is_void
from raftnode.core.events import (
    AddVoterRequested,
    AppendRequested,
    ClusterJoined,
    LatchReceived,
    LogFlushed,
    RemoveVoterRequested,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotPieceStored,
    SnapshotTaken,
    TimePassed,
)
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from raftnode.core.records import Batch
from raftnode.core.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from raftnode.core.state import Latch
from raftnode.core.types import NodeId, ReplicaKey, Voter, VoterSet

CLUSTER_ID = "explored"
TICK = TimePassed()


def _may(allowed: tuple[int, ...] | None, index: int) -> bool:
    return allowed is None or index in allowed


class World:
    """The rules of a bounded world: its first state, the possible actions, and their results."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        count = bounds.voters + bounds.replacement
        ids = [*range(bounds.voters), bounds.replaced][:count]
        self.keys = tuple(
            ReplicaKey(NodeId(node_id), uuid.UUID(int=at + 1, version=4))
            for at, node_id in enumerate(ids)
        )
        self.locals = Locals(self.keys, bounds.fetches)
        self.latch = Latch(
            CLUSTER_ID, VoterSet.of(Voter(key) for key in self.keys[: bounds.voters])
        )
        self._letters: list[Letter] = []
        self._letter_numbers: dict[Letter, int] = {}
        self._batches: list[Batch] = []
        self._batch_numbers: dict[int, int] = {}
        self._fetches: list[tuple[int, int] | None] = []
        self._steps: dict[tuple[int, Action, bool], Step] = {}
        self._checked: set[int] = set()
        self._watches: dict[object, tuple[Leaders, tuple[int, ...]]] = {}
        self._addresses: dict[tuple[int, int], int] = {}
        self._kept: list[Letter] = []
        self._voids: dict[tuple[int, int], bool] = {}
        self.progress = ProgressBesideSlow(self)
        self.last: tuple[Step, ...] = ()
        """The steps of the last `apply`, for the trace."""

    # -- numbers -----------------------------------------------------------------------

    def letter(self, number: int) -> Letter:
        """A message by its number."""
        return self._letters[number]

    def local(self, state: State, index: int) -> Local:
        """One replica of a world."""
        return self.locals.all[state.locals[index]]

    def _letter_number(self, letter: Letter) -> int:
        number = self._letter_numbers.setdefault(letter, len(self._letters))
        if number == len(self._letters):
            self._letters.append(letter)
            request = letter.request
            fetch = isinstance(request, FetchRequest)
            fetcher = self.locals.index_of[request.replica] if fetch else 0
            self._fetches.append((fetcher, request.sequence) if fetch else None)
        return number

    def _batch_number(self, batch: Batch) -> int:
        number = self._batch_numbers.setdefault(id(batch), len(self._batches))
        if number == len(self._batches):
            self._batches.append(batch)
        return number

    # -- the beginning -------------------------------------------------------------------

    def first(self) -> State:
        """Return the world before the first action."""
        blank = [self.locals.intern(at, Volume(), None) for at in range(len(self.keys))]
        left = tuple(int(getattr(self.bounds, name)) for name in BUDGETS)
        state = State(tuple(local.number for local in blank), (), left, (), ())
        for index in range(self.bounds.voters):
            state = self.apply(state, Action("start", index, variant="free"))
        if not self.bounds.formed:
            return state
        state = self._settled(self.apply(state, Action("election", 0, variant="free")))
        if self.bounds.replacement and self.bounds.joined:
            joining = Action("start", self.bounds.voters, variant="free")
            state = self._settled(self.apply(state, joining))
        return state

    def _settled(self, state: State) -> State:
        """Let everything arrive and be written, until nothing is left to do."""
        for _ in range(1000):
            action = next((a for a in self.actions(state) if a.kind in SETTLING), None)
            if action is None:
                return state
            state = self.apply(state, action)
        raise AssertionError(f"the world does not come to rest: {self.bounds}")

    # -- what may happen -------------------------------------------------------------------

    def actions(self, state: State) -> Iterator[Action]:
        """Return all actions that are possible now, always in the same order."""
        left: dict[str, int] = dict(zip(BUDGETS, state.left, strict=True))
        for number in state.letters:
            yield from self._letter_actions(state, number, left)
        for index in range(len(self.keys)):
            local = self.local(state, index)
            if index in state.stopped:
                yield Action("wake", index)
                continue
            if local.core is None:
                if (local.volume.incarnation or self._may_join(index)) and not state.hangs(index):
                    yield Action("start", index)
                continue
            yield from self._own_actions(state, local, left)

    def _may_join(self, index: int) -> bool:
        return index >= self.bounds.voters

    def _letter_actions(self, state: State, number: int, left: dict[str, int]) -> Iterator[Action]:
        letter = self._letters[number]
        if letter.target is not None:
            targets = [letter.target]
        else:
            targets = [at for at in range(len(self.keys)) if at != letter.source]
        for target in targets:
            local = self.local(state, target)
            if local.core is None or target in state.stopped:
                continue
            yield Action("deliver", target, number)
            if left["duplicates"]:
                yield Action("deliver", target, number, "again")
            role = local.core.replica.role
            fresh = isinstance(role, Follower) and role.heard_at_ms is not None
            if fresh and isinstance(letter.request, VoteRequest) and letter.response is None:
                yield Action("deliver", target, number, "not fresh")
        if left["losses"]:
            yield Action("lose", letter.source, number)

    def _own_actions(self, state: State, local: Local, left: dict[str, int]) -> Iterator[Action]:
        replica, index = local.replica, local.index
        role = replica.role
        hangs = state.hangs(index)
        if hangs:
            yield Action("return", index)
            yield Action("kill", index)
        elif local.volume.log != local.volume.durable or replica.log.durable_end < replica.log.end:
            yield Action("flush", index)
        for kind, allowed in (("hang", self.bounds.hanging), ("stop", self.bounds.stopping)):
            if left[kind + "s"] and _may(allowed, index) and self._can_do_without(state, index):
                yield Action(kind, index)
        if isinstance(role, Unattached | Prospective | Follower | Resigned):
            in_flight = in_flight_of(local)
            if in_flight is None:
                idle = self.bounds.fetches > 1 or replica.log.durable_end == replica.log.end
                if role.fetching.next_at_ms > NOW_MS and idle:
                    yield Action("fetch", index)
            elif not self._is_on_its_way(state, index, in_flight):
                yield Action("unanswered", index)
        download = replica.download
        if download is not None and download.busy and not hangs:
            yield Action("read" if download.verifying else "store", index)
        if left["snapshots"] and not hangs and self.locals.taken(local):
            yield Action("snapshot", index)
        if isinstance(role, Leader):
            yield from self._leader_actions(state, local, role, left)
        elif left["elections"] and self.may_stand(local) and _may(self.bounds.standing, index):
            yield Action("election", index)
            if replica.is_called and isinstance(role, Prospective):
                yield Action("election", index, variant="released")
        if left["crashes"] and _may(self.bounds.crashing, index):
            for at in range(len(local.volume.after_crash())):
                yield Action("crash", index, at)

    def _can_do_without(self, state: State, index: int) -> bool:
        """Whether every set that may yet decide has a majority besides one replica."""
        if state.hung or state.stopped:
            return False
        for at in range(len(self.keys)):
            local = self.local(state, at)
            log = local.replica.log if local.core else local.volume.disk(local.key).index()
            mark = local.replica.high_watermark if local.core else log.start
            for voter_set in log.voter_sets_since(mark):
                if (
                    voter_set.voters
                    and len({*voter_set.voters} - {self.keys[index]}) < voter_set.voters.majority
                ):
                    return False
        return True

    def may_stand(self, local: Local) -> bool:
        """Whether the replica's election timer may fire."""
        replica = local.replica
        match replica.role:
            case Unattached() | Follower() | Resigned():
                return replica.may_stand or replica.is_called
            case Prospective() | Candidate():
                return True
            case _:
                return False

    def _leader_actions(
        self, state: State, local: Local, role: Leader, left: dict[str, int]
    ) -> Iterator[Action]:
        index, log = local.index, local.replica.log
        waiting = False
        for key, progress in role.progress.items():
            if key not in log.voters or progress.begin_done:
                continue
            if progress.begin_in_flight:
                peer = self.locals.index_of[key]
                if not self._is_begin_on_its_way(state, index, peer):
                    yield Action("unanswered", index, peer, "begin")
            else:
                waiting = waiting or progress.begin_at_ms > NOW_MS
        if waiting:
            yield Action("begin", index)
        if state.hangs(index) and log.durable_end < log.end:
            yield Action("stalled", index)
        if left["resignations"] and (set(log.voters) - {local.key}):
            yield Action("resign", index)
        if left["writes"] and log.formation_completed:
            yield Action("write", index)
        if left["changes"]:
            for at in range(self.bounds.voters, len(self.keys)):
                if self.keys[at] not in log.voters and self.keys[at] in role.progress:
                    yield Action("add", index, at)
            for at in self.bounds.removable:
                if self.keys[at] in log.voters and len(log.voters) > 1:
                    yield Action("remove", index, at)

    def _is_on_its_way(
        self, state: State, index: int, request: FetchRequest | FetchSnapshotRequest
    ) -> bool:
        for number in state.letters:
            if self._letters[number].request == request:
                return True
        key = self.keys[index]
        for at in range(len(self.keys)):
            local = self.local(state, at)
            if local.core is not None and isinstance(local.core.replica.role, Leader):
                parked = local.core.replica.role.parked.get(key)
                if parked is not None and parked.request == request:
                    return True
        return False

    def _is_begin_on_its_way(self, state: State, leader: int, peer: int) -> bool:
        ends = (self.keys[leader], self.keys[peer])
        requests = (self._letters[number].request for number in state.letters)
        return any(
            (request.leader, request.voter) == ends
            for request in requests
            if isinstance(request, BeginQuorumEpochRequest)
        )

    # -- what comes of it --------------------------------------------------------------------

    def apply(self, state: State, action: Action) -> State:
        """Return the world after an action.

        Raises:
            InvariantError: it breaks an invariant, or leads where nothing can go on beside a disk
                that hangs or a process that stands still.
        """
        after = self.applied(state, action)
        if after.hung or after.stopped:
            last = self.last
            self.progress.demand(after)
            self.last = last
        return after

    def applied(self, state: State, action: Action) -> State:
        """Return the world after an action, without the check of progress."""
        self.last = ()
        match action.kind:
            case "lose":
                letters = tuple(n for n in state.letters if n != action.detail)
                return self._spent(state._replace(letters=letters), "losses")
            case "crash":
                return self._crash(state, action)
            case "hang":
                end = self.local(state, action.index).replica.log.end
                return self._spent(state._replace(hung=((action.index, end),)), "hangs")
            case "stop":
                return self._spent(state._replace(stopped=(action.index,)), "stops")
            case "wake":
                return state._replace(stopped=())
            case "kill":
                silent = self.locals.silent(self.local(state, action.index))
                return self._disconnected(self._placed(state, silent), action.index)
            case "start":
                return self._start(state, action)
            case _:
                return self._stimulate(state, action)

    def _spent(self, state: State, budget: str) -> State:
        at = BUDGETS.index(budget)
        left = (*state.left[:at], state.left[at] - 1, *state.left[at + 1 :])
        return state._replace(left=left)

    def _crash(self, state: State, action: Action) -> State:
        index = action.index
        after = self.locals.crashed(self.local(state, index))[action.detail]
        return self._disconnected(self._spent(self._placed(state, after), "crashes"), index)

    def _disconnected(self, state: State, index: int) -> State:
        """Without the connections of a process that is gone."""
        letters: set[int] = set()
        for number in state.letters:
            letter = self._letters[number]
            if letter.response is None:
                if letter.target == index:
                    continue  # the connection breaks
                if letter.source == index and letter.awaited:
                    number = self._letter_number(replace(letter, awaited=False))  # noqa: PLW2901
            elif letter.target == index:
                continue
            letters.add(number)
        return self._tidied(state._replace(letters=tuple(sorted(letters))), fetches=True)

    def _start(self, state: State, action: Action) -> State:
        blank = not self.local(state, action.index).volume.incarnation
        local = self.locals.started(self.local(state, action.index))
        state = self._placed(state, local)
        if not blank:
            event = TICK
        elif action.index < self.bounds.voters:
            event = LatchReceived(CURRENT, self.latch)
        else:
            event = ClusterJoined(CURRENT, CLUSTER_ID)
        return self._take(state, self.locals.step(local, Stimulus(event)))

    def _stimulate(self, state: State, action: Action) -> State:
        local = self.local(state, action.index)
        if action.kind == "deliver":
            if action.variant == "again":
                state = self._spent(state, "duplicates")
            else:
                letters = tuple(n for n in state.letters if n != action.detail)
                state = state._replace(letters=letters)
        budget = SPENDS.get(action.kind)
        if budget is not None and action.variant != "free":
            state = self._spent(state, budget)
        hangs = state.hangs(action.index)
        key = (local.number, action, hangs)
        step = self._steps.get(key)
        if step is None:
            stimulus = self._stimulus(state, local, action)
            step = self._steps[key] = self.locals.step(local, stimulus, hangs=hangs)
        if action.kind == "return":
            state = state._replace(hung=())
        state = self._take(state, step)
        return state if step.after.core else self._disconnected(state, action.index)

    def _stimulus(self, state: State, local: Local, action: Action) -> Stimulus:
        replica = local.replica
        match action.kind:
            case "deliver":
                return self._delivery(action)
            case "flush":
                return Stimulus(LogFlushed(replica.log.end, 0), flush=replica.log.end)
            case "return":
                [(_, end)] = state.hung
                return Stimulus(LogFlushed(end, 0), flush=end)
            case "stalled":
                return Stimulus(TICK, disk_stalled)
            case "election":
                released = action.variant == "released"
                return Stimulus(TICK, due_election_released if released else due_election)
            case "resign":
                return Stimulus(TICK, majority_silent)
            case "fetch":
                return Stimulus(TICK, due_fetch)
            case "begin":
                return Stimulus(TICK, due_begins)
            case "unanswered" if action.variant == "begin":
                voter = self.keys[action.detail]
                begin = BeginQuorumEpochRequest(replica.epoch, local.key, voter, None)
                return Stimulus(RequestFailed(voter, begin))
            case "unanswered":
                request = in_flight_of(local)
                assert request is not None
                return Stimulus(RequestFailed(None, request))
            case "snapshot":
                made = self.locals.taken(local)
                assert made is not None
                position = made.head.position
                return Stimulus(SnapshotTaken(position, position.end_offset), made=made)
            case "read":
                return Stimulus(self.locals.read(local))
            case "store":
                assert replica.download is not None
                assert replica.download.storing_to is not None
                event = SnapshotPieceStored(replica.download.snapshot, replica.download.storing_to)
                return Stimulus(event)
            case "write":
                data = b"%d-%d" % (replica.epoch, replica.log.end)
                return Stimulus(AppendRequested(CURRENT, data, 1))
            case "add":
                voter = Voter(self.keys[action.detail])
                record = replica.log.voter_record
                return Stimulus(AddVoterRequested(CURRENT, voter, record, LATER_MS))
            case "remove":
                key, record = self.keys[action.detail], replica.log.voter_record
                return Stimulus(RemoveVoterRequested(CURRENT, key, record, LATER_MS))
            case _:
                raise AssertionError(action)

    def _delivery(self, action: Action) -> Stimulus:
        letter = self._letters[action.detail]
        source = self.keys[letter.source]
        timer = leader_not_fresh if action.variant == "not fresh" else None
        if letter.response is None:
            received = RequestReceived(CURRENT, source, letter.request)
            return Stimulus(received, timer, letter)
        return Stimulus(ResponseReceived(source, letter.request, letter.response), timer, letter)

    def _take(self, state: State, step: Step) -> State:
        self.last = (step,)
        if step.watch or step.number not in self._checked:
            leaders, committed = self._watched(state, step)
            self._checked.add(step.number)
            state = state._replace(leaders=leaders, committed=committed)
        fetches = step.before.fetches != step.after.fetches
        state = self._placed(state, step.after)
        if step.sent:
            letters = set(state.letters)
            for target, letter in step.sent:
                number = self._addressed(state, target, letter)
                if number is not None:
                    letters.add(number)
                    fetches = fetches or self._fetches[number] is not None
            state = state._replace(letters=tuple(sorted(letters)))
        return self._tidied(state, fetches=fetches)

    def _watched(self, state: State, step: Step) -> tuple[Leaders, tuple[int, ...]]:
        """Check the invariants, or remember that they held in the same circumstances."""
        everybody = [self.locals.all[number] for number in state.locals]
        logs = tuple(local.logs for local in everybody)
        key = (step.number, logs, state.leaders, state.committed)
        known = self._watches.get(key)
        if known is None:
            committed = tuple(self._batches[number] for number in state.committed)
            leaders, now = watch(step, everybody, state.leaders, committed)
            known = leaders, tuple(self._batch_number(batch) for batch in now)
            self._watches[key] = known
        return known

    def _addressed(self, state: State, target: ReplicaKey | None, letter: Letter) -> int | None:
        if target is None:
            return self._letter_number(letter)
        index = self.locals.index_of.get(target)
        if index is None or self.local(state, index).core is None:
            return None  # no connection
        known = self._addresses.get((id(letter), index))
        if known is None:
            known = self._letter_number(replace(letter, target=index))
            self._addresses[(id(letter), index)] = known
            self._kept.append(letter)
        return known

    def _placed(self, state: State, local: Local) -> State:
        at = local.index
        return state._replace(locals=(*state.locals[:at], local.number, *state.locals[at + 1 :]))

    # -- one form for equal worlds -----------------------------------------------------------

    def _tidied(self, state: State, *, fetches: bool) -> State:
        """Without messages that can never matter again, and with Fetches numbered from 0."""
        letters: list[int] = []
        for number in state.letters:
            target = self._letters[number].target
            at = -1 if target is None else state.locals[target]
            void = self._voids.get((at, number))
            if void is None:
                void = self._voids[(at, number)] = at >= 0 and is_void(
                    self.locals.all[at], self._letters[number]
                )
            if not void:
                letters.append(number)
            elif self._fetches[number] is not None:
                fetches = True
        if len(letters) != len(state.letters):
            state = state._replace(letters=tuple(letters))
        return self._ranked(state) if fetches else state

    def _ranked(self, state: State) -> State:
        ranks: list[set[int]] = [set() for _ in self.keys]
        for number in state.locals:
            for fetcher, sequence in self.locals.all[number].fetches:
                ranks[fetcher].add(sequence)
        for number in state.letters:
            fetch = self._fetches[number]
            if fetch is not None:
                ranks[fetch[0]].add(fetch[1])
        for fetcher, numbers in enumerate(ranks):
            if numbers and max(numbers) != len(numbers) - 1:
                state = self._with_ranks(state, fetcher, tuple(sorted(numbers)))
        return state

    def _with_ranks(self, state: State, fetcher: int, numbers: tuple[int, ...]) -> State:
        rank = {number: at for at, number in enumerate(numbers)}
        letters: set[int] = set()
        for number in state.letters:
            fetch, letter = self._fetches[number], self._letters[number]
            if fetch is not None and fetch[0] == fetcher:
                assert isinstance(letter.request, FetchRequest)
                letter = replace(letter, request=ranked(letter.request, rank))
                letters.add(self._letter_number(letter))
            else:
                letters.add(number)
        renumbered = tuple(
            self.locals.renumbered(self.locals.all[number], fetcher, numbers).number
            for number in state.locals
        )
        return state._replace(locals=renumbered, letters=tuple(sorted(letters)))

    def is_within(self, state: State) -> bool:
        """Whether no replica has left the bounds.

        What the others do without one that is silent is explored where replicas crash.
        """
        silent = any(self.locals.all[state.locals[at]].core is None for at, _ in state.hung)
        return not silent and all(
            self.locals.all[number].volume.state.epoch <= self.bounds.epoch_max
            for number in state.locals
        )


SETTLING = frozenset({"deliver", "flush", "fetch", "begin", "unanswered", "store", "read"})
SPENDS = {
    "election": "elections",
    "resign": "resignations",
    "write": "writes",
    "add": "changes",
    "remove": "changes",
    "snapshot": "snapshots",
}
