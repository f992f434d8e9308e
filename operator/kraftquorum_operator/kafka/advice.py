"""What to do about a quorum of Kafka's: a pure function of what was read.

The caller gives a confirmed description only. The rules are those of a lost metadata directory:
a replica is its id and its directory id; a voter is removed only while it is silent, all others
are fresh and a majority without it; and nothing is removed before its new directory has caught up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription, ReplicaState
from kraftquorum_operator.kafka.facts import MappedController
from raftnode.core.types import format_directory_id


class Kind(Enum):
    """What the operator would do, or what it waits for."""

    NOTHING = "nothing"
    WAIT = "wait"
    PROVIDE = "start a controller on an empty directory"
    REPLACE = "replace a voter"
    ADD = "add a voter"
    DECISION_NEEDED = "a person must decide"


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as fresh and as silent.

    Attributes:
        fresh_ms: a voter is fresh if it fetched, and was caught up, this recently.
        lag_max: and if it lacks no more records than these.
        grace_ms: a voter is replaced only after this silence.
    """

    fresh_ms: int = 5_000
    lag_max: int = 1_000
    grace_ms: int = 300_000


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Standing:
    """A replica, judged.

    Attributes:
        state: what the leader says.
        lag: records that it lacks; None: unknown.
        silent_ms: since its last Fetch, by the leader's clock; None: none since the election.
        fresh: whether it counts for the majority now.
        may_be_lost: the quorum goes on without it.
    """

    state: ReplicaState
    lag: int | None
    silent_ms: int | None
    fresh: bool
    may_be_lost: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """The judgement.

    Attributes:
        kind: what the operator would do.
        text: the same as a sentence, with ids and what it waits for.
        remove: the voter that it would remove first.
        add: the observer that it would add then.
        spare: how many fresh voters may be lost before the quorum stops.
        voters: judged, by id.
        observers: judged, by id.
    """

    kind: Kind
    text: str
    remove: ReplicaState | None
    add: ReplicaState | None
    spare: int
    voters: tuple[Standing, ...]
    observers: tuple[Standing, ...]

    @property
    def safe(self) -> bool:
        """Whether any one voter may be lost or replaced now."""
        return self.spare >= 1


def majority(voters: int) -> int:
    """How many of that many voters are a majority."""
    return voters // 2 + 1


def name(state: ReplicaState) -> str:
    """A replica as Kafka's tools write it: id, dash, directory id."""
    return f"{state.node_id}-{format_directory_id(state.directory_id)}"


