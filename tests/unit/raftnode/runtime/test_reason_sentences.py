"""Each reason of the core has its sentence, which administrators and their scripts read."""

import typing
import uuid

import pytest

from raftnode.core.reasons import halts, refusals, staleness, waits
from raftnode.core.reasons.waits import Awaited
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey, Voter, VoterRecordId, VoterSet
from raftnode.runtime import reason_sentences

ONE, TWO, TEN = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2, 10))
VOTERS = VoterSet.of([Voter(ONE), Voter(TWO)])
OLD, NOW = VoterRecordId(Offset(3), Epoch(1)), VoterRecordId(Offset(7), Epoch(2))

REFUSALS = [
    (refusals.NotTheLeader(), "this replica is not the leader"),
    (refusals.LeadershipEnded(), "leadership was lost"),
    (
        refusals.LeadershipEndedBeforeCommit(Offset(7)),
        (
            "leadership was lost with the record at offset 7 not yet committed: "
            "describe the quorum to see the result"
        ),
    ),
    (refusals.TransferUnderWay(TWO), f"the leader is transferring leadership to {TWO}"),
    (
        refusals.CannotTakeOver(None, ()),
        "the other voters cannot take over now; caught up are: none",
    ),
    (
        refusals.CannotTakeOver(ONE, (TWO, TEN)),
        f"{ONE} cannot take over now; caught up are: {TWO}, {TEN}",
    ),
    (
        refusals.FormationIncomplete(),
        (
            "the quorum is being formed: the leader accepts writes once every voter has the voter "
            "records"
        ),
    ),
    (refusals.DiskFull(), "the leader's disk is full"),
    (
        refusals.TooMuchUncommitted(8),
        "8 bytes are appended and not yet committed: ask again later",
    ),
    (
        refusals.NotStartedInTime(waits.CatchUp(TWO)),
        f"not started in time; it waited for: {TWO} to catch up",
    ),
    (refusals.NotCommittedInTime(Offset(7)), "the record at offset 7 is not committed yet"),
    (
        refusals.VotersChanged(OLD, NOW),
        (
            "the voters changed since they were read: expected the record at offset 3 of epoch 1, but "
            "the voter set in force comes from offset 7 of epoch 2; describe the quorum and decide "
            "again"
        ),
    ),
    (refusals.AlreadyVoter(TWO), f"{TWO} is already a committed voter"),
    (refusals.NotAVoter(TEN, VOTERS), f"{TEN} is not a voter; the voters are {VOTERS}"),
    (
        refusals.NeverFetched(TEN),
        f"{TEN} is not an observer: it has not fetched from this leader",
    ),
    (refusals.Fenced(TEN), f"{TEN} is fenced: it lost records that it had acknowledged"),
    (refusals.LastVoter(ONE), f"{ONE} is the last voter and cannot be removed"),
    (refusals.TooManyChanges(2), "2 voter changes are waiting already; ask again later"),
    (
        refusals.ReassignmentPending(VOTERS),
        f"the leader is reassigning the voters to {VOTERS}; replace that target or cancel it first",
    ),
    (
        refusals.TargetNeedsVersion(1, needed=2),
        "the quorum is at raft.version 1; upgrade it to 2 first",
    ),
    (refusals.AnotherTargetWaits(VOTERS), f"another target is waiting already: {VOTERS}"),
    (
        refusals.AmbiguousId(NodeId(2), frozenset({TWO, TEN})),
        f"2 is one of {TEN}, {TWO}: give its directory id",
    ),
    (
        refusals.UnknownId(NodeId(9)),
        "9: no voter has this id, and no replica of this id fetches from the leader",
    ),
    (refusals.IdListedTwice(), "a node id is in the target twice; list it once"),
    (
        refusals.AssignmentChanged(NOW),
        (
            "the voters or their target changed since they were read: the newest record is at offset 7 "
            "of epoch 2; describe the quorum and decide again"
        ),
    ),
    (
        refusals.FixedVoters(),
        "the quorum is at raft.version 0, whose voters never change; upgrade it first",
    ),
    (
        refusals.IdNotConfigured(NodeId(10), VOTERS),
        (
            "the quorum is at raft.version 1, and 10 is not one of the ids of its voters "
            f"{VOTERS}; upgrade it to 2 first"
        ),
    ),
    (
        refusals.LastOfItsId(TWO),
        (
            f"the quorum is at raft.version 1, and {TWO} is the only voter of its id; add its "
            "successor first, or upgrade to 2"
        ),
    ),
    (refusals.UnknownVersion(3, known=2), "this program knows raft.version 0 to 2, not 3"),
    (refusals.NeverLowered(2), "the quorum is at raft.version 2, which is never lowered"),
    (refusals.AnotherUpgradeWaits(1), "an upgrade to raft.version 1 is waiting already"),
    (refusals.OtherCluster("c"), "this storage belongs to cluster c already"),
    (refusals.NotListed(TEN, VOTERS), f"{TEN} is not one of the voters {VOTERS}"),
]

