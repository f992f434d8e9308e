"""Why there is no advice about a quorum: pure checks of what was read, the most basic first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.advice import name
from kraftquorum_operator.kafka.codec.describe_cluster import API as DESCRIBE_CLUSTER
from kraftquorum_operator.kafka.codec.describe_quorum import NO_DIRECTORY, QuorumDescription
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.errors import (
    KafkaAccessError,
    KafkaAuthenticationError,
    KafkaError,
    KafkaTlsError,
    KafkaUnreachableError,
    KafkaVersionError,
)
from kraftquorum_operator.kafka.exit_codes import AdviseExitCode
from kraftquorum_operator.kafka.facts import MappedController, View
from kraftquorum_operator.kafka.query import IDLE_INTERVAL, ROLES
from raftnode.core.types import format_directory_id

QUORUM_VERSION_MIN: Final = 2
"""Of DescribeQuorum: the first with directory ids."""

_BY_ERROR: Final[tuple[tuple[type[KafkaError], AdviseExitCode], ...]] = (
    (KafkaAccessError, AdviseExitCode.ACCESS_DENIED),
    (KafkaAuthenticationError, AdviseExitCode.AUTHENTICATION_FAILED),
    (KafkaTlsError, AdviseExitCode.TLS_FAILED),
    (KafkaVersionError, AdviseExitCode.TOO_OLD),
    (KafkaUnreachableError, AdviseExitCode.UNREACHABLE),
)
"""Exit code by the kind of failure; any other is NOT_KAFKA."""

_ORDER: Final = (
    AdviseExitCode.ACCESS_DENIED,
    AdviseExitCode.AUTHENTICATION_FAILED,
    AdviseExitCode.TLS_FAILED,
    AdviseExitCode.TOO_OLD,
    AdviseExitCode.NOT_KAFKA,
    AdviseExitCode.UNREACHABLE,
)
"""Of several failures, the first of these is reported: what a person can fix."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no advice: the exit code and one line."""

    code: AdviseExitCode
    text: str


def refusal_of(
    view: View, wanted: Sequence[MappedController], cluster_id: str | None
) -> Refusal | None:
    """The first check that fails; None: the view may be judged."""
    refusal = _unusable(view) or _wrong_cluster(view, cluster_id)
    if refusal is not None:
        return refusal
    if view.quorum is None:
        return _no_leader(view)
    return (
        _unsupported(view, view.quorum)
        or _mismatch(view, view.quorum, wanted)
        or (None if view.confirmed else _unconfirmed(view))
    )


def located(address: Address, error: KafkaError) -> str:
    """The error's text, which names the address."""
    text = str(error)
    return text if str(address) in text else f"{address}: {text}"


def _code(error: KafkaError) -> AdviseExitCode:
    return next(
        (code for kind, code in _BY_ERROR if isinstance(error, kind)), AdviseExitCode.NOT_KAFKA
    )


def _failure(view: View) -> Refusal | None:
    refusals = [
        Refusal(_code(error), located(address, error)) for address, error in view.failures.items()
    ]
    return min(refusals, key=lambda refusal: _ORDER.index(refusal.code), default=None)


def _unusable(view: View) -> Refusal | None:
    if view.quorum is None and (failure := _failure(view)) is not None and not view.nodes:
        return failure
    for node in view.nodes:
        version = node.quorum_version
        if version < QUORUM_VERSION_MIN or not node.changes_voters:
            spoken = "in no version" if version < 0 else f"v{version}"
            return Refusal(
                AdviseExitCode.TOO_OLD,
                f"{node.address} speaks DescribeQuorum {spoken} and "
                f"{'' if node.changes_voters else 'no '}AddRaftVoter: Kafka 3.9 or later is needed "
                f"(DescribeQuorum v{QUORUM_VERSION_MIN})",
            )
    return None


