"""Snapshots in place of a trimmed log: KIP-630's FetchSnapshot, and what a crash makes of it.

Named scenarios say what must be taken out for them to fail, and are run so. Each of these was
seen to fail with its rule taken out by hand:

- the log is not replaced by less than it holds: `a_snapshot_that_comes_late`;
- a piece goes on where the stored ones end: the two of a new leader;
- a fetch that has begun goes on, newer snapshots or not: `one_that_is_being_fetched`;
- FetchSnapshot is a sign of life on both sides: `nobody_stands`;
- an older snapshot is offered for one that is lost: `brought_in_by_the_older`.
"""

import pytest

from proofkit.playbook import Playbook, key_of
from proofkit.playbook.message import Message
from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    Halt,
    HighWatermarkAdvanced,
    Refused,
    StoreSnapshotPiece,
    TrimLog,
    TruncateLog,
)
from raftnode.core.events import (
    LogFlushed,
    RequestReceived,
    SnapshotLost,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotVerified,
)
from raftnode.core.log_head import LogHead
from raftnode.core.messages import ErrorCode, FetchSnapshotRequest, FetchSnapshotResponse
from raftnode.core.reasons.halts import TruncationBelowHighWatermark, UnknownRaftVersion
from raftnode.core.snapshots import snapshot_fetch
from raftnode.core.snapshots.download import Download
from raftnode.core.types import Epoch, LogPosition, Offset

pytestmark = pytest.mark.rule("P22", "P24", "P25", "P40", "S10", "S11", "S15")

SMALL = 40
"""A snapshot of these tests has some two hundred bytes: several pieces."""


def written(count: int = 6, *names: str, config: CoreConfig | None = None) -> Playbook:
    """A quorum with some records, all of it committed everywhere."""
    book = Playbook.formed(*(names or ("1", "2", "3")), config=config)
    for number in range(count):
        book.append("1", b"record %d" % number)
        book.settle()
    book.run(1200)
    return book


def trimmed(book: Playbook, *names: str) -> None:
    """Let these take a snapshot and let go of all behind it."""
    for name in names:
        book.snapshot(name, trim_to=book[name].replica.applicable)


def left_behind() -> Playbook:
    """3 was away while the others wrote, took snapshots and trimmed."""
    book = written()
    book.isolate("3")
    for number in range(4):
        book.append("1", b"later %d" % number)
        book.settle()
    book.run(600)
    trimmed(book, "1", "2")
    book.append("1", b"after")
    book.settle()
    assert book["1"].disk.start > book["3"].disk.end
    book.heal()
    return book


def requests(book: Playbook, kind: str, source: str) -> list[Message]:
    return [m for m in book.pending if m.kind == kind and m.source == source]


def same(book: Playbook, *names: str) -> None:
    """They have the same log, whatever of it came in a snapshot, and the same voters."""
    logs = {tuple(map(id, book[name].disk.log)) for name in names}
    assert len(logs) == 1
    assert len({book.voters(name) for name in names}) == 1
    assert len({book[name].replica.log.voter_record for name in names}) == 1


def test_p22_a_replica_behind_the_trimmed_log_gets_the_snapshot_and_the_rest():
    book = left_behind()
    book.run(3000)
    same(book, "1", "2", "3")
    assert book["3"].disk.start == book["1"].disk.start
    assert book["3"].high_watermark == book["1"].high_watermark
    assert book["3"].replica.download is None


@pytest.mark.without(
    "core.replication.leadership:_begins_with_snapshot",
    "return replica.log.needs_snapshot(fetch)",
    "return False",
)
def test_p22_an_empty_log_begins_with_a_snapshot_though_nothing_was_trimmed():
    book = written()
    book.snapshot("1")
    book.observer("4")
    book.run(2000)
    same(book, "1", "4")
    assert book["4"].disk.start == book["1"].disk.snapshots[-1].head.position.end_offset
    assert book["1"].disk.start == 0


