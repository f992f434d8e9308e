"""Whether a quorum is safe, in words: one judgement for the page, its order and its JSON.

Pure. The words answer what a person on call must know: whether writes work, whether one more disk
may fail, and whether a person must act.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kraftquorum_operator.memory.status_cache import CachedStatus
from kraftquorum_operator.model.observation import majority
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.plan.guards import needs_person

Level = Literal[
    "lost", "stopped", "unknown", "at-risk", "blocked", "weakened", "forming", "changing", "safe"
]

LEVELS: dict[Level, str] = {
    "lost": "Lost",
    "stopped": "Writes stopped",
    "unknown": "Unknown",
    "at-risk": "At risk",
    "blocked": "Needs a person",
    "weakened": "Weakened",
    "forming": "Forming",
    "changing": "Safe, changing",
    "safe": "Safe",
}
"""Each level's words, worst first."""

GOOD: frozenset[Level] = frozenset({"forming", "changing", "safe"})
"""Levels that need no person."""

RUNBOOKS: dict[Level, str] = {
    "lost": "kraftquorum-quorum-lost",
    "stopped": "kraftquorum-no-leader",
    "unknown": "kraftquorum-operator-not-reconciling",
    "at-risk": "kraftquorum-no-fault-tolerance",
    "blocked": "kraftquorum-guard-blocking",
    "weakened": "kraftquorum-fault-tolerance-reduced",
}
"""The runbook of each level, in docs/operations/runbooks/."""

TROUBLES = frozenset(
    {
        "PodsBlocked",
        "Failing",
        "StorageDamaged",
        "DiskLow",
        "VolumesFailing",
        "ConfigRejected",
        "CertificatesFailing",
    }
)
"""Conditions that weaken a quorum with full fault tolerance."""

PAUSED = "kraftquorum-paused"
DISK_FULL = "kraftquorum-disk-full"

STALE_S = 45.0
"""Reconciliations are at most 10 s or `reconcile_idle_s` apart: see `judge`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement."""

    level: Level
    sentence: str
    read: str | None = None
    """The runbook, if it is not that of the level."""

    @property
    def words(self) -> str:
        """The level in words."""
        return LEVELS[self.level]

    @property
    def runbook(self) -> str | None:
        """Name of the runbook; None if the level needs none."""
        return self.read or RUNBOOKS.get(self.level)

    @property
    def rank(self) -> int:
        """0 is worst."""
        return list(LEVELS).index(self.level)


def judge(entry: CachedStatus[QuorumStatus], now_s: float, stale_s: float = STALE_S) -> Verdict:
    """Judge one quorum.

    Args:
        entry: the cached status.
        now_s: wall clock.
        stale_s: how old an own observation may be.
    """
    status = entry.status
    if status is None:
        return Verdict("unknown", "No operator has reported on this quorum yet.")
    age_s = now_s - entry.at_s
    if entry.own and age_s > stale_s:
        return Verdict(
            "unknown",
            f"The operator has not observed this quorum for {ago(age_s)}; "
            "everything below is that old.",
        )
    return _of_status(status, entry.voters)


def _of_status(status: QuorumStatus, wanted: int) -> Verdict:
    holds = {condition.type for condition in status.conditions if condition.status == "True"}
    if "QuorumLost" in holds:
        return Verdict(
            "lost",
            "A majority of the voters has lost its storage. Writes do not work, and the last "
            "acknowledged records may be lost. A person must decide; delete nothing.",
        )
    if "FormationBlocked" in holds:
        return Verdict(
            "blocked",
            "The operator cannot form this quorum. A person must decide; delete nothing.",
        )
    available = next((c for c in status.conditions if c.type == "Available"), None)
    if available is not None and available.status == "Unknown":
        return Verdict("unknown", f"The operator cannot observe this quorum: {available.message}.")
    if status.phase == "Forming":
        return Verdict("forming", "The operator is forming this quorum; it holds no data yet.")
    if available is not None and available.reason == "DiskLow":
        return Verdict(
            "stopped",
            "The leader's disk is full and no other voter has become the leader, so the leader "
            "refuses writes. Reads work, and no acknowledged record is lost.",
            DISK_FULL,
        )
    if "Available" not in holds:
        return Verdict(
            "stopped",
            "No majority confirms a leader, so no write is acknowledged. Nothing indicates that an "
            "acknowledged record is lost.",
        )
    return _of_available(status, wanted, holds)


def tolerance_of(status: QuorumStatus) -> int:
    """How many voters may fail; counts only caught-up voters that also answer themselves.

    A leader counts a voter for some seconds after its last fetch; this page does not.
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
    if needs_person(status.waiting_for) or "VolumeFromCopy" in holds:
        paused = status.waiting_for == "not_paused"
        read = PAUSED if paused else None
        return Verdict("blocked", f"Writes work. {may_fail(tolerance)} {_person(paused)}", read)
    if tolerance < full:
        return Verdict("weakened", f"Writes work. {may_fail(tolerance)} The target is {full}.")
    if holds & TROUBLES:
        return Verdict("weakened", f"Writes work. {may_fail(tolerance)} See the faults below.")
    if "Ready" not in holds:
        return Verdict("changing", f"Writes work. {may_fail(tolerance)}")
    return Verdict("safe", f"Writes work. {may_fail(tolerance)}")


def _person(paused: bool) -> str:  # noqa: FBT001 - private
    if paused:
        return "The quorum is paused: the operator repairs nothing until you remove spec.pause."
    return "The operator waits for a person."


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