def _wrong_cluster(view: View, cluster_id: str | None) -> Refusal | None:
    known = {node.address: node.cluster_id for node in view.nodes if node.cluster_id is not None}
    for address, actual in known.items():
        if cluster_id is not None and actual != cluster_id:
            return Refusal(
                AdviseExitCode.OTHER_CLUSTER,
                f"{address} belongs to cluster {actual}: cluster {cluster_id} is wanted",
            )
    if len(set(known.values())) > 1:
        listed = ", ".join(f"{address} to {actual}" for address, actual in known.items())
        return Refusal(
            AdviseExitCode.OTHER_CLUSTER,
            f"the controllers belong to different clusters: {listed}; give those of one",
        )
    if cluster_id is not None and view.nodes and not known:
        return Refusal(
            AdviseExitCode.ACCESS_DENIED,
            "the cluster id cannot be read: DescribeCluster of controllers needs the permission "
            f"{DESCRIBE_CLUSTER.permission}; grant it, or ask for no cluster id",
        )
    return None


def _no_leader(view: View) -> Refusal:
    failure = _failure(view)
    if failure is not None and failure.code != AdviseExitCode.UNREACHABLE:
        return failure
    leaders = sorted({node.leader_id for node in view.nodes if node.leader_id >= 0})
    if leaders:
        text = f"the leader is controller {leaders[0]}, which did not answer: give its address"
    else:
        text = f"none of {len(view.nodes)} controllers that answered leads or knows a leader"
    return Refusal(AdviseExitCode.NO_LEADER, text)


def _unsupported(view: View, quorum: QuorumDescription) -> Refusal | None:
    leader = next(node for node in view.nodes if node.quorum is not None)
    if max(node.kraft_version for node in view.nodes) == 0:
        return Refusal(
            AdviseExitCode.STATIC_QUORUM,
            "kraft.version is 0, so the voters of controller.quorum.voters are static and cannot "
            "be changed; from Kafka 4.1 on, kafka-features upgrade --feature kraft.version=1",
        )
    for node in view.nodes:
        roles = {role.strip() for role in node.config.get(ROLES, "").split(",")}
        if "broker" in roles:
            return Refusal(
                AdviseExitCode.COMBINED_MODE,
                f"{node.address} has process.roles={node.config[ROLES]}: controllers that are "
                "brokers, too, are not supported; run controllers of their own",
            )
    unnamed = [voter.node_id for voter in quorum.voters if voter.directory_id == NO_DIRECTORY]
    if unnamed:
        return Refusal(
            AdviseExitCode.DIRECTORY_IDS_UNKNOWN,
            f"{leader.address} reports no directory id of voters {unnamed}: what disk they have is "
            "not known, so nothing can be said of a replacement",
        )
    if quorum.leader_id not in {voter.node_id for voter in quorum.voters}:
        return Refusal(
            AdviseExitCode.UNCONFIRMED,
            f"leader {quorum.leader_id} is no voter and about to resign: check again",
        )
    return None


def _mismatch(
    view: View, quorum: QuorumDescription, wanted: Sequence[MappedController]
) -> Refusal | None:
    problem = _map_problem(view, quorum, wanted) if wanted else ""
    return Refusal(AdviseExitCode.ID_MAP_MISMATCH, f"id map: {problem}") if problem else None


def _map_problem(view: View, quorum: QuorumDescription, wanted: Sequence[MappedController]) -> str:
    for node in view.nodes:
        if node.misnamed:
            return f"{node.address}: {node.misnamed}"
    mapped = {controller.node_id: controller for controller in wanted}
    for voter in quorum.voters:
        controller = mapped.get(voter.node_id)
        if controller is None:
            return f"voter {name(voter)} is not in it; voters are {_ids(quorum)}"
        expected = controller.directory_id
        if expected is not None and expected != voter.directory_id:
            return (
                f"voter {voter.node_id} has directory {format_directory_id(voter.directory_id)}: "
                f"the map has {format_directory_id(expected)}; if it was replaced on purpose, "
                "change the map"
            )
    return ""


def _ids(quorum: QuorumDescription) -> list[int]:
    return sorted(voter.node_id for voter in quorum.voters)


def _unconfirmed(view: View) -> Refusal:
    idle = [node.config.get(IDLE_INTERVAL) for node in view.nodes]
    if "0" in idle:
        hint = (
            f"{IDLE_INTERVAL} is 0, so no records come by themselves; set it to 500, Kafka's "
            "default, or check while metadata change"
        )
    else:
        hint = f"no majority acknowledges, or {IDLE_INTERVAL} is 0; check again"
    return Refusal(
        AdviseExitCode.UNCONFIRMED, f"cannot be confirmed: {view.unconfirmed_reason}; {hint}"
    )
