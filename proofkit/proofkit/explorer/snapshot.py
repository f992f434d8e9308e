"""Copies, keys and abstract time of a core's state.

A core's state is made of mutable containers and dataclasses around immutable values.
`copied` copies the former and shares the latter; `frozen` turns them into one hashable
key. Both learn from the dataclasses which is which, so that a new field needs nothing here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, cast

from raftnode.core.config import CoreConfig
from raftnode.core.raft import RaftCore
from raftnode.core.replica import Replica
from raftnode.core.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from raftnode.core.types import FIRST_OFFSET

NOW_MS = 1_000_000
"""The time of every clock in all states: see `abstract_time`."""
LATER_MS = NOW_MS * 1_000_000
"""The time of every deadline that is not due."""
CONFIG = CoreConfig(high_watermark_wait_ms=0)
"""A high watermark that is held back is one whose answer is late, and any answer may be late."""

UNHASHED = frozenset({"rng", "config", "effects", "now_ms"})
"""Fields of Replica that are the same in every state."""


class LeastRandom(random.Random):
    """A random source that always draws the least value.

    The core draws waiting times, which are abstract here, and whom a replica without a
    leader asks: it then asks «any», and `world` lets any replica answer.
    """

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:  # noqa: ARG002
        """The least number."""
        return 0 if stop is None else start


RNG = LeastRandom()


def _names(kind: type[Any]) -> tuple[str, ...] | None:
    """Field names of a mutable dataclass; None: the values are immutable."""
    if not is_dataclass(kind) or cast("Any", kind).__dataclass_params__.frozen:
        return None
    return tuple(field.name for field in fields(kind))


_KNOWN: dict[type[Any], tuple[str, ...] | None] = {}


def _fields(kind: type[Any]) -> tuple[str, ...] | None:
    if kind not in _KNOWN:
        _KNOWN[kind] = _names(kind)
    return _KNOWN[kind]


def copied(value: Any) -> Any:
    """Return a copy that shares only immutable values."""
    kind = cast("type[Any]", type(value))
    if kind is list:
        return [copied(item) for item in value]
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is set:
        return set(value)
    names = _fields(kind)
    if names is None:
        return value
    made: Any = object.__new__(kind)
    for name in names:
        setattr(made, name, copied(getattr(value, name)))
    return made


def frozen(value: Any) -> Any:
    """Return a hashable key, equal for equal states, whatever the order in dicts and sets."""
    kind = cast("type[Any]", type(value))
    if kind is list:
        return tuple([frozen(item) for item in value])
    if kind is dict:
        return frozenset([(key, frozen(item)) for key, item in value.items()])
    if kind is set:
        return frozenset(value)
    names = _fields(kind)
    if names is None:
        return value
    return (kind, *[frozen(getattr(value, name)) for name in names if name not in UNHASHED])


def copy_of(core: RaftCore) -> RaftCore:
    """Return an independent core with the same state."""
    made = object.__new__(RaftCore)
    made.replica = copied(core.replica)
    return made


def _later(at_ms: int) -> int:
    return LATER_MS if at_ms > NOW_MS else NOW_MS


def abstract_time(replica: Replica) -> None:
    """Replace each time by an abstract one: a deadline is due, or is not due.

    Also what is only counted to choose a wait, and when things were, for reports.
    """
    replica.log.truncations = 0  # a flush is one step here, so no truncation comes between
    if replica.called_until_ms:
        replica.called_until_ms = _later(replica.called_until_ms)
    own = replica.own
    own.round_ms, own.round_target, own.last_caught_up_ms = 0, FIRST_OFFSET, None
    role = replica.role
    match role:
        case Unattached() | Resigned() | Follower():
            role.election_at_ms = _later(role.election_at_ms)
        case Prospective() | Candidate():
            role.gives_up_at_ms, role.retries = _later(role.gives_up_at_ms), 0
            if isinstance(role, Prospective) and role.retry_at_ms is not None:
                role.retry_at_ms = _later(role.retry_at_ms)
        case Leader():
            for progress in role.progress.values():
                progress.begin_at_ms = _later(progress.begin_at_ms)
                progress.last_caught_up_ms = None
            for parked in role.parked.values():
                parked.until_ms = _later(parked.until_ms)
        case _:
            pass
    if isinstance(role, Follower):
        role.caught_up_at_ms = None
        if role.heard_at_ms is not None and role.heard_at_ms < NOW_MS:
            role.heard_at_ms = None  # as good as never: only freshness is asked for
    if isinstance(role, Unattached | Prospective | Follower | Resigned):
        fetching = role.fetching
        fetching.next_at_ms = _later(fetching.next_at_ms)
        fetching.failures = min(fetching.failures, 1)


Timer = Callable[[Replica], None]


def due_election(replica: Replica) -> None:
    """The election timer of the present role fires."""
    role = replica.role
    match role:
        case Unattached() | Resigned() | Follower():
            role.election_at_ms = NOW_MS
        case Prospective() | Candidate():
            role.gives_up_at_ms = NOW_MS
            if isinstance(role, Prospective) and role.retry_at_ms is not None:
                role.retry_at_ms = NOW_MS
        case _:
            pass


def due_election_released(replica: Replica) -> None:
    """The same, and no replica has called this one for too long (S31)."""
    replica.called_until_ms = 0
    due_election(replica)


def due_fetch(replica: Replica) -> None:
    """The wait before the next Fetch ends."""
    role = replica.role
    if isinstance(role, Unattached | Prospective | Follower | Resigned):
        role.fetching.next_at_ms = NOW_MS


def due_begins(replica: Replica) -> None:
    """The wait before BeginQuorumEpoch is sent again ends."""
    if isinstance(replica.role, Leader):
        for progress in replica.role.progress.values():
            progress.begin_at_ms = NOW_MS


def majority_silent(replica: Replica) -> None:
    """No voter has fetched from this leader for too long (P41)."""
    if isinstance(replica.role, Leader):
        long_ago = NOW_MS - CONFIG.leader_timeout_ms
        replica.role.since_ms = long_ago
        for progress in replica.role.progress.values():
            progress.last_fetch_ms = long_ago


def disk_stalled(replica: Replica) -> None:
    """Nothing of this replica's log became durable for too long (S35)."""
    replica.own.last_fetch_ms = NOW_MS - CONFIG.leader_timeout_ms


def leader_not_fresh(replica: Replica) -> None:
    """This follower has not heard from its leader for a fetch timeout (S9)."""
    if isinstance(replica.role, Follower) and replica.role.heard_at_ms is not None:
        replica.role.heard_at_ms = NOW_MS - CONFIG.fetch_timeout_ms