def advise(
    quorum: QuorumDescription,
    earlier: QuorumDescription,
    wanted: Sequence[MappedController] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Advice:
    """Judge a confirmed description.

    Args:
        quorum: the description.
        earlier: the one that it was confirmed against.
        wanted: the id map; empty: the current voters.
        limits: what is fresh and what is silent.
    """
    leader = next(voter for voter in quorum.voters if voter.node_id == quorum.leader_id)
    fresh_keys = {state.key for state in quorum.voters if is_fresh(state, leader, limits)}
    spare = len(fresh_keys) - majority(len(quorum.voters))

    def judged(states: Sequence[ReplicaState], *, vote: bool) -> tuple[Standing, ...]:
        return tuple(
            Standing(
                state,
                lag_of(state, leader),
                silence_of(state, leader),
                is_fresh(state, leader, limits),
                not vote or state.key not in fresh_keys or spare >= 1,
            )
            for state in sorted(states, key=lambda state: state.key)
        )

    voters = judged(quorum.voters, vote=True)
    observers = judged(quorum.observers, vote=False)
    kind, text, remove, add = _decide(voters, observers, earlier, wanted, limits)
    return Advice(kind, text, remove, add, spare, voters, observers)


_Decision = tuple[Kind, str, ReplicaState | None, ReplicaState | None]


def _decide(
    voters: Sequence[Standing],
    observers: Sequence[Standing],
    earlier: QuorumDescription,
    wanted: Sequence[MappedController],
    limits: Limits,
) -> _Decision:
    ends = {state.key: state.log_end_offset for state in earlier.voters}
    for voter in voters:
        if 0 <= voter.state.log_end_offset < ends.get(voter.state.key, -1):
            return _person(
                f"the log of voter {name(voter.state)} went back from {ends[voter.state.key]} to "
                f"{voter.state.log_end_offset} under one leader: its directory was emptied under "
                "its old id; stop that controller and keep all other directories"
            )
    twin = _twin(voters, observers)
    if twin:
        return _person(twin)
    silent = [voter for voter in voters if not voter.fresh]
    if len(silent) > 1:
        names = ", ".join(name(voter.state) for voter in silent)
        return _wait(f"voters {names} are silent: one is replaced only while all others are fresh")
    if silent:
        return _lost(silent[0], voters, observers, limits)
    return _missing(voters, observers, wanted)


def _twin(voters: Sequence[Standing], observers: Sequence[Standing]) -> str:
    """Two live directories under one id: removing either could remove the wrong one."""
    live = [*(voter for voter in voters if voter.fresh), *(row for row in observers if row.fresh)]
    for row in live:
        twins = [other for other in live if other.state.node_id == row.state.node_id]
        if len(twins) > 1:
            names = " and ".join(name(other.state) for other in twins)
            return f"{names} are live under one id: stop the controller that is not wanted"
    return ""


def _lost(
    voter: Standing, voters: Sequence[Standing], observers: Sequence[Standing], limits: Limits
) -> _Decision:
    rest = [other for other in voters if other is not voter]
    if len(rest) < majority(len(voters)):
        return _wait(f"voter {name(voter.state)} is silent, and the others are no majority")
    node_id = voter.state.node_id
    replicas = [row for row in observers if row.state.node_id == node_id]
    fresh = [row for row in replicas if row.fresh]
    if not fresh and replicas:
        lag = replicas[0].lag
        return _wait(
            f"observer {name(replicas[0].state)} is to take the place of voter "
            f"{name(voter.state)}, and is not caught up (lag {'unknown' if lag is None else lag})"
        )
    if fresh and (voter.silent_ms is None or voter.silent_ms >= limits.grace_ms):
        new = fresh[0].state
        text = (
            f"remove voter {name(voter.state)}, then add {name(new)} at once: the directory of "
            f"controller {node_id} is another one, and it is caught up"
        )
        return Kind.REPLACE, text, voter.state, new
    if voter.silent_ms is not None and voter.silent_ms < limits.grace_ms:
        return _wait(
            f"voter {name(voter.state)} is silent for {voter.silent_ms} ms; it is replaced after "
            f"{limits.grace_ms} ms"
        )
    text = (
        f"voter {name(voter.state)} is lost; if its directory is gone, start controller {node_id} "
        "on an empty directory (kafka-storage format --no-initial-controllers), never under the "
        "old directory id"
    )
    return Kind.PROVIDE, text, None, None


def _missing(
    voters: Sequence[Standing],
    observers: Sequence[Standing],
    wanted: Sequence[MappedController],
) -> _Decision:
    voter_ids = {voter.state.node_id for voter in voters}
    for controller in sorted(wanted, key=lambda controller: controller.node_id):
        if controller.node_id in voter_ids:
            continue
        rows = [row for row in observers if row.state.node_id == controller.node_id]
        for row in rows:
            if row.fresh:
                text = f"add {name(row.state)}: the id map has it, it is caught up and no voter"
                return Kind.ADD, text, None, row.state
        if rows:
            return _wait(f"observer {name(rows[0].state)} is to be a voter, and is not caught up")
        text = (
            f"controller {controller.node_id} of the id map is neither voter nor observer: "
            f"start it at {controller.address}"
        )
        return Kind.PROVIDE, text, None, None
    return Kind.NOTHING, "all voters are fresh", None, None


def _wait(text: str) -> _Decision:
    return Kind.WAIT, text, None, None


def _person(text: str) -> _Decision:
    return Kind.DECISION_NEEDED, text, None, None


def lag_of(state: ReplicaState, leader: ReplicaState) -> int | None:
    """Records that a replica lacks; None: unknown."""
    if state.log_end_offset < 0:
        return None
    return max(leader.log_end_offset - state.log_end_offset, 0)


def silence_of(state: ReplicaState, leader: ReplicaState) -> int | None:
    """Since a replica's last Fetch, in ms by the leader's clock; None: none since the election."""
    if state.key == leader.key:
        return 0
    if state.last_fetch_ms < 0:
        return None
    return max(leader.last_caught_up_ms - state.last_fetch_ms, 0)


def is_fresh(state: ReplicaState, leader: ReplicaState, limits: Limits) -> bool:
    """Whether a replica counts for a majority that can commit now."""
    if state.key == leader.key:
        return True
    lag, silence = lag_of(state, leader), silence_of(state, leader)
    if lag is None or silence is None or state.last_caught_up_ms < 0:
        return False
    behind_ms = leader.last_caught_up_ms - state.last_caught_up_ms
    return lag <= limits.lag_max and max(silence, behind_ms) <= limits.fresh_ms
