"""What the operator asks for and does not get: reported once it has failed twice in a row.

One lost answer is everyday, and so are some conflicts in a row: another writer was faster, and
the next look starts from what is there now. Losing this costs a look, never safety.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from kraftquorum_operator.errors import ConflictError, KubeError, NodeRefusedError
from kraftquorum_operator.observe.snapshot import Snapshot

TOLD_AFTER = 2
CONFLICTS_TOLD_AFTER = 5
"""A conflict in each of so many tries in a row is none that passes by itself."""

_WORD = re.compile(r"[A-Za-z]\w{0,99}")
"""Admission webhooks may give any text as reason, longer than a condition's may be."""


def word(error: Exception) -> str:
    """The error in one word, for a condition's reason: Kubernetes' own where there is one."""
    told = ""
    if isinstance(error, KubeError):
        told = error.reason
    elif isinstance(error, NodeRefusedError):
        told = error.error
    return told if _WORD.fullmatch(told) else type(error).__name__.removesuffix("Error")


def is_conflict(error: Exception) -> bool:
    """Whether another writer was faster, so that the next look decides again."""
    if isinstance(error, NodeRefusedError):
        return error.error == "STALE_VOTER_RECORD"
    return isinstance(error, ConflictError)


class Failure(NamedTuple):
    """Why an action was not done."""

    reason: str
    """In one word."""
    message: str
    conflict: bool = False


@dataclass(slots=True)
class Failures:
    """What failed last, and how often in a row."""

    last: tuple[str, str] | None = None
    count: int = 0
    told_after: int = TOLD_AFTER

    def failed(self, reason: str, message: str, *, conflict: bool = False) -> None:
        """Note a failure: a reason in one word, and a sentence."""
        self.last, self.count = (reason, message), self.count + 1
        self.told_after = CONFLICTS_TOLD_AFTER if conflict else TOLD_AFTER

    @property
    def passing(self) -> bool:
        """Whether the last failure is a conflict that may pass by itself."""
        return self.told_after > self.count and self.told_after == CONFLICTS_TOLD_AFTER

    def ended(self) -> None:
        """What was asked for was done, or nothing is asked for any more."""
        self.last, self.count = None, 0

    def mark(self, seen: Snapshot) -> Snapshot:
        """Put it into the observation, if it lasts."""
        return replace(seen, failure=self.last if self.count >= self.told_after else seen.failure)
