"""An action in a world."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """An action on one replica or on one message.

    `detail` holds the other choices: the message's number, which unsynced writes are lost, which
    voter a change names.
    """

    kind: str
    index: int
    detail: int = 0
    variant: str = ""
