"""What shows that a peer's storage was restored from an old copy (S3)."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.types import Epoch, Offset


@dataclass(frozen=True, slots=True)
class LowerStart:
    """The peer's start has a lower number than the last start that was seen here."""

    incarnation: int
    last_incarnation: int


@dataclass(frozen=True, slots=True)
class UnknownStart:
    """The last start that was seen here is not among the starts of the peer's storage."""

    last_incarnation: int


@dataclass(frozen=True, slots=True)
class ShorterLog:
    """The peer's log ends below what it had acknowledged, and that is committed."""

    log_end: Offset
    acknowledged: Offset


@dataclass(frozen=True, slots=True)
class LowerEpoch:
    """The peer is in a lower epoch than it had shown; it may have forgotten a vote."""

    epoch: Epoch
    last_epoch: Epoch


Staleness = LowerStart | UnknownStart | ShorterLog | LowerEpoch
