"""The output of `kafka advise`: the same facts as lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from kraftquorum_operator.kafka.advice import Advice, Kind, Standing
from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription
from kraftquorum_operator.kafka.facts import View
from kraftquorum_operator.kafka.query import AUTO_JOIN
from kraftquorum_operator.kafka.refusals import located
from raftnode.core.types import format_directory_id

Json = dict[str, object]

COLUMNS = ("ROLE", "ID", "DIRECTORY", "LOG END", "LAG", "LAST FETCH", "FRESH", "MAY BE LOST")


def rows(advice: Advice, leader_id: int) -> list[Json]:
    """Each replica as JSON: voters, then observers."""
    return [
        {
            "role": role,
            "node_id": standing.state.node_id,
            "directory_id": format_directory_id(standing.state.directory_id),
            "log_end_offset": standing.state.log_end_offset,
            "lag": standing.lag,
            "last_fetch_age_ms": standing.silent_ms,
            "fresh": standing.fresh,
            "may_be_lost": standing.may_be_lost,
        }
        for role, standing in _roles(advice, leader_id)
    ]


def document(view: View, quorum: QuorumDescription, advice: Advice) -> Json:
    """All of it as JSON; fields may be added."""
    return {
        "cluster_id": next((node.cluster_id for node in view.nodes if node.cluster_id), None),
        "leader_id": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "confirmed": view.confirmed,
        "replicas": rows(advice, quorum.leader_id),
        "spare_voters": advice.spare,
        "safe_to_lose_a_voter": advice.safe,
        "advice": advice.kind.name,
        "advice_text": advice.text,
        "remove": _key(advice, "remove"),
        "add": _key(advice, "add"),
        "notes": list(notes(view)),
    }


def lines(view: View, quorum: QuorumDescription, advice: Advice) -> Iterator[str]:
    """All of it as text."""
    cluster_id = next((node.cluster_id for node in view.nodes if node.cluster_id), "unknown")
    yield (
        f"cluster {cluster_id}, leader {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}, confirmed by a majority"
    )
    table = [COLUMNS, *(_row(*row) for row in _roles(advice, quorum.leader_id))]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for note in notes(view):
        yield f"note: {note}"
    if advice.safe:
        yield f"safe: {advice.spare} of {len(advice.voters)} voters may be lost or replaced now"
    else:
        yield "not safe: the loss of one more fresh voter stops the quorum"
    if advice.kind is Kind.NOTHING:
        yield f"nothing to do: {advice.text}"
    else:
        yield f"the operator would {_VERBS[advice.kind]}: {advice.text}"


_VERBS = {
    Kind.WAIT: "wait",
    Kind.PROVIDE: "ask for a controller",
    Kind.REPLACE: "replace a voter",
    Kind.ADD: "add a voter",
    Kind.DECISION_NEEDED: "do nothing, a person must decide",
}


def notes(view: View) -> Iterator[str]:
    """What a person should know besides."""
    for address, error in view.failures.items():
        yield located(address, error)
    for permission in sorted({p for node in view.nodes for p in node.permissions_missing}):
        yield (
            f"the principal lacks the permission {permission}: what depends on it was not checked"
        )
    unread = [str(node.address) for node in view.nodes if not node.config]
    if unread:
        yield (
            f"the settings of {', '.join(unread)} were not read, so combined mode and automatic "
            "joins were not checked there"
        )
    if any(node.config.get(AUTO_JOIN) == "true" for node in view.nodes):
        yield f"{AUTO_JOIN} is true: Kafka itself replaces a voter whose directory is another one"


def _key(advice: Advice, role: str) -> Json | None:
    state = advice.remove if role == "remove" else advice.add
    if state is None:
        return None
    return {
        "node_id": state.node_id,
        "directory_id": format_directory_id(state.directory_id),
    }


def _roles(advice: Advice, leader_id: int) -> list[tuple[str, Standing]]:
    return [
        *(
            ("leader" if voter.state.node_id == leader_id else "voter", voter)
            for voter in advice.voters
        ),
        *(("observer", observer) for observer in advice.observers),
    ]


def _row(role: str, standing: Standing) -> tuple[str, ...]:
    state = standing.state
    return (
        role,
        str(state.node_id),
        format_directory_id(state.directory_id),
        str(state.log_end_offset),
        "unknown" if standing.lag is None else str(standing.lag),
        "none" if standing.silent_ms is None else f"{standing.silent_ms} ms ago",
        "yes" if standing.fresh else "no",
        "" if role == "observer" else "yes" if standing.may_be_lost else "no",
    )
