"""What the operator asks for and does not get: told once it has failed twice in a row.

One conflict or one lost answer is everyday; the next look mends it. Losing this costs a look,
never safety.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kraftquorum_operator.errors import KubeError, NodeRefusedError
from kraftquorum_operator.observe.snapshot import Snapshot

TOLD_AFTER = 2

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


@dataclass(slots=True)
class Failures:
    """What failed last, and how often in a row."""

    last: tuple[str, str] | None = None
    count: int = 0

    def failed(self, reason: str, message: str) -> None:
        """Note a failure: a reason in one word, and a sentence."""
        self.last, self.count = (reason, message), self.count + 1

    def ended(self) -> None:
        """What was asked for was done, or nothing is asked for any more."""
        self.last, self.count = None, 0

    def mark(self, seen: Snapshot) -> Snapshot:
        """Put it into the observation, if it lasts."""
        return replace(seen, failure=self.last if self.count >= TOLD_AFTER else None)
