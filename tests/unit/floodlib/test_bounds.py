"""A flood may take so much from other clients, and no more."""

from __future__ import annotations

from floodlib.bounds import breaches
from floodlib.figures import Figures, Waits


def figures(kind: str, before_s: float, during_s: float, worst_s: float = 1.4) -> Figures:
    before, calm = Waits(50, before_s, before_s), Waits(50, 0.001, 0.001)
    during = Waits(200, during_s, max(during_s, worst_s))
    return Figures(kind, "other addresses", 2000, before, during, calm, calm, 0)


def test_the_median_is_bounded_by_what_the_flood_does() -> None:
    for kind, before_s, within_s, beyond_s in (
        ("idle", 0.05, 0.24, 0.26),
        ("idle", 0.004, 0.09, 0.11),
        ("idle", 0.9, 0.99, 1.01),
        ("requests", 0.004, 0.99, 1.01),
    ):
        assert list(breaches(figures(kind, before_s, within_s))) == []
        texts = list(breaches(figures(kind, before_s, beyond_s)))
        assert [text.partition(" took")[0] for text in texts] == ["the median write"]


def test_the_longest_call_is_bounded_for_the_operator_too() -> None:
    assert list(breaches(figures("idle", 0.01, 0.01, worst_s=3.9))) == []
    slow = figures("idle", 0.01, 0.01, worst_s=4.1)
    assert [*breaches(slow)] == ["the longest write took 4.10 s, at most 4 s"]
    turned = Figures(
        slow.kind, slow.against, 2000,
        slow.describes_before, slow.describes, slow.writes_before, slow.writes, 0,
    )  # fmt: skip
    assert [*breaches(turned)] == ["the longest describe took 4.10 s, at most 4 s"]