def test_a_blank_replica_is_brought_in_by_the_older_snapshot_where_the_newest_is_lost():
    book = written()
    trimmed(book, "1")
    older = book["1"].replica.log.snapshot
    book.append("1", b"between")
    book.settle()
    book.run(600)
    book.snapshot("1")
    newest = book["1"].replica.log.snapshot
    assert newest is not None
    assert older is not None
    assert book["1"].disk.start == older.end_offset < newest.end_offset
    kept = book["1"].disk.snapshots
    kept.remove(next(one for one in kept if one.head.position == newest))
    book.observer("4")
    book.run(3000)
    assert book["4"].disk.end == 0  # it hears that there is none, and asks again
    book["1"].take(SnapshotLost(newest, older), book.now_ms)
    book.run(3000)
    same(book, "1", "4")
    assert book["4"].disk.start == older.end_offset
    assert b"between" in book["4"].records


@pytest.mark.rule("S32")
def test_a_leader_that_keeps_every_record_brings_an_empty_log_all_of_them():
    """A record without a key is in no snapshot: it would be on fewer replicas with each new disk."""
    book = written(config=CoreConfig(keeps_every_record=True))
    book.snapshot("1")
    book.observer("4")
    book.run(2000)
    same(book, "1", "4")
    assert book["4"].disk.start == 0
    assert b"record 0" in book["4"].records


@pytest.mark.rule("S32")
def test_a_leader_that_kept_every_record_and_trimmed_after_all_brings_its_snapshot():
    book = written(config=CoreConfig(keeps_every_record=True))
    trimmed(book, "1")
    book.observer("4")
    book.run(2000)
    same(book, "1", "4")
    assert book["4"].disk.start == book["1"].disk.start > 0


def test_a_new_disk_becomes_a_voter_by_snapshot_and_log():
    book = left_behind()
    reborn = book.wipe("2")
    book.run(3000)
    added = book.add("1", reborn, replaces="2")
    book.run(4000)
    assert book.voters("1") == "{1,2',3}", book.answer(added)
    book.append("1", b"with the new one")
    book.run(1000)
    same(book, "1", "3", reborn)
    assert b"with the new one" in book[reborn].records


@pytest.mark.without(
    "core.snapshots.snapshot_service:_response", "position=request.position", "position=0"
)
def test_p25_it_comes_in_pieces_of_the_size_that_is_asked_for():
    book = left_behind()
    book.piece_bytes = SMALL
    positions: list[int] = []

    def watch(message: Message) -> None:
        if isinstance(message.request, FetchSnapshotRequest) and message.response is None:
            positions.append(message.request.position)
            assert message.request.max_bytes == book.config.fetch_max_bytes

    book.on_delivery = watch
    book.run(3000)
    size = len(book["1"].disk.snapshots[-1].content)
    assert positions == list(range(0, size, SMALL))
    same(book, "1", "3")


def begun(pieces: int) -> Playbook:
    """3 has stored so many pieces of the snapshot."""
    book = left_behind()
    book.piece_bytes = SMALL
    for _ in range(500):
        download = book["3"].replica.download
        if download is not None and download.position >= pieces * SMALL and not download.busy:
            return book
        if not book.deliver(limit=1):
            moved = [node.flush(book.now_ms) for node in book.nodes.values()]
            if not book.work_storage() and not any(moved):
                book.wait(50)
    raise AssertionError("it never begins")


def asked_positions(book: Playbook, of: str) -> list[int]:
    """Where the pieces begin that `of` is asked for from now on."""
    positions: list[int] = []

    def watch(message: Message) -> None:
        asked = isinstance(message.request, FetchSnapshotRequest) and message.response is None
        if asked and message.target == of:
            positions.append(message.request.position)

    book.on_delivery = watch
    return positions


@pytest.mark.rule("P25")
@pytest.mark.without(
    "core.snapshots.snapshot_fetch:piece_stored",
    "download.position, download.storing_to = event.end, None",
    "download.storing_to = None",
)
def test_resumes_after_lost_answers_where_it_was():
    book = begun(2)
    book.drop(source="1", target="3")
    book.drop(source="3")
    positions = asked_positions(book, "1")
    book.run(6000)
    assert positions[0] >= 2 * SMALL
    same(book, "1", "3")


