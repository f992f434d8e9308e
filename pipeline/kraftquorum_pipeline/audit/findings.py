"""The findings of an audit and its verdict. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SHOWN_MAX = 100
"""The most findings kept of each check; a replica can differ in a million places."""


class Check(StrEnum):
    """The rules, with the names that reports, tests and the documentation use."""

    READABLE = "readable"
    """Batches have sensible headers, and records decode."""
    CRC = "crc"
    """Each batch has the checksum that its header says."""
    OFFSETS = "offsets"
    """Offsets follow each other up to the durable end: none is missing, none is there twice."""
    EPOCHS = "epochs"
    """Epochs never go back, and are those of `leader-epoch-checkpoint`."""
    LOG_MATCHING = "log_matching"
    """Records of the same offset and epoch have the same bytes, and so have all below them."""
    COMMITTED_PREFIX = "committed_prefix"
    """Committed records are the same on all replicas, and a majority of the voters has them."""
    ONE_LEADER = "one_leader"
    """An epoch has one leader and begins with the record of that leader."""
    VOTER_SETS = "voter_sets"
    """Each voter set differs from the one before it by one replica."""
    SNAPSHOTS = "snapshots"
    """A snapshot is whole, and equals the state of the log up to its offset."""
    IDENTITY = "identity"
    """One directory id, one cluster, one directory each (S1, S2)."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a replica's files.

    Attributes:
        offset: the offset of the record; -1: not known, or the whole file.
        replica: the name of its directory.
        file: the path as the user gave it.
        position: the byte in the file; -1: the whole file.
        holds: what is there, in words; "" if there is nothing to report.
    """

    offset: int = -1
    replica: str = ""
    file: str = ""
    position: int = -1
    holds: str = ""

    def __str__(self) -> str:
        byte = f" at byte {self.position}" if self.position >= 0 else ""
        holds = f": {self.holds}" if self.holds else ""
        return f"{self.replica} {self.file}{byte}{holds}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule.

    Attributes:
        check: the rule.
        place: the place in the files.
        reason: what is wrong.
        others: what other replicas have at that offset.
    """

    check: Check
    place: Place
    reason: str
    others: tuple[Place, ...] = ()

    @property
    def order(self) -> tuple[int, Place, str]:
        """The sort key: findings by offset, findings without an offset last."""
        known = self.place.offset if self.place.offset >= 0 else 1 << 62
        return known, self.place, self.check

    def lines(self) -> list[str]:
        """The finding as lines of text: the rule, the place, and what other replicas have."""
        offset = f"offset {self.place.offset}: " if self.place.offset >= 0 else ""
        lines = [f"[{self.check}] {offset}{self.reason}", f"    {self.place}"]
        return lines + [f"    {other}" for other in self.others]


@dataclass(slots=True)
class Verdict:
    """The result of an audit.

    Attributes:
        replicas: what each replica holds, by name.
        committed_end: one past the last offset known to be committed.
        findings: broken rules, the first divergence first, at most `SHOWN_MAX` of a check.
        counts: the number of all findings, by check.
        notes: facts that are not faults and are worth knowing.
        unchecked: what the audit could not check, and why; it may be damaged.
        checked: how much each check has read.
    """

    replicas: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    committed_end: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[str] = field(default_factory=list[str])
    unchecked: list[str] = field(default_factory=list[str])
    checked: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def ok(self) -> bool:
        """Whether the audit found no broken rule."""
        return not self.counts

    @property
    def word(self) -> str:
        """`ok`, `incomplete` (no finding, but not everything was checked) or `damaged`."""
        if not self.ok:
            return "damaged"
        return "incomplete" if self.unchecked else "ok"

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings, each once: the same finding about the same place counts once."""
        for finding in findings:
            count = self.counts.get(finding.check, 0)
            if count and any(known == finding for known in self.findings):
                continue
            self.counts[finding.check] = count + 1
            if count < SHOWN_MAX:
                self.findings.append(finding)
        self.findings.sort(key=lambda finding: finding.order)

    def as_json(self) -> dict[str, Any]:
        """The verdict for programs; docs/howto/audit.md says what each check means."""
        return {
            "verdict": self.word,
            "committed_end": self.committed_end,
            "first_divergence": asdict(self.findings[0]) if self.findings else None,
            "findings": [asdict(finding) for finding in self.findings],
            "counts": self.counts,
            "unchecked": self.unchecked,
            "notes": self.notes,
            "checked": self.checked,
            "replicas": self.replicas,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }
