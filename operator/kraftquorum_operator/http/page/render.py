"""HTML of a view, by a template that escapes everything.

Pure except for the template, which is read once. Every word from a quorum, from Kubernetes or from
a node is text here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import jinja2

from kraftquorum_operator.http.page.verdict import LEVELS, ago
from kraftquorum_operator.http.page.view import JudgedView, KafkaQuorumView, PageView
from kraftquorum_operator.model.status import (
    Operation,
    QuorumStatus,
    ReplicaStatus,
    VoterName,
    VoterStatus,
)
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.report.operations import STEPS

SECTIONS_MAX = 25
"""The first page shows this many quorums in full; the others have pages of their own."""

ROWS_MAX = 1000
"""The first page lists this many quorums; the JSON has all."""

SHOWN_OTHERWISE = frozenset({"Ready", "Available", "Progressing", "Degraded"})
"""Conditions that the verdict and the facts show; the page lists the others while they hold."""

STEP_WORDS = {
    "StartPods": "Start pods",
    "WriteLatch": "Write latch",
    "ElectLeader": "Elect leader",
    "FirstRecords": "First records",
    "EmptyDisk": "Empty disk",
    "StartPod": "Start pod",
    "Join": "Join",
    "CatchUp": "Catch up",
    "AddVoter": "Add voter",
    "RemoveVoter": "Remove voter",
    "EndPod": "End pod",
    "RestartPod": "Restart pod",
}
"""The steps in words."""

OPERATION_WORDS = {
    "Formation": "Forming the quorum",
    "Replacement": "Replacing the disk of",
    "Addition": "Adding voter",
    "Removal": "Removing voter",
    "Restart": "Restarting",
}


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard that blocks, for a reader who does not know the list of guards."""

    name: str
    rule: str
    person: bool


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica: a voter, an observer, or a replica that does not answer."""

    pod: str
    node_id: int
    directory_id: str | None
    role: str
    good: bool
    state: str
    lag: int | None
    heard_ms: int | None
    log_end_offset: int | None
    epoch: int | None
    detail: str


def html(view: PageView, *, root: str, only: JudgedView | None = None) -> str:
    """The whole page.

    Args:
        view: what is shown.
        root: relative path to the first page, e.g. empty or `../../`.
        only: the quorum that the page is about; None: all of them.
    """
    now = datetime.fromisoformat(view.at)

    def age(when: str) -> str:
        try:
            return ago((now - datetime.fromisoformat(when)).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return ""

    both = view.both
    shown = [only] if only else both[:SECTIONS_MAX]
    return _template().render(
        view=view,
        only=only,
        shown=shown,
        number=len(both),
        listed=both[:ROWS_MAX],
        in_full={quorum.anchor for quorum in shown},
        is_kafka=is_kafka,
        root=root,
        age=age,
        clock=clock(now),
        levels=LEVELS,
        guard_of=guard_of,
        replicas_of=replicas_of,
        alarms_of=alarms_of,
        steps_of=steps_of,
        operation_words=OPERATION_WORDS,
    )


def is_kafka(quorum: JudgedView) -> bool:
    """Whether a KafkaQuorum is shown."""
    return isinstance(quorum, KafkaQuorumView)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kraftquorum_operator.http.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}".replace(",", "\u202f")
    return environment.get_template("status.html.j2")


@dataclass(frozen=True, slots=True)
class clock:  # noqa: N801 - called like a function in the template
    """Times of day, with the date if it is not today's."""

    now: datetime

    def __call__(self, when: str) -> str:
        """UTC."""
        try:
            at = datetime.fromisoformat(when).astimezone(UTC)
        except (ValueError, TypeError, OverflowError):
            return when
        return at.strftime("%H:%M:%S" if at.date() == self.now.date() else "%b %d, %H:%M")


def guard_of(status: QuorumStatus) -> Guard | None:
    """The guard that blocks, if one does."""
    name = status.waiting_for
    if name is None:
        return None
    known = GUARDS.get(name)
    rule = known.doc.partition("\n\n")[0] if known else ""
    return Guard(name, rule.replace("`", ""), known is not None and known.needs_person)