def test_a_new_leader_with_the_same_snapshot_goes_on_where_the_last_one_was():
    book = begun(2)
    positions = asked_positions(book, "2")
    book.crash("1")
    book.pending.clear()
    book.elect("2")
    book.run(3000)
    assert positions[0] >= 2 * SMALL
    same(book, "2", "3")


def test_a_new_leader_without_it_has_it_begin_with_its_own():
    book = begun(2)
    [only] = book["2"].disk.snapshots
    book.crash("1")
    book.pending.clear()
    positions = asked_positions(book, "2")
    book["2"].disk.snapshots = []
    book.elect("2")
    book.run(1000)
    assert book["3"].disk.end < book["2"].disk.start
    book["2"].snapshot(book.now_ms)
    assert book["2"].replica.log.snapshot > only.head.position
    book.run(5000)
    assert positions[0] > 0
    assert 0 in positions
    same(book, "2", "3")


def test_one_that_is_being_fetched_goes_on_though_the_leader_has_a_newer_one():
    """A slow disk would never come to the end of any, with a leader that takes them often."""
    book = begun(2)
    book.disks_work = False
    positions = asked_positions(book, "1")
    first = book["3"].replica.download.snapshot
    for number in range(2):
        book.append("1", b"more %d" % number)
        book.run(1000)
    made = book["1"].disk.snapshots[-1]
    book.snapshot("1")
    book["1"].disk.keep_snapshot(made)  # a replica reads it: it is kept
    offered = book["1"].replica.log.snapshot
    assert offered.end_offset > first.end_offset
    book.run(3000)
    download = book["3"].replica.download
    assert download.snapshot == first
    assert download.busy
    book.disks_work = True
    book.run(4000)
    assert 0 not in positions
    same(book, "1", "3")


def test_an_offer_takes_the_place_of_one_that_has_not_begun():
    book = begun(1)
    replica = book["3"].replica
    first = replica.download.snapshot
    newer = LogPosition(first.epoch, Offset(first.end_offset + 1))
    replica.download = Download(first)
    assert snapshot_fetch.offered(replica, replica.role.fetching, newer)
    assert replica.download.snapshot == newer


def test_a_snapshot_that_is_gone_on_the_leader_is_asked_for_without_haste_and_begun_again():
    book = begun(2)
    book["1"].disk.snapshots.clear()
    before = list(book["3"].disk.log)
    positions = asked_positions(book, "1")
    book.run(10_000)
    assert 2 <= len(positions) <= 150
    assert book["3"].disk.log == before
    assert book["3"].role == "follower"
    book.append("1", b"more")
    book.run(600)
    book.snapshot("1")
    book.run(4000)
    same(book, "1", "3")


def test_a_damaged_one_is_dropped_and_fetched_again_and_the_log_stays():
    book = left_behind()
    before = list(book["3"].disk.log)
    book.disks_work = False
    for _ in range(40):
        book.run(200)
        reading = any(not isinstance(effect, StoreSnapshotPiece) for _, _, effect in book.storage)
        book.work_storage(damaged=reading)
        if reading:
            break
    else:
        pytest.fail("it was never read")
    assert book["3"].replica.download is None
    assert book["3"].disk.log == before
    assert book["3"].replica.log.end == before[-1].end_offset
    book.disks_work = True
    book.run(4000)
    same(book, "1", "3")


