"""Medians over rounds, and how far the rounds lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, with the lowest and the highest value that it stands for."""

    median: float
    lowest: float
    highest: float


def spread(values: Sequence[float]) -> Spread:
    """Median and limits of at least one value.

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("no round was measured: there is no median")
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], peer: Sequence[float]) -> list[float]:
    """Ours through the peer's, by rounds: both were measured one after the other in each.

    Raises:
        ValueError: the rounds do not pair up, or the peer did nothing in one of them.
    """
    if len(ours) != len(peer):
        raise ValueError(f"{len(ours)} rounds of ours and {len(peer)} of the peer do not pair up")
    if not all(value > 0 for value in peer):
        raise ValueError("the peer did nothing in a round: there is no ratio")
    return [mine / other for mine, other in zip(ours, peer, strict=True)]


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies; they come in order.

    Raises:
        ValueError: there is no value.
    """
    if not ordered:
        raise ValueError("no operation was answered: there is no latency")
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
