"""The guard of access control: a new quorum never serves without the access file that it wants."""

from __future__ import annotations

from kraftquorum_operator.judge.access import access_obstacle, is_access_missing
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guard import guard


@guard(needs_person=True, formation="blocked")
def access_file_written(case: Case) -> str | None:
    """An access file can be made of `spec.access`.

    Asked before the operator creates the StatefulSet. Each entry must be usable: its Secret must
    exist and have a token under its key, and no two clients may be known by the same token or name.
    A quorum that serves keeps its pods and their access file until then.
    """
    if not is_access_missing(case.spec, case.observation):
        return None
    why = access_obstacle(case.observation)
    return f"{why[1] if why else 'there is no access file'}; no node starts until this is fixed"
