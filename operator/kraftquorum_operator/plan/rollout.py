"""Restarts pods whose template changed: followers one by one, the leader last.

The operator restarts a pod only while every voter is caught up, so that one pod at a time is down
and a template that does not start stops at the first pod. It does not wait for an outdated pod that
is down anyway: repair (`replacement.py`) recreates it, so that a fixed template replaces a bad one.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import Pod
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Action, Wait
from kraftquorum_operator.plan.guards import Case, Guard, first_block
from kraftquorum_operator.plan.replacement import is_outdated, move_leadership
from kraftquorum_operator.plan.restart import restart

TEMPLATE: tuple[Guard, ...] = (guards.config_accepted, guards.certificates_usable)
"""Asked whether or not a pod is outdated."""

RESTART: tuple[Guard, ...] = (
    guards.formation_complete,
    guards.confirmed_voters_required,
    guards.one_voter_change_at_a_time,
    guards.all_voters_caught_up,
)
"""Asked before a pod is restarted for its template."""


def next_outdated(case: Case) -> Pod | None:
    """The outdated pod that is restarted next; None: no pod is outdated."""
    quorum = case.observation.quorum
    outdated = [pod for pod in case.observation.pods if is_outdated(case, pod)]
    if quorum is None or not outdated:
        return None
    return min(outdated, key=lambda p: (p.ordinal == quorum.leader.node_id, p.ready, -p.ordinal))


def roll(case: Case) -> Action | Wait | None:
    """Restart the next outdated pod, if all voters are caught up; None if none is outdated.

    If nodes would refuse the settings or the certificates, this waits, whether or not a pod is
    outdated.
    """
    refused = first_block(case, *TEMPLATE)
    if refused is not None:
        return refused
    quorum, pod = case.observation.quorum, next_outdated(case)
    if quorum is None or pod is None:
        return None
    leads = pod.ordinal == quorum.leader.node_id
    old = quorum.leader if leads else None
    subject = Case(case.spec, case.observation, case.now_ms, ordinal=pod.ordinal, old=old)
    wait = first_block(subject, *RESTART)
    if wait is not None:
        return wait
    if case.must_resign(quorum.leader) and leads and len(quorum.voters) > 1:
        return move_leadership(subject)
    if pod.terminating:
        return first_block(subject, guards.node_answers)
    return restart(subject, pod, "its template is outdated")


def await_tls(case: Case) -> Wait | None:
    """Between two restarts of all nodes, on the way to TLS or back."""
    return first_block(case, guards.tls_level_reached)
