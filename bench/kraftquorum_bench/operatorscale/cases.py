"""The cases of a run: how many quorums, over how many namespaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One case, on an API server of its own.

    Attributes:
        quorums: how many.
        namespaces: over how many namespaces they are spread.
    """

    quorums: int
    namespaces: int = 1

    @property
    def name(self) -> str:
        """Of the case, in files and messages."""
        return f"{self.quorums} in {self.namespaces}"

    def place(self, number: int) -> tuple[str, str]:
        """Namespace and name of a quorum, from its number."""
        return f"bench-{number % self.namespaces}", f"q{number}"


@dataclass(frozen=True, slots=True)
class Times:
    """How long the parts of a case take.

    Attributes:
        settle_s: from the last quorum that runs until the rest is measured.
        rest_s: how long the rest is measured.
        single_losses: how many quorums lose a disk one after the other.
        losses_at_once: how many lose one at the same time, at most.
        form_s: how long all quorums may take to form.
        repair_s: how long all replacements may take.
    """

    settle_s: float = 45
    rest_s: float = 120
    single_losses: int = 20
    losses_at_once: int = 100
    form_s: float = 1800
    repair_s: float = 900


QUICK = Times(settle_s=30, rest_s=60, single_losses=5)
SIZES: dict[str, tuple[Case, ...]] = {
    "quick": (Case(10), Case(50)),
    "whole": (Case(10), Case(50), Case(200), Case(200, 10), Case(200, 100)),
    "full": (
        *(Case(number) for number in (10, 50, 200, 500, 1000)),
        *(Case(500, namespaces) for namespaces in (10, 100, 500)),
    ),
}


def times_of(size: str) -> Times:
    """The times of a size."""
    return QUICK if size == "quick" else Times()