WAITS = [
    (Awaited.LEADER, "the leader to begin it"),
    (Awaited.VOTER_CHANGE_COMMIT, "the last voter change to be committed"),
    (Awaited.VERSION_COMMIT, "the new raft.version to be committed"),
    (Awaited.UPGRADE_COMMIT, "the last upgrade to be committed"),
    (Awaited.OWN_EPOCH_COMMIT, "an entry of the leader's own epoch to be committed"),
    (
        Awaited.ASSIGNMENT_COMMIT,
        "the last change of the voters, their target or the version to be committed",
    ),
    (Awaited.STEP_COMMIT, "the voter change in progress to be committed"),
    (Awaited.VOTING_LEADER, "a leader that is a voter"),
    (Awaited.SUCCESSOR, "a caught-up voter of the target, to transfer leadership to"),
    (Awaited.TRANSFER_PAUSE, "the pause before the next attempt to transfer leadership"),
    (Awaited.MAJORITY, "a majority of the voters to commit it"),
    (Awaited.NEW_MAJORITY, "a majority of the new voters to commit it"),
    (waits.CatchUp(TWO), f"{TWO} to catch up"),
    (
        waits.CaughtUpMajority(2, of=4, needed=3),
        "a caught-up majority after the change: 2 of 4, 3 needed",
    ),
    (
        waits.AnsweringMajority(1, of=2, needed=2),
        "a majority after the change to answer: 1 of 2, 2 needed",
    ),
    (waits.CatchUpOfAll((TWO, TEN)), f"all voters to catch up: {TWO}, {TEN} not"),
    (
        waits.NewerPrograms(2, frozenset({TWO, TEN})),
        f"programs that know raft.version 2 on {TEN}, {TWO}",
    ),
    (
        waits.SuccessorLog(TWO),
        f"{TWO} to have the whole log, before it takes leadership",
    ),
    (waits.SuccessorLeadership(TWO), f"{TWO} to take leadership"),
    (
        waits.BlockedSteps(
            (
                waits.BlockedStep("remove", ONE, waits.CaughtUpMajority(1, of=2, needed=2)),
                waits.BlockedStep("add", TEN, Awaited.VOTER_CHANGE_COMMIT),
            )
        ),
        (
            f"remove {ONE}: a caught-up majority after the change: 1 of 2, 2 needed; "
            f"add {TEN}: the last voter change to be committed"
        ),
    ),
]


HALTS = [
    (
        halts.TruncationBelowHighWatermark(Offset(3), Offset(7)),
        (
            "asked to truncate to 3, below the high watermark 7: committed records would be lost; the "
            "log or the leader is damaged"
        ),
    ),
    (
        halts.StorageFenced(TWO),
        (
            f"the leader {TWO} saw this replica acknowledge more than it has now. Its storage was "
            "restored from an old copy, so its votes and acknowledgements are not reliable; replace "
            "this replica"
        ),
    ),
    (
        halts.UnknownRaftVersion("log", 3, known=2),
        "the log is at raft.version 3, but this program knows versions up to 2: run a newer one",
    ),
    (
        halts.UnknownRaftVersion("snapshot", 3, known=2),
        (
            "the leader's snapshot is at raft.version 3, but this program knows versions up to 2: run "
            "a newer one"
        ),
    ),
    (
        halts.UnlistedVoterIds("log", frozenset({NodeId(10), NodeId(2)})),
        (
            "the log is at raft.version 1 and adds [2, 10], ids that are not among the configured "
            "voters"
        ),
    ),
    (
        halts.UnlistedVoterIds("snapshot", frozenset({NodeId(3)})),
        (
            "the leader's snapshot is at raft.version 1 and adds [3], ids that are not among the "
            "configured voters"
        ),
    ),
]


STALENESS = [
    (staleness.LowerStart(4, 5), "its start number is 4, but start 5 was seen here"),
    (staleness.UnknownStart(5), "start 5, which was seen here, is not one of its starts"),
    (
        staleness.ShorterLog(Offset(9), Offset(10)),
        "its log ends at 9, but it had acknowledged up to 10, which is committed",
    ),
    (
        staleness.LowerEpoch(Epoch(6), Epoch(7)),
        "it is in epoch 6, but it had been in epoch 7",
    ),
]


@pytest.mark.parametrize(("reason", "sentence"), REFUSALS)
def test_a_refusal_has_its_sentence(reason: refusals.Reason, sentence: str):
    assert reason_sentences.refusal(reason) == sentence


@pytest.mark.parametrize(("wait", "words"), WAITS)
def test_a_wait_has_its_words(wait: waits.Wait, words: str):
    assert reason_sentences.wait(wait) == words


@pytest.mark.parametrize(("reason", "sentence"), HALTS)
def test_a_halt_has_its_sentence(reason: halts.HaltReason, sentence: str):
    assert reason_sentences.halt(reason) == sentence


@pytest.mark.parametrize(("reason", "sentence"), STALENESS)
def test_what_a_stale_storage_has_forgotten_has_its_sentence(
    reason: staleness.Staleness, sentence: str
):
    assert reason_sentences.staleness(reason) == sentence


def test_the_tables_have_every_reason_of_the_core():
    assert {type(reason) for reason, _ in REFUSALS} == set(typing.get_args(refusals.Reason))
    assert {type(wait) for wait, _ in WAITS} == set(typing.get_args(waits.Wait))
    assert {type(reason) for reason, _ in HALTS} == set(typing.get_args(halts.HaltReason))
    assert {type(reason) for reason, _ in STALENESS} == set(typing.get_args(staleness.Staleness))
    assert {wait for wait, _ in WAITS if isinstance(wait, Awaited)} == set(Awaited)


def test_every_kind_of_refusal_has_a_reason():
    assert {reason.refusal for reason, _ in REFUSALS} == set(refusals.Refusal)
