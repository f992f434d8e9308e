"""How the leader and a new disk find each other (KIP-856's discovery, S5; decision 27).

A blank replica sends Fetches without a cluster id to its bootstrap servers and to the leader that
they name. The leader lists it among the observers, so that AddVoter can name it, and sends it no
records. The replica takes the cluster id only from a leader that was asked to make it a voter: the
administrator who names (id, UUID) says which cluster it belongs to. An address alone never does,
because it may lead to another cluster.
"""

from __future__ import annotations

from raftnode.core.effects import PersistClusterId
from raftnode.core.elections import epoch_rules
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import Blank, Leader
from raftnode.core.types import ReplicaKey


def handle_announcement(
    replica: Replica, role: Leader, request_id: int, source: ReplicaKey, request: FetchRequest
) -> None:
    """Note a blank replica; tell it to join if it is to become a voter.

    A voter is never blank: a Fetch that says so is delayed from before its formation, or its
    storage was put back. It proves nothing about the voter, and the voter must not join twice.
    Until its removal is committed, the next leader may still count its votes and acknowledgements.
    """
    is_stranger = source != replica.key and not replica.may_be_voter(source)
    join = None
    if request.replica == source and is_stranger and _note(replica, role, source, request):
        join = replica.cluster_id if epoch_rules.counts(replica, source) else None
    error = ErrorCode.INCONSISTENT_CLUSTER_ID if join is None else ErrorCode.NONE
    response = FetchResponse(error, replica.epoch, replica.key, replica.endpoint, join=join)
    replica.respond(request_id, response)


def _note(replica: Replica, role: Leader, source: ReplicaKey, request: FetchRequest) -> bool:
    """Note an announcement; False: there is no room, or a later message has come already."""
    if not leadership.has_room_to_list(replica, role, source):
        return False
    progress = leadership.progress_of(replica, role, source)
    if request.incarnation <= progress.incarnation and request.sequence <= progress.sequence:
        return False
    if progress.has_asked or progress.fenced:
        return False  # it has fetched with a cluster id, which no storage ever loses
    progress.announced_ms = replica.now_ms
    progress.incarnation, progress.sequence = request.incarnation, request.sequence
    progress.endpoint = request.endpoint or progress.endpoint
    progress.raft_version_max = request.raft_version_max
    return True


def take_answer(replica: Replica, role: Blank, source: ReplicaKey, response: FetchResponse) -> None:
    """Follow the hint to the leader; join its cluster if the leader itself asks for it."""
    role.fetching.next_at_ms = replica.now_ms + replica.config.announce_interval_ms
    leader = response.leader
    if leader is not None and leader.node_id == replica.key.node_id:
        leader = None  # S1: the address of an earlier disk of this node leads back here
    if role.leader_hint is None and leader not in {None, source}:
        role.fetching.next_at_ms = replica.now_ms  # replicas that name each other: at leisure
    role.leader_hint = leader
    if response.error == ErrorCode.NONE and response.join is not None and leader == source:
        _join(replica, response.join, source)


def _join(replica: Replica, cluster_id: str, leader: ReplicaKey) -> None:
    """Leave the role Blank as an observer of a cluster."""
    replica.cluster_id = cluster_id
    replica.emit(PersistClusterId(cluster_id))
    replica.fact("cluster_joined", cluster_id=cluster_id, leader=str(leader))
    first = replica.first_election_deadline()
    replica.become_unattached(replica.epoch, election_at_ms=first)
