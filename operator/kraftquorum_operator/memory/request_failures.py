"""Failed requests of the operator: reported after two failures in a row.

A single lost answer is common, and so are several conflicts in a row: another client was faster,
and the next reconciliation starts from the current state. Losing this state costs one
reconciliation, never safety.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from kraftquorum_operator.errors import STALE_BASIS, ConflictError, KubeError, NodeRefusedError
from kraftquorum_operator.model.observation import Observation

REPORTED_AFTER = 2
CONFLICTS_REPORTED_AFTER = 5
"""This many conflicts in a row are reported."""

_WORD = re.compile(r"[A-Za-z]\w{0,99}")
"""Admission webhooks may give any text as reason, also one too long for a condition."""


def word(error: Exception) -> str:
    """The error as a condition's reason: that of Kubernetes or of the node, if there is one."""
    reason = ""
    if isinstance(error, KubeError):
        reason = error.reason
    elif isinstance(error, NodeRefusedError):
        reason = error.error
    return reason if _WORD.fullmatch(reason) else type(error).__name__.removesuffix("Error")


def is_conflict(error: Exception) -> bool:
    """Whether another client was faster, so that the next reconciliation decides again."""
    if isinstance(error, NodeRefusedError):
        return error.error in {"STALE_VOTER_RECORD", STALE_BASIS}
    return isinstance(error, ConflictError)


class Failure(NamedTuple):
    """Why an action failed."""

    reason: str
    """A condition's reason."""
    message: str
    conflict: bool = False
    refused: bool = False
    """The API server does not allow it, or does not keep it."""


@dataclass(slots=True)
class Failures:
    """The last failure, and how many there were in a row."""

    last: tuple[str, str] | None = None
    count: int = 0
    reported_after: int = REPORTED_AFTER

    def failed(self, reason: str, message: str, *, conflict: bool = False) -> None:
        """Record a failure, as a condition's reason and message."""
        self.last, self.count = (reason, message), self.count + 1
        self.reported_after = CONFLICTS_REPORTED_AFTER if conflict else REPORTED_AFTER

    @property
    def passing(self) -> bool:
        """Whether the last failure is a conflict that a retry may resolve."""
        return self.reported_after > self.count and self.reported_after == CONFLICTS_REPORTED_AFTER

    def clear(self) -> None:
        """Forget the failures: an action succeeded, or none is left to do."""
        self.last, self.count = None, 0

    def mark(self, observation: Observation) -> Observation:
        """Put the failure into the observation, if it lasts."""
        return replace(
            observation,
            failure=self.last if self.count >= self.reported_after else observation.failure,
        )
