"""Whether a quorum is safe, in words: one judgement for the page, its order and its JSON.

Pure. The words speak of what a person must know at night: do writes work, may one more disk
fail, is somebody needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kraftquorum_operator.board import Seen
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.observe.snapshot import majority
from kraftquorum_operator.report.conditions import NEEDS_PERSON

Level = Literal[
    "lost", "stopped", "unknown", "at-risk", "blocked", "weakened", "forming", "changing", "safe"
]

LEVELS: dict[Level, str] = {
    "lost": "Lost",
    "stopped": "Writes stopped",
    "unknown": "Not known",
    "at-risk": "At risk",
    "blocked": "Needs a person",
    "weakened": "Weakened",
    "forming": "Forming",
    "changing": "Safe, changing",
    "safe": "Safe",
}
"""Each level's words, worst first."""

GOOD: frozenset[Level] = frozenset({"forming", "changing", "safe"})
"""Levels at which nobody needs to look."""

RUNBOOKS: dict[Level, str] = {
    "lost": "kraftquorum-quorum-lost",
    "stopped": "kraftquorum-no-leader",
    "unknown": "kraftquorum-operator-not-looking",
    "at-risk": "kraftquorum-no-fault-tolerance",
    "blocked": "kraftquorum-guard-blocking",
    "weakened": "kraftquorum-fault-tolerance-reduced",
}
"""Where to read on, in docs/operations/runbooks/."""

TROUBLES = frozenset(
    {"PodsBlocked", "Failing", "StorageDamaged", "DiskLow", "VolumesFailing", "ConfigRejected"}
)
"""Conditions that weaken a quorum though as many voters may fail as could."""

PAUSED = "kraftquorum-paused"
DISK_FULL = "kraftquorum-disk-full"

STALE_S = 45.0
"""A look comes every 10 s at most, or as often as `reconcile_idle_s` says: see `judge`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement."""

    level: Level
    sentence: str
    read: str | None = None
    """The runbook, where it is not the level's own."""

    @property
    def words(self) -> str:
        """The level in words."""
        return LEVELS[self.level]

    @property
    def runbook(self) -> str | None:
        """Name of the runbook; None where nobody needs one."""
        return self.read or RUNBOOKS.get(self.level)

    @property
    def rank(self) -> int:
        """0 is worst."""
        return list(LEVELS).index(self.level)


def judge(seen: Seen, now_s: float, stale_s: float = STALE_S) -> Verdict:
    """Judge one quorum.

    Args:
        seen: what the board holds.
        now_s: wall clock.
        stale_s: how old an own observation may be.
    """
    status = seen.status
    if status is None:
        return Verdict("unknown", "No operator has reported anything about it yet.")
    age_s = now_s - seen.at_s
    if seen.own and age_s > stale_s:
        return Verdict(
            "unknown",
            f"The operator has not been able to look at it for {ago(age_s)}; "
            "everything below is as old as that.",
        )
    return _of_status(status, seen.voters)


def _of_status(status: QuorumStatus, wanted: int) -> Verdict:
    holds = {condition.type for condition in status.conditions if condition.status == "True"}
    if "QuorumLost" in holds:
        return Verdict(
            "lost",
            "A majority of the voters has lost its storage. Nothing can be written, and what was "
            "written last may be gone. A person must decide; delete nothing.",
        )
    if "FormationBlocked" in holds:
        return Verdict("blocked", "It cannot be formed. A person must decide; delete nothing.")
    available = next((one for one in status.conditions if one.type == "Available"), None)
    if available is not None and available.status == "Unknown":
        return Verdict("unknown", f"The operator cannot see how it is: {available.message}.")
    if status.phase == "Forming":
        return Verdict("forming", "It is being formed and holds no data yet.")
    if available is not None and available.reason == "DiskLow":
        return Verdict(
            "stopped",
            "The leader's disk is full and no other voter has taken over, so no write is taken. "
            "Reading works, and nothing acknowledged is lost.",
            DISK_FULL,
        )
    if "Available" not in holds:
        return Verdict(
            "stopped",
            "No leader is confirmed by a majority, so no write is acknowledged. There is no sign "
            "that anything acknowledged is lost.",
        )
    return _of_available(status, wanted, holds)


def tolerance_of(status: QuorumStatus) -> int:
    """How many voters may fail: of those that are caught up and also answer for themselves.

    A leader counts a voter for seconds after it was last heard from; a person should not.
    """
    answers = {(node.node_id, node.directory_id) for node in status.nodes}
    well = sum(v.caught_up and (v.node_id, v.directory_id) in answers for v in status.voters)
    return max(0, min(status.fault_tolerance, well - majority(len(status.voters))))


def _of_available(status: QuorumStatus, wanted: int, holds: set[str]) -> Verdict:
    full = wanted - majority(wanted) if wanted else 0
    tolerance = tolerance_of(status)
    if tolerance == 0 and full > 0:
        return Verdict(
            "at-risk",
            "Writes work and nothing is lost, but one more failure would stop writes.",
        )
    if status.waiting_for in NEEDS_PERSON or "VolumeFromCopy" in holds:
        paused = status.waiting_for == "not_paused"
        read = PAUSED if paused else None
        return Verdict("blocked", f"Writes work. {may_fail(tolerance)} {_person(paused)}", read)
    if tolerance < full:
        return Verdict("weakened", f"Writes work. {may_fail(tolerance)} Wanted are {full}.")
    if holds & TROUBLES:
        return Verdict(
            "weakened", f"Writes work. {may_fail(tolerance)} Something is wrong: see below."
        )
    if "Ready" not in holds:
        return Verdict("changing", f"Writes work. {may_fail(tolerance)}")
    return Verdict("safe", f"Writes work. {may_fail(tolerance)}")


def _person(paused: bool) -> str:  # noqa: FBT001 - private
    if paused:
        return "It is paused: nothing is repaired until spec.pause is taken away."
    return "It waits for a person."


def may_fail(tolerance: int) -> str:
    """How many voters may fail, as a sentence."""
    if tolerance <= 0:
        return "No voter may fail."
    return "1 voter may fail." if tolerance == 1 else f"{tolerance} voters may fail."


def ago(seconds: float) -> str:
    """A duration in a word or two: `40 s`, `3 min`, `5 h`, `2 d`."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 172_800 else f"{whole // 86_400} d"