def test_p40_no_replica_stands_or_resigns_while_a_snapshot_is_fetched_and_read():
    """The leader needs 3, for 2 is down; 3 does nothing but fetch the snapshot and read it."""
    book = begun(1)
    book.crash("2")
    book.disks_work = False
    epoch = book["1"].replica.epoch
    for _ in range(20):
        book.run(400)
        download = book["3"].replica.download
        if download is not None and download.verifying:
            break
        book.work_storage()
    for _ in range(20):  # a slow disk: eight seconds
        book.run(400)
    assert book["1"].role == "leader"
    assert book["3"].role == "follower"
    assert book["3"].replica.epoch == epoch
    assert book["3"].replica.download.verifying
    # And the confirmed answers go on: a majority is there.
    asked = book.confirm("1", for_read=False)
    book.run(1000)
    assert book.answers[asked], "a round ends though one of the two fetches a snapshot"
    book.disks_work = True
    book.run(3000)
    same(book, "1", "3")


def test_s10_nothing_of_it_is_acknowledged_before_it_is_in_place():
    book = begun(1)
    leader = book["1"].replica.role
    book.disks_work = False
    for _ in range(30):
        book.run(300)
        if book["3"].replica.download and book["3"].replica.download.verifying:
            break
        book.work_storage()
    acknowledged = leader.progress[key_of("3")].acknowledged
    assert acknowledged <= book["3"].disk.end
    book.disks_work = True
    book.run(2000)
    assert leader.progress[key_of("3")].acknowledged == book["1"].replica.log.end


def test_a_crash_while_it_is_fetched_leaves_the_log_and_it_begins_again():
    book = begun(2)
    before = list(book["3"].disk.log)
    book.crash("3")
    book.restart("3")
    assert book["3"].disk.log == before
    assert book["3"].replica.download is None
    book.run(3000)
    same(book, "1", "3")


def test_a_crash_after_it_is_in_place_goes_on_from_it():
    book = left_behind()
    book.run(3000)
    end = book["3"].replica.log.end
    book.crash("3")
    book.restart("3")
    assert book["3"].replica.log.end == end
    assert book["3"].replica.log.start == book["1"].disk.start
    assert book["3"].high_watermark == book["3"].disk.snapshots[-1].head.position.end_offset
    book.append("1", b"on")
    book.run(1500)
    same(book, "1", "2", "3")


def test_a_tail_that_the_quorum_gave_up_is_replaced_though_it_is_longer():
    book = written()
    book.isolate("1")
    for number in range(9):
        book.append("1", b"alone %d" % number)
    book["1"].flush(book.now_ms)
    book.drop()
    book.elect("2")
    book.append("2", b"committed without it")
    book.run(600)
    trimmed(book, "2", "3")
    assert book["1"].disk.end > book["2"].disk.end
    book.heal()
    book.run(5000)
    same(book, "1", "2", "3")
    assert book["1"].disk.start == book["2"].disk.start
    assert not [one for one in book["1"].records if one.startswith(b"alone")]


def test_a_snapshot_that_comes_late_does_not_replace_a_log_that_holds_it():
    """A new leader brought the records meanwhile; what is behind them may be acknowledged."""
    book = begun(1)
    node = book["3"]
    download = node.replica.download
    assert download is not None
    made = book["1"].disk.snapshot(download.snapshot)
    assert made is not None
    node.replica.download = None
    node.disk.install(made)
    node.replica.log.install(made.head)
    book.pending.clear()
    book.run(3000)
    end = node.replica.log.end
    assert end > made.head.position.end_offset
    # Only now the storage has read the file.
    download.verifying, download.storing_to = True, None
    node.replica.download = download
    node.take(SnapshotVerified(made.head), book.now_ms)
    assert node.replica.log.end == end
    assert node.replica.download is None


def test_stale_words_of_the_storage_change_nothing():
    book = begun(2)
    node = book["3"]
    download = node.replica.download
    assert download is not None
    before = (download.position, download.busy)
    other = LogPosition(Epoch(9), Offset(999))
    for event in (
        SnapshotPieceStored(download.snapshot, 7),
        SnapshotPieceStored(other, download.position + SMALL),
        SnapshotRefused(other, "damaged"),
        SnapshotVerified(book["1"].disk.snapshots[-1].head),
    ):
        node.take(event, book.now_ms)
        assert node.replica.download is download
        assert (download.position, download.busy) == before
    book.run(3000)
    same(book, "1", "3")


