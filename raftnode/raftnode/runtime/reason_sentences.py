"""The sentences for the core's reasons: in errors, DescribeQuorum and log lines (decision 40)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from raftnode.core.reasons.halts import (
    HaltReason,
    Place,
    StorageFenced,
    TruncationBelowHighWatermark,
    UnknownRaftVersion,
    UnlistedVoterIds,
)
from raftnode.core.reasons.refusals import (
    AlreadyVoter,
    AmbiguousId,
    AnotherTargetWaits,
    AnotherUpgradeWaits,
    AssignmentChanged,
    CannotTakeOver,
    DiskFull,
    Fenced,
    FixedVoters,
    FormationIncomplete,
    IdListedTwice,
    IdNotConfigured,
    LastOfItsId,
    LastVoter,
    LeadershipEnded,
    LeadershipEndedBeforeCommit,
    NeverFetched,
    NeverLowered,
    NotAVoter,
    NotCommittedInTime,
    NotListed,
    NotStartedInTime,
    NotTheLeader,
    OtherCluster,
    Reason,
    ReassignmentPending,
    TargetNeedsVersion,
    TooManyChanges,
    TooMuchUncommitted,
    TransferUnderWay,
    UnknownId,
    UnknownVersion,
    VotersChanged,
)
from raftnode.core.reasons.staleness import (
    LowerEpoch,
    LowerStart,
    ShorterLog,
    Staleness,
    UnknownStart,
)
from raftnode.core.reasons.waits import (
    AnsweringMajority,
    Awaited,
    BlockedSteps,
    CatchUp,
    CatchUpOfAll,
    CaughtUpMajority,
    NewerPrograms,
    SuccessorLeadership,
    SuccessorLog,
    Wait,
)
from raftnode.core.types import ReplicaKey


def refusal(reason: Reason) -> str:
    """Say why a request is not done, and what to do about it."""
    match reason:
        case NotTheLeader():
            return "this replica is not the leader"
        case LeadershipEnded():
            return "leadership was lost"
        case LeadershipEndedBeforeCommit(appended):
            return (
                f"leadership was lost with the record at offset {appended} not yet committed: "
                "describe the quorum to see the result"
            )
        case TransferUnderWay(successor):
            return f"the leader is transferring leadership to {successor}"
        case CannotTakeOver(wanted, able):
            subject = "the other voters" if wanted is None else wanted
            return f"{subject} cannot take over now; caught up are: {_listed(able) or 'none'}"
        case FormationIncomplete():
            return (
                "the quorum is being formed: the leader accepts writes once every voter has the "
                "voter records"
            )
        case DiskFull():
            return "the leader's disk is full"
        case TooMuchUncommitted(size):
            return f"{size} bytes are appended and not yet committed: ask again later"
        case NotStartedInTime(waited_for):
            return f"not started in time; it waited for: {wait(waited_for)}"
        case NotCommittedInTime(appended):
            return f"the record at offset {appended} is not committed yet"
        case VotersChanged(expected, now):
            return (
                "the voters changed since they were read: expected the record at offset "
                f"{expected.offset} of epoch {expected.epoch}, but the voter set in "
                f"force comes from offset {now.offset} of epoch {now.epoch}; describe the quorum "
                "and decide again"
            )
        case AlreadyVoter(key):
            return f"{key} is already a committed voter"
        case NotAVoter(key, voters):
            return f"{key} is not a voter; the voters are {voters}"
        case NeverFetched(key):
            return f"{key} is not an observer: it has not fetched from this leader"
        case Fenced(key):
            return f"{key} is fenced: it lost records that it had acknowledged"
        case LastVoter(key):
            return f"{key} is the last voter and cannot be removed"
        case TooManyChanges(waiting):
            return f"{waiting} voter changes are waiting already; ask again later"
        case ReassignmentPending(target):
            return (
                f"the leader is reassigning the voters to {target}; replace that target or cancel "
                "it first"
            )
        case TargetNeedsVersion(raft_version, needed):
            return f"the quorum is at raft.version {raft_version}; upgrade it to {needed} first"
        case AnotherTargetWaits(target):
            return f"another target is waiting already: {target}"
        case AmbiguousId(node_id, candidates):
            return f"{node_id} is one of {_sorted(candidates)}: give its directory id"
        case UnknownId(node_id):
            return (
                f"{node_id}: no voter has this id, and no replica of this id fetches from the "
                "leader"
            )
        case IdListedTwice():
            return "a node id is in the target twice; list it once"
        case AssignmentChanged(now):
            return (
                "the voters or their target changed since they were read: the newest record is at "
                f"offset {now.offset} of epoch {now.epoch}; describe the quorum and decide again"
            )
        case FixedVoters():
            return "the quorum is at raft.version 0, whose voters never change; upgrade it first"
        case IdNotConfigured(node_id, voters):
            return (
                f"the quorum is at raft.version 1, and {node_id} is not one of the ids of its "
                f"voters {voters}; upgrade it to 2 first"
            )
        case LastOfItsId(key):
            return (
                f"the quorum is at raft.version 1, and {key} is the only voter of its id; add its "
                "successor first, or upgrade to 2"
            )
        case UnknownVersion(version, known):
            return f"this program knows raft.version 0 to {known}, not {version}"
        case NeverLowered(raft_version):
            return f"the quorum is at raft.version {raft_version}, which is never lowered"
        case AnotherUpgradeWaits(version):
            return f"an upgrade to raft.version {version} is waiting already"
        case OtherCluster(cluster_id):
            return f"this storage belongs to cluster {cluster_id} already"
        case NotListed(key, voters):
            return f"{key} is not one of the voters {voters}"
        case _:
            assert_never(reason)


def halt(reason: HaltReason) -> str:
    """Say why the node stops."""
    match reason:
        case TruncationBelowHighWatermark(end, high_watermark):
            return (
                f"asked to truncate to {end}, below the high watermark {high_watermark}: "
                "committed records would be lost; the log or the leader is damaged"
            )
        case StorageFenced(leader):
            return (
                f"the leader {leader} saw this replica acknowledge more than it has now. Its "
                "storage was restored from an old copy, so its votes and acknowledgements are not "
                "reliable; replace this replica"
            )
        case UnknownRaftVersion(place, raft_version, known):
            return (
                f"{_PLACES[place]} is at raft.version {raft_version}, but this program knows "
                f"versions up to {known}: run a newer one"
            )
        case UnlistedVoterIds(place, node_ids):
            return (
                f"{_PLACES[place]} is at raft.version 1 and adds {sorted(node_ids)}, ids that are "
                "not among the configured voters"
            )
        case _:
            assert_never(reason)


def staleness(reason: Staleness) -> str:
    """Say what a replica whose storage was restored from an old copy has forgotten."""
    match reason:
        case LowerStart(incarnation, last_incarnation):
            return f"its start number is {incarnation}, but start {last_incarnation} was seen here"
        case UnknownStart(last_incarnation):
            return f"start {last_incarnation}, which was seen here, is not one of its starts"
        case ShorterLog(log_end, acknowledged):
            return (
                f"its log ends at {log_end}, but it had acknowledged up to {acknowledged}, which "
                "is committed"
            )
        case LowerEpoch(epoch, last_epoch):
            return f"it is in epoch {epoch}, but it had been in epoch {last_epoch}"
        case _:
            assert_never(reason)


def wait(waiting_for: Wait) -> str:
    """Name what has to happen first: "it waits for …"."""
    match waiting_for:
        case Awaited():
            return _AWAITED[waiting_for]
        case CatchUp(key):
            return f"{key} to catch up"
        case CaughtUpMajority(able, of, needed):
            return f"a caught-up majority after the change: {able} of {of}, {needed} needed"
        case AnsweringMajority(answered, of, needed):
            return f"a majority after the change to answer: {answered} of {of}, {needed} needed"
        case CatchUpOfAll(missing):
            return f"all voters to catch up: {_listed(missing)} not"
        case NewerPrograms(version, replicas):
            return f"programs that know raft.version {version} on {_sorted(replicas)}"
        case SuccessorLog(successor):
            return f"{successor} to have the whole log, before it takes leadership"
        case SuccessorLeadership(successor):
            return f"{successor} to take leadership"
        case BlockedSteps(steps):
            return "; ".join(f"{step.kind} {step.key}: {wait(step.waiting_for)}" for step in steps)
        case _:
            assert_never(waiting_for)


_PLACES: dict[Place, str] = {"log": "the log", "snapshot": "the leader's snapshot"}

_AWAITED = {
    Awaited.LEADER: "the leader to begin it",
    Awaited.VOTER_CHANGE_COMMIT: "the last voter change to be committed",
    Awaited.VERSION_COMMIT: "the new raft.version to be committed",
    Awaited.UPGRADE_COMMIT: "the last upgrade to be committed",
    Awaited.OWN_EPOCH_COMMIT: "an entry of the leader's own epoch to be committed",
    Awaited.ASSIGNMENT_COMMIT: (
        "the last change of the voters, their target or the version to be committed"
    ),
    Awaited.STEP_COMMIT: "the voter change in progress to be committed",
    Awaited.VOTING_LEADER: "a leader that is a voter",
    Awaited.SUCCESSOR: "a caught-up voter of the target, to transfer leadership to",
    Awaited.TRANSFER_PAUSE: "the pause before the next attempt to transfer leadership",
    Awaited.MAJORITY: "a majority of the voters to commit it",
    Awaited.NEW_MAJORITY: "a majority of the new voters to commit it",
}


def _listed(keys: Iterable[ReplicaKey]) -> str:
    return ", ".join(str(key) for key in keys)


def _sorted(keys: Iterable[ReplicaKey]) -> str:
    return ", ".join(sorted(str(key) for key in keys))