def alarms_of(status: QuorumStatus) -> list[tuple[str, str]]:
    """Conditions that report a fault, unless they only repeat the message."""
    return [
        (condition.type, condition.message)
        for condition in status.conditions
        if condition.type not in SHOWN_OTHERWISE
        and condition.status == "True"
        and not status.message.startswith(condition.message[:900])
    ]


def steps_of(operation: Operation) -> list[tuple[str, str]]:
    """Each step in words, with `done`, `now` or `todo`."""
    steps: Sequence[str] = STEPS.get(operation.kind, ())
    return [
        (
            STEP_WORDS.get(step, step),
            "done" if at < operation.number else "now" if at == operation.number else "todo",
        )
        for at, step in enumerate(steps, start=1)
    ]


def replicas_of(status: QuorumStatus) -> list[ReplicaRow]:
    """Every replica: the voters as the leader reports them, then the other replicas."""
    said = {node.node_id: node for node in status.nodes}
    result = [_voter(voter, said.get(voter.node_id), status) for voter in status.voters]
    answer = {(node.node_id, node.directory_id) for node in status.nodes}
    result += [
        _last_known(voter, said.get(voter.node_id), status)
        for voter in status.last_known_voters
        if (voter.node_id, voter.directory_id) not in answer
    ]
    known = {(voter.node_id, voter.directory_id) for voter in status.voters}
    ids = {voter.node_id for voter in (*status.voters, *status.last_known_voters)}
    for node in status.nodes:
        if node.directory_id is None and node.node_id in ids:
            continue  # a silent voter
        if (node.node_id, node.directory_id) not in known:
            result.append(_other(node))
    return sorted(result, key=lambda replica: (replica.node_id, replica.role == "observer"))


def _voter(voter: VoterStatus, node: ReplicaStatus | None, status: QuorumStatus) -> ReplicaRow:
    own = node if node is not None and node.directory_id == voter.directory_id else None
    leads = status.leader is not None and status.leader.directory_id == voter.directory_id
    if own is None and node is not None and node.directory_id is not None:
        state = "this storage is lost"
    elif own is None:
        state = "does not answer"
    elif not voter.committed:
        state = "being added"
    else:
        state = "caught up" if voter.caught_up else "not caught up"
    return ReplicaRow(
        pod=voter.pod,
        node_id=voter.node_id,
        directory_id=voter.directory_id,
        role="leader" if leads else "voter",
        good=voter.caught_up and own is not None,
        state=state,
        lag=voter.lag,
        heard_ms=None if leads else voter.last_fetch_age_ms,
        log_end_offset=own.log_end_offset if own else None,
        epoch=own.epoch if own else None,
        detail=node.detail if node is not None and own is None else "",
    )


def _last_known(voter: VoterName, node: ReplicaStatus | None, status: QuorumStatus) -> ReplicaRow:
    """A voter that does not answer, while no leader reports the voters."""
    replaced = node is not None and node.directory_id is not None
    known = f"as last known at {status.leader_seen_at or 'an unknown time'}"
    detail = node.detail if node is not None and not replaced else ""
    return ReplicaRow(
        pod=voter.pod,
        node_id=voter.node_id,
        directory_id=voter.directory_id,
        role="voter",
        good=False,
        state="a replica with another disk answers" if replaced else "does not answer",
        lag=None,
        heard_ms=None,
        log_end_offset=None,
        epoch=None,
        detail=f"{detail}; {known}" if detail else known,
    )


def _other(node: ReplicaStatus) -> ReplicaRow:
    blank = node.role == "blank"
    return ReplicaRow(
        pod=node.pod,
        node_id=node.node_id,
        directory_id=node.directory_id,
        role="replica" if node.role == "silent" else "blank" if blank else node.role,
        good=False,
        state="does not answer" if node.role == "silent" else "waits to join"
        if blank
        else "not a voter" if node.role == "observer" else "answers",
        lag=None,
        heard_ms=None,
        log_end_offset=node.log_end_offset,
        epoch=node.epoch,
        detail=node.detail,
    )  # fmt: skip