def test_voters_and_their_record_come_with_the_snapshot():
    """P50, S11: the compare-and-set value is the same on who has the log and who has not."""
    book = written()
    book.observer("4")
    book.run(1500)
    book.add("1", "4")
    book.run(1500)
    book.remove("1", "2")
    book.run(1500)
    assert book.voters("1") == "{1,3,4}"
    trimmed(book, "1", "3", "4")
    book.observer("5")
    book.run(2500)
    same(book, "1", "5")
    assert book["5"].replica.log.formation_completed
    assert book["5"].replica.log.raft_version == 2
    book.crash("5")
    book.restart("5")
    assert book.voters("5") == "{1,3,4}"
    assert book["5"].replica.log.voter_record == book["1"].replica.log.voter_record


@pytest.mark.scenario("autojoin-readds-removed")
@pytest.mark.without(
    "core.log_index:LogIndex._begin_with",
    "VoterSetAt(head.voter_record, head.voters)",
    "VoterSetAt(VoterRecordId(FIRST_OFFSET, NO_EPOCH), head.voters)",
)
def test_autojoin_readds_removed():
    """KAFKA-19850: the history of removals is lost in a snapshot; the voters' record is not.

    Twice all replicas go on from a snapshot alone: before a replica reads who votes and wants 3
    added, and again after 3 was removed. A record that each snapshot makes up again, or the
    same for all, makes this fail: it must be the one that really made the set.
    """
    book = written()
    leader = gone_on_from_snapshots(book, "1", "2", "3")
    seen = book[leader].replica.log.voter_record
    book.remove(leader, "3")
    book.run(5000)
    leader = gone_on_from_snapshots(book, "1", "2")
    assert book.voters(leader) == "{1,2}"
    delayed = book.add(leader, "3", expected=seen)
    book.run(6000)
    refusal = book.answer(delayed)
    assert isinstance(refusal, Refused)
    assert refusal.refusal.value == "STALE_VOTER_RECORD"
    assert book.voters(leader) == "{1,2}"


def gone_on_from_snapshots(book: Playbook, *names: str) -> str:
    """Let all of them start again on a snapshot, their logs trimmed to its end; who leads then."""
    trimmed(book, *names)
    for name in names:
        book.crash(name)
    for name in names:
        book.restart(name)
    book.run(8000)
    [leader] = book.leaders
    return leader


@pytest.mark.scenario("retention-beyond-snapshot")
@pytest.mark.without(
    "core.snapshots.snapshot_fetch:taken",
    "<= min(replica.applicable, log.snapshot.end_offset)",
    "",
    "core.log_index:LogIndex.trim",
    "assert self.start <= start <= self.snapshot.end_offset, start",
    "",
)
def test_retention_beyond_snapshot():
    """KAFKA-14238: the log is never trimmed beyond what a snapshot covers, whichever replica asks."""
    book = written()
    book.snapshot("1")
    node, covered = book["1"], book["1"].replica.log.snapshot
    assert covered is not None
    book.append("1", b"not covered")
    book.settle()
    for wanted in (covered.end_offset + 1, node.replica.log.end, node.replica.log.end + 100):
        effects = node.take(SnapshotTaken(covered, Offset(wanted)), book.now_ms)
        assert not [one for one in effects if isinstance(one, TrimLog)]
        assert node.replica.log.start == 0
    node.take(SnapshotTaken(covered, covered.end_offset), book.now_ms)
    assert node.replica.log.start == covered.end_offset


