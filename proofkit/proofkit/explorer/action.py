"""One thing that may happen in a world."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that happens to one replica, or to a message.

    `detail` tells apart what else is open: the message's number, which unsynced writes
    are lost, which voter a change names.
    """

    kind: str
    index: int
    detail: int = 0
    variant: str = ""
