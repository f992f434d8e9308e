"""What every condition of a status has: when it last changed, its generation and its limits. Pure.

What must not live here: which conditions there are, and whether they hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kraftquorum_operator.model.status import Condition

REASON_MAX = 128
MESSAGE_MAX = 4000
"""A condition's reason and message are cut to so many characters."""

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of a status, and the generation that it is about."""

    now: str
    generation: int
    last_answer_at: str | None = None
    """When a replica last answered this operator; None: not since this operator started."""

    def condition(
        self, name: str, status: Truth, reason: str, message: str, before: Iterable[Condition]
    ) -> Condition:
        """A condition to report; its time changes only with its status.

        Args:
            name: its type.
            status: whether it holds.
            reason: one word.
            message: the reason in words.
            before: the conditions of the previous status.
        """
        last = next((condition for condition in before if condition.type == name), None)
        return Condition(
            type=name,
            status=status,
            reason=reason[:REASON_MAX],
            message=message[:MESSAGE_MAX],
            last_transition_time=last.last_transition_time
            if last is not None and last.status == status
            else self.now,
            observed_generation=self.generation,
        )


def camel(name: str) -> str:
    """A guard's name as a condition's reason."""
    return "".join(part.capitalize() for part in name.split("_"))