@pytest.mark.scenario("remove-leader-crash")
@pytest.mark.without(
    "core.raft:RaftCore.__init__",
    "log.snapshot.end_offset if log.snapshot else FIRST_OFFSET",
    "FIRST_OFFSET",
)
def test_remove_leader_crash():
    """KAFKA-17608: a restart of those that are left reverts to nothing that a snapshot covers.

    The voters in force at the snapshot are known to be committed at once, and no truncation
    goes below it.
    """
    book = written()
    book.remove("1", "1")
    book.run(3000)
    [leader] = book.leaders
    assert book.voters(leader) == "{2,3}"
    trimmed(book, "2", "3")
    for name in ("2", "3"):
        book.crash(name)
        book.restart(name)
    node = book["2"]
    covered = node.disk.snapshots[-1].head.position.end_offset
    assert node.high_watermark == covered
    assert node.replica.log.committed_voters(node.high_watermark).voters == node.replica.log.voters
    node.replica.truncate(Offset(covered - 1))
    assert isinstance(node.replica.effects[-1], Halt)
    assert isinstance(node.replica.effects[-1].reason, TruncationBelowHighWatermark)


@pytest.mark.scenario("remove-leader-crash")
@pytest.mark.without(
    "core.replica:Replica.raise_high_watermark",
    "max(self.applicable, min(self.high_watermark, self.log.durable_end))",
    "self.log.durable_end",
)
def test_leader_that_falls_with_its_own_removal_has_nothing_to_take_back():
    """No state machine goes backwards: what is cut off was never to be applied."""
    book = written()
    book.snapshot("1")
    book.isolate("1")
    for number in range(3):
        book.append("1", b"for nothing %d" % number)
    book.wait(200, "1")
    book.remove("1", "1")
    book["1"].flush(book.now_ms)
    assert book.voters("1") == "{2,3}"
    book.drop()
    book.elect("2")
    book.heal()
    book.run(5000)
    applied = Offset(0)
    cuts = 0
    for effect in book["1"].effects:
        if isinstance(effect, HighWatermarkAdvanced):
            applied = max(applied, effect.applicable)
        elif isinstance(effect, TruncateLog):
            cuts += 1
            assert applied <= effect.end_offset
    assert cuts == 1
    assert book["1"].role == "follower"
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.scenario("snapshot-log-gap")
@pytest.mark.without(
    "core.log_index:LogIndex.needs_snapshot",
    "return fetch.end_offset < self.start or",
    "return",
    "proofkit.playbook.scripted_node:ScriptedNode.read",
    "effect.start_offset",
    "max(effect.start_offset, self.disk.start)",
)
@pytest.mark.without(
    "core.log_index:LogIndex.install",
    "self.durable_end = head.position.end_offset",
    "self.durable_end = Offset(head.position.end_offset + 1)",
)
def test_snapshot_log_gap():
    """RedisRaft #43: what is fetched after a snapshot begins where it ends."""
    book = left_behind()
    book.run(3000)
    offsets = [
        offset
        for batch in book["3"].disk.log
        for offset in range(batch.base_offset, batch.end_offset)
    ]
    assert offsets == list(range(book["1"].replica.log.end))
    assert book["3"].replica.log.start == book["3"].disk.snapshots[-1].head.position.end_offset


@pytest.mark.rule("P30")
@pytest.mark.without(
    "core.snapshots.snapshot_service:handle_fetch_snapshot",
    "if error == ErrorCode.NONE and not leadership.may_say(",
    "if not replica.is_voter or not leadership.may_say(",
)
@pytest.mark.without(
    "core.membership.voter_changes:_finish_committed",
    "if not replica.is_voter and settled and",
    "if not replica.is_voter and",
)
def test_p24_a_leader_outside_the_voters_serves_the_snapshot_that_its_removal_waits_for():
    """Of the two voters that are left, one can get the record only behind a snapshot of the leader."""
    book = written()
    book.isolate("3")
    book.append("1", b"while 3 is away")
    book.settle()
    trimmed(book, "1", "2")
    asked = book.remove("1", "1")
    book.settle()
    assert book["3"].disk.end < book["1"].disk.start
    assert (book["1"].role, book.voters("1"), book.answer(asked)) == ("leader", "{2,3}", None)
    book.heal()
    book.run(4000)
    assert book.answer(asked) is not None
    assert book["3"].disk.start > 0
    assert book.leaders in (["2"], ["3"])
    same(book, "1", "2", "3")


