"""What is said of a quorum: the advice, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraftquorum_operator.kafka.advice import Advice, Limits, advise
from kraftquorum_operator.kafka.facts import MappedController, View
from kraftquorum_operator.kafka.refusals import Refusal, refusal_of


@dataclass(frozen=True, slots=True)
class Judgement:
    """A view, judged.

    Attributes:
        view: what was read.
        outcome: the advice on the confirmed description, or why there is none.
    """

    view: View
    outcome: Advice | Refusal


def judge(
    view: View, wanted: Sequence[MappedController], cluster_id: str | None, limits: Limits
) -> Judgement:
    """Judge what was read.

    Args:
        view: what was read.
        wanted: the id map; empty: the current voters.
        cluster_id: that the controllers must have; None: any.
        limits: what is fresh and what is silent.
    """
    refusal = refusal_of(view, wanted, cluster_id)
    if refusal is not None:
        return Judgement(view, refusal)
    quorum = view.confirmed_quorum
    return Judgement(view, advise(quorum, view.earlier or quorum, wanted, limits))
