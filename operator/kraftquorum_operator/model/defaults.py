"""Which of the operator's defaults hold for a quorum.

A later operator has other defaults for what a resource leaves open. A quorum keeps those that it
was made with: an upgrade of the operator restarts no node and locks out no client.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftquorum_operator import names
from kraftquorum_operator.model.observation import Claim, StatefulSet


def defaults_of(statefulset: StatefulSet | None, claims: Iterable[Claim]) -> str | None:
    """The mark of the defaults that hold for a quorum; None: none of them.

    The StatefulSet has the mark in its claim template, which cannot be changed. Before there is a
    StatefulSet, or after it was deleted, the claims have it. Without claims, the quorum is new. If
    a claim has no mark, none of the defaults hold. A claim of another resource says nothing.
    """
    if statefulset is not None:
        return statefulset.defaults
    ours = [claim for claim in claims if not claim.foreign_owner or claim.doubtful]
    marks = {claim.defaults for claim in ours} or {names.DEFAULTS}
    return marks.pop() if len(marks) == 1 else None