def test_a_leader_that_resigned_serves_no_more_pieces():
    """P23: an error that names whom to ask."""
    book = begun(1)
    book.transfer("1", "2")
    book.settle()
    book.run(3000)
    assert book.leaders == ["2"]
    same(book, "2", "3")


def test_a_snapshot_of_a_newer_program_ends_the_replica():
    """S12."""
    book = left_behind()
    made = book["1"].disk.snapshots[-1]
    newer = LogHead(made.head.position, made.head.voters, made.head.voter_record, 3, True)
    book["1"].disk.snapshots[-1] = type(made)(newer, made.batches)
    book.run(3000)
    assert book["3"].halted is not None
    assert isinstance(book["3"].halted.reason, UnknownRaftVersion)
    assert book["3"].disk.start == 0


@pytest.mark.parametrize(
    ("epoch", "position", "error"),
    [
        (0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, 10_000, ErrorCode.POSITION_OUT_OF_RANGE),
        (1, 0, ErrorCode.NONE),
    ],
)
def test_p25_errors_of_the_leader(epoch: int, position: int, error: ErrorCode):
    book = written()
    book.snapshot("1")
    snapshot = book["1"].replica.log.snapshot
    assert snapshot is not None
    request = FetchSnapshotRequest(Epoch(epoch), key_of("4"), snapshot, position, max_bytes=100)
    assert _answer(book, request).error is error


def test_p25_a_snapshot_that_was_never_there_is_not_found():
    book = written()
    nowhere = LogPosition(Epoch(1), Offset(3))
    request = FetchSnapshotRequest(Epoch(1), key_of("4"), nowhere, 0, max_bytes=100)
    assert _answer(book, request).error is ErrorCode.SNAPSHOT_NOT_FOUND


def test_p23_who_does_not_lead_names_the_leader():
    book = written()
    request = FetchSnapshotRequest(
        Epoch(1), key_of("4"), LogPosition(Epoch(1), Offset(3)), 0, max_bytes=100
    )
    answer = _answer(book, request, of="2")
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader == key_of("1")


def _answer(book: Playbook, request: FetchSnapshotRequest, of: str = "1") -> FetchSnapshotResponse:
    book.observer("4")
    book.pending.clear()
    book.pending.append(Message(book.number(), "4", of, request, answers=book._life(book["4"])))
    book.deliver("snapshot")
    [answer] = [m.response for m in book.pending if m.kind == "snapshot-answer"]
    assert isinstance(answer, FetchSnapshotResponse)
    return answer


@pytest.mark.without(
    "core.snapshots.snapshot_service:handle_fetch_snapshot",
    "progress.last_fetch_ms = replica.now_ms",
    "pass",
)
@pytest.mark.without(
    "core.snapshots.snapshot_service:handle_fetch_snapshot",
    "progress.last_fetch_ms = replica.now_ms",
    "pass",
)
def test_p40_s11_a_piece_that_is_asked_for_is_a_sign_of_life_and_confirms_a_round():
    book = written()
    book.snapshot("1")
    replica = book["1"].replica
    progress = replica.role.progress[key_of("2")]
    book.isolate("2", "3")
    book.now_ms += 1000
    asked = book.confirm("1", for_read=False)
    token = replica.role.round_token
    request = FetchSnapshotRequest(
        Epoch(1), key_of("2"), replica.log.snapshot, 0, max_bytes=10, round_token=token
    )
    book.give("1", RequestReceived(book.number(), key_of("2"), request))
    assert progress.last_fetch_ms == book.now_ms
    assert book.answers[asked], "the leader and 2 are a majority of three"
    assert progress.acknowledged <= book["2"].disk.end


def test_s10_a_flush_from_before_the_install_says_nothing_of_what_came_with_it():
    book = left_behind()
    node = book["3"]
    truncations = node.replica.log.truncations
    book.run(3000)
    end = node.replica.log.end
    node.take(LogFlushed(Offset(end + 500), truncations), book.now_ms)
    assert node.replica.log.durable_end <= end
