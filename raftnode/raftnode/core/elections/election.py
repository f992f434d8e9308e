"""Elections: candidates, votes and results (P5-P11, P40, S7, S9, S31; KIP-996's pre-vote)."""

from __future__ import annotations

from raftnode.core.elections import epoch_rules
from raftnode.core.messages import EndQuorumEpochRequest, ErrorCode, VoteRequest, VoteResponse
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import (
    Blank,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, ReplicaKey


def has_fresh_leader(replica: Replica) -> bool:
    """Whether the replica heard a leader so lately that it wants no other (S9)."""
    match replica.role:
        case Leader():
            return True  # it resigns by itself once a majority stays away (P41)
        case Follower(heard_at_ms=int(heard_at_ms)):
            return replica.now_ms - heard_at_ms < replica.config.fetch_timeout_ms
        case _:
            return False


def _withholds_votes(replica: Replica) -> bool:
    """Whether the replica has a leader, or has promised a leader not to vote (S9, S33)."""
    return has_fresh_leader(replica) or replica.now_ms < replica.promised_until_ms


def handle_vote(
    replica: Replica, request_id: int, source: ReplicaKey, request: VoteRequest
) -> None:
    """Answer a request for a vote or a pre-vote (P8)."""
    error, granted = _judge(replica, source, request)
    # A leader that is not fresh is no reason to stay away from the election.
    leader = replica.leader if has_fresh_leader(replica) else None
    replica.respond(request_id, VoteResponse(error, replica.epoch, leader, granted))


def _judge(replica: Replica, source: ReplicaKey, request: VoteRequest) -> tuple[ErrorCode, bool]:
    if isinstance(replica.role, Blank):
        return ErrorCode.INCONSISTENT_CLUSTER_ID, False
    if request.voter != replica.key:
        return ErrorCode.INVALID_VOTER_KEY, False  # P10, S1
    if request.candidate != source:
        return ErrorCode.INVALID_REQUEST, False
    if request.epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH, False
    if request.pre_vote:
        return ErrorCode.NONE, _judge_pre_vote(replica, request)
    if _withholds_votes(replica):
        return ErrorCode.NONE, False  # S9: ignored, its epoch too
    return ErrorCode.NONE, _judge_vote(replica, request)


def _judge_pre_vote(replica: Replica, request: VoteRequest) -> bool:
    """Return whether the vote would be granted. Changes nothing, with two exceptions.

    A voter of this set that asks with a higher epoch has persisted that epoch in a failed election.
    It can never again follow a leader of a lower epoch, so this replica adopts the epoch and a new
    election frees the voter. A replica that is no voter here cannot cause that (S9, KAFKA-17030).
    And this replica, if its log is longer, is called to start an election (S31).
    """
    if epoch_rules.believed(replica, request.candidate, request.epoch, None):
        replica.become_unattached(request.epoch, election_at_ms=replica.first_election_deadline())
    if _withholds_votes(replica):
        return False
    if request.last < replica.log.position:
        _be_called(replica, request.candidate)
        return False
    return True


def _be_called(replica: Replica, candidate: ReplicaKey) -> None:
    """Note that a candidate counts this replica among its voters, and that it must refuse (S31).

    If that candidate, whose set need not be ours, cannot win without this replica, no voter can:
    then the replica with the longest log has to start an election, even as an observer. It waits
    long enough for a voter to win without it, and is released when it is not asked again.
    """
    if replica.may_stand or not replica.log.voters:
        return
    if not replica.is_called:
        replica.fact("election_call_received", candidate=str(candidate))
        match replica.role:
            case Unattached() | Follower() | Resigned() as role:
                role.election_at_ms = max(role.election_at_ms, replica.first_election_deadline())
            case _:
                pass  # its election of an earlier call is not over
    config = replica.config
    # A candidate that cannot win asks again within half of this.
    lasts_ms = 2 * (config.election_timeout_ms + config.election_backoff_max_ms)
    replica.called_until_ms = replica.now_ms + lasts_ms


def _judge_vote(replica: Replica, request: VoteRequest) -> bool:
    """Grant at most one vote an epoch, to a candidate whose log is no shorter (P8)."""
    state = replica.state if request.epoch == replica.epoch else QuorumState(request.epoch)
    if state.voted is not None or state.leader is not None:
        return state.voted == request.candidate and state.leader is None
    if request.last < replica.log.position:
        if epoch_rules.believed(replica, request.candidate, request.epoch, None):
            replica.become_unattached(request.epoch, election_at_ms=_keep_deadline(replica))
        return False
    replica.persist(QuorumState(request.epoch, None, request.candidate))
    # The elected leader gets the time to announce itself.
    replica.become_unattached(request.epoch)
    replica.fact("vote_granted", candidate=str(request.candidate))
    return True


def _keep_deadline(replica: Replica) -> int:
    """The deadline of the present election timer: a refused candidate must not put it off."""
    match replica.role:
        case Unattached(election_at_ms=at) | Follower(election_at_ms=at):
            return max(at, replica.now_ms)
        case _:
            return replica.first_election_deadline()


def stand(replica: Replica, *, retries: int = 0) -> None:
    """Become prospective and ask every other voter of the own set for its pre-vote."""
    role = Prospective(replica.now_ms + replica.config.election_timeout_ms, retries)
    replica.become(role)
    if replica.is_voter:
        role.granted.add(replica.key)
    _ask_all(replica, replica.epoch, pre_vote=True)
    _count(replica)


def campaign(replica: Replica, *, retries: int = 0) -> None:
    """Raise the epoch, vote for this replica if it is a voter, and ask for real votes (P7)."""
    epoch = Epoch(max(replica.epoch, 0) + 1)
    own = replica.key if replica.is_voter else None  # S7, S8: it never counts itself
    replica.persist(QuorumState(epoch, None, own))
    role = Candidate(replica.now_ms + replica.config.election_timeout_ms, retries)
    replica.become(role)
    if own is not None:
        role.granted.add(own)
    _ask_all(replica, epoch, pre_vote=False)
    _count(replica)


def _ask_all(replica: Replica, epoch: Epoch, *, pre_vote: bool) -> None:
    last = replica.log.position
    for voter in replica.log.voters:
        if voter != replica.key:
            replica.send(voter, VoteRequest(epoch, replica.key, voter, last, pre_vote))


def handle_vote_response(
    replica: Replica, source: ReplicaKey, request: VoteRequest, response: VoteResponse
) -> None:
    """Count an answer to the election under way; ignore an answer to any other (P11)."""
    if epoch_rules.believed(replica, source, response.epoch, response.leader):
        _adopt(replica, response)
        return
    role = replica.role
    if request.epoch != replica.epoch or not isinstance(role, Prospective | Candidate):
        return
    if request.pre_vote != isinstance(role, Prospective):
        return
    if isinstance(role, Prospective) and not response.granted:
        hint = response.leader  # the own address leads nowhere else, whatever the UUID (S1)
        own = hint is not None and hint.node_id == replica.key.node_id
        role.leader_hint = None if own else hint
    if source != request.voter or source not in replica.log.voters:
        return
    (role.granted if response.granted else role.denied).add(source)
    _count(replica)


def _adopt(replica: Replica, response: VoteResponse) -> None:
    if response.leader is not None and response.leader != replica.key:
        replica.become_follower(response.epoch, response.leader)
    else:
        replica.become_unattached(response.epoch, election_at_ms=replica.first_election_deadline())


def _count(replica: Replica) -> None:
    role, voters = replica.role, replica.log.voters
    assert isinstance(role, Prospective | Candidate)  # noqa: S101
    granted = sum(voter in role.granted for voter in voters)
    denied = sum(voter in role.denied for voter in voters)
    if granted >= voters.majority:
        if isinstance(role, Prospective):
            campaign(replica, retries=role.retries)
        else:
            leadership.become_leader(replica, frozenset(role.granted))
    elif len(voters) - denied < voters.majority:
        _back_off(replica, role)  # P11: a majority is impossible


def _back_off(replica: Replica, role: Prospective | Candidate) -> None:
    """Wait a random while, then ask for pre-votes again (P40)."""
    retry_at = replica.now_ms + replica.backoff(role.retries)
    match role:
        case Prospective():
            if role.retry_at_ms is None:
                role.retry_at_ms = retry_at
        case Candidate():
            waiting = Prospective(retry_at, role.retries + 1, retry_at_ms=retry_at)
            replica.become(waiting)


def withdraw(replica: Replica) -> None:
    """Give up an election, because the process exits; a candidate says so (P17, S17)."""
    role = replica.role
    if not isinstance(role, Prospective | Candidate):
        return
    if isinstance(role, Candidate):
        others = tuple(key for key in replica.log.voters if key != replica.key)
        for voter in others:
            replica.send(voter, EndQuorumEpochRequest(replica.epoch, None, voter, others))
    replica.become_unattached(replica.epoch)


def election_deadline(replica: Replica) -> int | None:
    """When the present role's election timer is due; not while the replica must not vote (S33)."""
    due = _election_at(replica)
    if due is None or due >= replica.promised_until_ms:
        return due
    # Replicas that started together promised for as long: their elections must not coincide.
    return replica.promised_until_ms + due % replica.config.election_backoff_max_ms


def _election_at(replica: Replica) -> int | None:
    match replica.role:
        case (
            Unattached(election_at_ms=at)
            | Follower(election_at_ms=at)
            | Resigned(election_at_ms=at)
        ):
            return at if _may_start(replica) else None
        case Prospective(gives_up_at_ms=at, retry_at_ms=retry):
            return at if retry is None else retry
        case Candidate(gives_up_at_ms=at):
            return at
        case _:
            return None


def _may_start(replica: Replica) -> bool:
    """Whether the replica may start an election; a stalled disk stores no vote (S35)."""
    return (replica.may_stand or replica.is_called) and not replica.has_stalled_disk


def on_election_time(replica: Replica) -> None:
    """Act on a due election timer."""
    match replica.role:
        case Unattached(transfer=True):
            campaign(replica)
        case Unattached() | Follower() | Resigned():
            stand(replica)
        case Prospective(retry_at_ms=None) as role:
            _back_off(replica, role)
        case Prospective(retries=retries):
            if _may_start(replica):
                stand(replica, retries=retries + 1)
            else:
                replica.become_unattached(replica.epoch)
        case Candidate() as role:
            _back_off(replica, role)
        case _:
            pass
