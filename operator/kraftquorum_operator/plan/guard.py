"""What a guard is, the table of all of them, and how a plan checks them.

A guard is a function of a `Case` that returns None or why it blocks. Users see its
name in the log, in the status (`waitingFor`, the condition's reason), in the event,
in the metric's label and in docs/reference/guards.md, which is generated from the
guards' docstrings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kraftquorum_operator.model.observation import ReplicaId
from kraftquorum_operator.plan.actions import Wait
from kraftquorum_operator.plan.case import Case

Rule = Callable[[Case], str | None]
Formation = Literal["waits", "blocked"]


@dataclass(frozen=True, slots=True)
class Guard:
    """One rule that can hold an action back.

    Attributes:
        name: under which users see it.
        doc: what it checks, for the reference and the status page.
        rule: says why it blocks; None: it does not.
        needs_person: it blocks until a person acts; reported at once, as a warning.
        alarms: reported at once, as a warning, whether or not a person has to act.
        formation: what it is to a quorum that is not formed yet: `waits` for what comes by
            itself, or `blocked`, which the condition `FormationBlocked` reports; None: neither.
    """

    name: str
    doc: str
    rule: Rule
    needs_person: bool = False
    alarms: bool = False
    formation: Formation | None = None

    def __call__(self, case: Case) -> str | None:
        """Why it blocks; None: it does not."""
        return self.rule(case)


GUARDS: dict[str, Guard] = {}


def guard(
    *, needs_person: bool = False, alarms: bool = False, formation: Formation | None = None
) -> Callable[[Rule], Guard]:
    """Make a guard of a function, under its own name, and enter it into the table."""

    def enter(rule: Rule) -> Guard:
        doc = inspect.getdoc(rule) or ""
        made = Guard(rule.__name__, doc, rule, needs_person, alarms, formation)
        GUARDS[made.name] = made
        return made

    return enter


def needs_person(name: str | None) -> bool:
    """Whether the guard of a name blocks until a person acts."""
    known = GUARDS.get(name or "")
    return known is not None and known.needs_person


def first_block(case: Case, *guards: Guard) -> Wait | None:
    """Ask guards in order and return the wait for the first that blocks."""
    for candidate in guards:
        if (why := candidate(case)) is not None:
            return Wait(candidate.name, why)
    return None


def replica_names(replicas: tuple[ReplicaId, ...]) -> str:
    """Replicas in one line, for a guard's sentence."""
    return ", ".join(str(replica) for replica in replicas)
