"""What a guard is, the table of all of them, and how they are asked.

A guard is a function of a `Case` that returns None or why it blocks. Users see its
name in the log, in the status (`waitingFor`, the condition's reason), in the event,
in the metric's label and in docs/reference/guards.md, which is generated from the
guards' docstrings.
"""

from __future__ import annotations

from collections.abc import Callable

from kraftquorum_operator.observe.snapshot import Replica
from kraftquorum_operator.plan.actions import Wait
from kraftquorum_operator.plan.case import Case

Guard = Callable[[Case], str | None]
GUARDS: dict[str, Guard] = {}


def guard(function: Guard) -> Guard:
    """Enter a guard into the table, under its own name."""
    GUARDS[function.__name__] = function
    return function


def first_block(case: Case, *guards: Guard) -> Wait | None:
    """Ask guards in order and return the wait for the first that blocks."""
    for candidate in guards:
        if (why := candidate(case)) is not None:
            return Wait(candidate.__name__, why)
    return None


def replica_names(replicas: tuple[Replica, ...]) -> str:
    """Replicas in one line, for a guard's sentence."""
    return ", ".join(str(replica) for replica in replicas)
