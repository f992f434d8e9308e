"""Errors of the state machine.

raftnode.errors.ProtocolHaltError
└── OffsetGapError    records between the applied ones and this one are missing
"""

from __future__ import annotations

from raftnode.core.types import Offset
from raftnode.errors import ProtocolHaltError


class OffsetGapError(ProtocolHaltError):
    """A record was offered before the one that precedes it: the state would be a guess.

    Attributes:
        expected: the offset that must be applied next.
        offered: the offset that was offered.
    """

    def __init__(self, expected: Offset, offered: Offset) -> None:
        super().__init__(
            f"the state machine must apply offset {expected} next, but got offset {offered}"
        )
        self.expected = expected
        self.offered = offered
