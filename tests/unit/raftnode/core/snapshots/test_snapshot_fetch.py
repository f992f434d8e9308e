"""What a follower makes of each answer while it fetches a snapshot, and when it asks again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import (
    DropSnapshot,
    Effect,
    Fact,
    Halt,
    InstallSnapshot,
    SendRequest,
    StoreSnapshotPiece,
    TrimLog,
    VerifySnapshot,
)
from raftnode.core.events import (
    RequestFailed,
    ResponseReceived,
    SnapshotLost,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotVerified,
)
from raftnode.core.messages import (
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from raftnode.core.reasons.halts import StorageFenced, UnknownRaftVersion, UnlistedVoterIds
from raftnode.core.replica import Replica
from raftnode.core.roles import Fetching, Follower
from raftnode.core.snapshots import snapshot_fetch
from raftnode.core.snapshots.download import Download
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, Voter, VoterSet

pytestmark = pytest.mark.rule("P22", "P25")

SIZE = 100


@dataclass
class Fetcher:
    """4, an observer with an empty log, has asked leader 1 for the first piece."""

    book: Playbook
    request: FetchSnapshotRequest

    @property
    def replica(self) -> Replica:
        return self.book["4"].replica

    @property
    def fetching(self) -> Fetching:
        fetching = getattr(self.replica.role, "fetching", None)
        assert isinstance(fetching, Fetching)
        return fetching

    def hear(self, source: str = "1", **other: Any) -> list[Effect]:
        """A piece of ten bytes from the leader, but for what is said to be other."""
        good = FetchSnapshotResponse(
            ErrorCode.NONE,
            self.replica.epoch,
            key_of("1"),
            self.request.snapshot,
            self.request.position,
            size=SIZE,
            data=b"0123456789",
        )
        response = replace(good, **other)
        return self.book.give("4", ResponseReceived(key_of(source), self.request, response))

    def waits(self) -> int:
        """How long until it asks again; nothing is on its way."""
        assert self.fetching.in_flight is None
        return self.fetching.next_at_ms - self.book.now_ms


@pytest.fixture
def fetcher() -> Fetcher:
    book = Playbook.formed("1", "2", "3")
    book.append("1", b"record")
    book.settle()
    book.run(1000)
    book.snapshot("1")
    book.observer("4")
    book.disks_work = False
    for _ in range(100):
        request = book["4"].replica.role.fetching.in_flight
        if isinstance(request, FetchSnapshotRequest):
            book.pending.clear()
            book.wait(10, "4")
            return Fetcher(book, request)
        if not book.deliver(limit=1):
            book.wait(50, "4")
    raise AssertionError("it never asks for a snapshot")


def test_a_piece_is_stored_and_the_leader_kept_in_touch_meanwhile(fetcher: Fetcher):
    effects = fetcher.hear(leader_endpoint=Endpoint("leader.example", 9093), round_token=7)
    asked = fetcher.request
    assert StoreSnapshotPiece(asked.snapshot, 0, SIZE, b"0123456789") in effects
    assert fetcher.waits() == fetcher.book.config.fetch_max_wait_ms
    role = fetcher.replica.role
    assert isinstance(role, Follower)
    assert role.heard_at_ms == fetcher.book.now_ms
    assert (role.leader_endpoint, role.round_token) == (Endpoint("leader.example", 9093), 7)
    download = fetcher.replica.download
    assert download == Download(asked.snapshot, 0, SIZE, storing_to=10)
    fetcher.book.wait(fetcher.book.config.fetch_max_wait_ms, "4")
    assert isinstance(fetcher.fetching.in_flight, FetchRequest)


@pytest.mark.rule("S11")
def test_a_refused_request_for_a_piece_lowers_a_damaged_token(fetcher: Fetcher):
    role = fetcher.replica.role
    assert isinstance(role, Follower)
    role.round_token = 1 << 40
    fetcher.hear(error=ErrorCode.INVALID_REQUEST, round_token=5)
    assert role.round_token == 5


def test_the_next_piece_is_asked_for_as_soon_as_one_is_stored(fetcher: Fetcher):
    fetcher.replica.endpoint = Endpoint("four.example", 9093)
    fetcher.hear(round_token=7)
    stored = SnapshotPieceStored(fetcher.request.snapshot, 10)
    effects = fetcher.book.give("4", stored)
    [sent] = [one for one in effects if isinstance(one, SendRequest)]
    assert sent.target == key_of("1")
    assert isinstance(sent.request, FetchSnapshotRequest)
    assert sent.request == FetchSnapshotRequest(
        fetcher.replica.epoch,
        key_of("4"),
        fetcher.request.snapshot,
        10,
        fetcher.book.config.fetch_max_bytes,
        round_token=7,
        endpoint=Endpoint("four.example", 9093),
    )


def test_after_the_last_piece_the_whole_is_read_and_nothing_asked_for(fetcher: Fetcher):
    fetcher.hear(size=10)
    effects = fetcher.book.give("4", SnapshotPieceStored(fetcher.request.snapshot, 10))
    assert effects == [VerifySnapshot(fetcher.request.snapshot)]
    assert fetcher.waits() == fetcher.book.config.fetch_max_wait_ms
    # The storage says it once more: it is read already.
    assert fetcher.book.give("4", SnapshotPieceStored(fetcher.request.snapshot, 10)) == []


@pytest.mark.parametrize(
    "other",
    [
        {"data": b""},
        {"size": 9},
        {"position": 1},
        {"snapshot": LogPosition(Epoch(1), Offset(1))},
    ],
    ids=["nothing", "beyond the end", "another place", "another snapshot"],
)
def test_a_piece_that_does_not_fit_is_not_stored_and_asked_for_later(
    fetcher: Fetcher, other: dict[str, Any]
):
    effects = fetcher.hear(**other)
    assert not [one for one in effects if isinstance(one, StoreSnapshotPiece | DropSnapshot)]
    assert fetcher.replica.download == Download(fetcher.request.snapshot)
    assert fetcher.fetching.failures == 1
    assert fetcher.waits() == fetcher.book.config.retry_backoff_ms


def test_a_piece_up_to_the_end_fits(fetcher: Fetcher):
    assert [one for one in fetcher.hear(size=10) if isinstance(one, StoreSnapshotPiece)]


def test_a_file_of_another_size_is_begun_again(fetcher: Fetcher):
    """A new leader of another program: its bytes do not go on those that are here."""
    snapshot = fetcher.request.snapshot
    fetcher.replica.download = Download(snapshot, 30, SIZE)
    fetcher.request = replace(fetcher.request, position=30)
    fetcher.fetching.in_flight = fetcher.request
    effects = fetcher.hear(size=SIZE + 1)
    assert DropSnapshot(snapshot) in effects
    assert not [one for one in effects if isinstance(one, StoreSnapshotPiece)]
    assert fetcher.replica.download == Download(snapshot)
    sent = [one.request for one in effects if isinstance(one, SendRequest)]
    assert [one.position for one in sent] == [0]
    assert fetcher.fetching.failures == 0


@pytest.mark.parametrize(
    "meanwhile",
    [
        None,
        Download(LogPosition(Epoch(1), Offset(2))),
        "further",
        "busy",
    ],
    ids=["given up", "another", "another place", "storing"],
)
def test_a_piece_that_no_fetch_waits_for_any_more_changes_nothing(
    fetcher: Fetcher, meanwhile: Download | str | None
):
    snapshot = fetcher.request.snapshot
    if meanwhile == "further":
        meanwhile = Download(snapshot, 20, SIZE)
    elif meanwhile == "busy":
        meanwhile = Download(snapshot, 0, SIZE, storing_to=10)
    assert not isinstance(meanwhile, str)
    fetcher.replica.download = meanwhile
    before = None if meanwhile is None else replace(meanwhile)
    effects = fetcher.hear()
    assert not [one for one in effects if isinstance(one, StoreSnapshotPiece | DropSnapshot)]
    assert fetcher.replica.download == before
    assert fetcher.fetching.failures == 0  # it was a good answer all the same


def test_an_answer_to_another_request_is_not_heard(fetcher: Fetcher):
    waiting = fetcher.fetching.in_flight
    fetcher.request = replace(fetcher.request, position=3)
    assert fetcher.hear() == []
    assert fetcher.fetching.in_flight is waiting


def test_a_leader_that_fences_ends_the_replica(fetcher: Fetcher):
    [halt] = [one for one in fetcher.hear(error=ErrorCode.FENCED_REPLICA) if isinstance(one, Halt)]
    assert halt.reason == StorageFenced(key_of("1"))


@pytest.mark.parametrize(
    "other",
    [{"epoch": Epoch(0)}, {"leader": key_of("2")}, {"leader": None}],
    ids=["an epoch that is over", "another leads", "no replica leads"],
)
def test_an_answer_of_one_that_does_not_lead_counts_for_nothing(
    fetcher: Fetcher, other: dict[str, Any]
):
    before = fetcher.replica.role
    effects = fetcher.hear(**other)
    assert effects == []
    assert fetcher.replica.role is before
    assert fetcher.replica.download == Download(fetcher.request.snapshot)
    assert fetcher.fetching.failures == 1
    assert fetcher.waits() == fetcher.book.config.retry_backoff_ms


@pytest.mark.parametrize("error", [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE])
def test_what_the_leader_does_not_have_is_given_up(fetcher: Fetcher, error: ErrorCode):
    effects = fetcher.hear(error=error)
    assert effects == [DropSnapshot(fetcher.request.snapshot)]
    assert fetcher.replica.download is None
    wait = fetcher.waits()
    assert (type(wait), wait) == (int, fetcher.book.config.retry_backoff_max_ms // 4)


def test_what_another_does_not_have_is_not_given_up(fetcher: Fetcher):
    """It names the leader, who may have it."""
    fetcher.hear("2", error=ErrorCode.SNAPSHOT_NOT_FOUND)
    assert fetcher.replica.download == Download(fetcher.request.snapshot)
    assert fetcher.fetching.failures == 1


@pytest.mark.rule("P23")
def test_one_that_leads_no_more_says_whom_to_ask(fetcher: Fetcher):
    effects = fetcher.hear(
        error=ErrorCode.FENCED_LEADER_EPOCH,
        epoch=Epoch(5),
        leader=key_of("2"),
        leader_endpoint=Endpoint("next.example", 9093),
    )
    role = fetcher.replica.role
    assert isinstance(role, Follower)
    assert (fetcher.replica.epoch, role.leader) == (5, key_of("2"))
    assert role.leader_endpoint == Endpoint("next.example", 9093)
    assert role.heard_at_ms is None  # only from a stranger
    assert fetcher.replica.download == Download(fetcher.request.snapshot)
    sent = [one for one in effects if isinstance(one, SendRequest)]
    assert [(one.target, one.request.snapshot) for one in sent] == [
        (key_of("2"), fetcher.request.snapshot)
    ]


@pytest.mark.rule("P23")
@pytest.mark.parametrize("source", ["1", "2"])
def test_a_leader_is_left_when_it_says_itself_that_it_leads_no_more(fetcher: Fetcher, source: str):
    fetcher.hear(source, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=None)
    assert fetcher.replica.leader == (None if source == "1" else key_of("1"))
    assert fetcher.fetching.failures == 1


@pytest.mark.rule("P23")
def test_a_new_leader_that_names_itself_was_heard(fetcher: Fetcher):
    fetcher.hear("2", error=ErrorCode.FENCED_LEADER_EPOCH, epoch=Epoch(5), leader=key_of("2"))
    role = fetcher.replica.role
    assert isinstance(role, Follower)
    assert (role.leader, role.heard_at_ms) == (key_of("2"), fetcher.book.now_ms)


def test_a_piece_that_does_not_come_is_asked_for_again(fetcher: Fetcher):
    fetcher.book.give("4", RequestFailed(key_of("1"), fetcher.request))
    assert fetcher.replica.download == Download(fetcher.request.snapshot)
    assert fetcher.fetching.failures == 1
    assert 0 < fetcher.waits() <= fetcher.book.config.retry_backoff_max_ms


def test_what_the_storage_cannot_use_is_begun_again_without_haste(fetcher: Fetcher):
    fetcher.hear()
    other = LogPosition(Epoch(1), Offset(1))
    assert fetcher.book.give("4", SnapshotRefused(other, "of another")) == []
    assert fetcher.replica.download is not None
    before = fetcher.fetching.next_at_ms
    effects = fetcher.book.give("4", SnapshotRefused(fetcher.request.snapshot, "no room"))
    assert not [one for one in effects if not isinstance(one, Fact)]
    assert fetcher.replica.download is None
    assert fetcher.waits() == fetcher.book.config.retry_backoff_max_ms
    assert fetcher.fetching.next_at_ms > before
    assert fetcher.book.give("4", SnapshotRefused(fetcher.request.snapshot, "no room")) == []


def test_a_refusal_while_nothing_is_stored_is_stale(fetcher: Fetcher):
    assert fetcher.book.give("4", SnapshotRefused(fetcher.request.snapshot, "late")) == []
    assert fetcher.replica.download == Download(fetcher.request.snapshot)


# -- offers ------------------------------------------------------------------------------


def offer(fetcher: Fetcher, snapshot: LogPosition) -> tuple[bool, Download | None]:
    replica = fetcher.replica
    replica.effects.clear()
    wanted = snapshot_fetch.offered(replica, fetcher.fetching, snapshot)
    replica.effects.clear()
    return wanted, replica.download


def test_offers_are_taken_that_bring_something(fetcher: Fetcher):
    fetcher.replica.download = None
    snapshot = fetcher.request.snapshot
    assert offer(fetcher, snapshot) == (True, Download(snapshot))
    # The same once more, while it waits for its first piece.
    fetcher.fetching.next_at_ms = 0
    assert offer(fetcher, snapshot) == (True, Download(snapshot))
    assert fetcher.fetching.next_at_ms == 0


@pytest.mark.parametrize(
    ("position", "storing_to"), [(1, None), (0, 1), (10, 20)], ids=["here", "on its way", "both"]
)
def test_a_snapshot_of_which_something_is_here_is_fetched_to_its_end(
    fetcher: Fetcher, position: int, storing_to: int | None
):
    """A newer one is offered ever again: a slow disk would never come to the end of any."""
    snapshot = fetcher.request.snapshot
    newer = replace(snapshot, end_offset=Offset(snapshot.end_offset + 5))
    fetcher.replica.download = Download(snapshot)
    assert offer(fetcher, newer) == (True, Download(newer))
    begun = Download(snapshot, position, SIZE, storing_to=storing_to)
    fetcher.replica.download = replace(begun)
    assert offer(fetcher, newer) == (True, begun)


def test_offers_of_what_is_committed_here_or_of_an_epoch_to_come_are_not_wanted(fetcher: Fetcher):
    fetcher.replica.download = None
    snapshot, replica = fetcher.request.snapshot, fetcher.replica
    assert offer(fetcher, LogPosition(Epoch(replica.epoch + 1), snapshot.end_offset)) == (
        False,
        None,
    )
    replica.high_watermark = snapshot.end_offset
    assert offer(fetcher, snapshot) == (False, None)
    replica.high_watermark = Offset(snapshot.end_offset - 1)
    assert offer(fetcher, snapshot) == (True, Download(snapshot))


@pytest.mark.without(
    "core.snapshots.snapshot_fetch:_is_ahead",
    "return snapshot.end_offset > replica.high_watermark and not replica.log.covers(snapshot)",
    "return True",
)
def test_offers_of_what_the_log_holds_are_not_wanted():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    replica = book["2"].replica
    held = replica.log.position
    replica.high_watermark = Offset(0)
    assert not snapshot_fetch.offered(replica, replica.role.fetching, held)
    assert replica.download is None
    other = LogPosition(Epoch(0), held.end_offset)
    assert snapshot_fetch.offered(replica, replica.role.fetching, other)
    assert replica.download == Download(other)


def test_an_offer_that_is_not_wanted_is_asked_about_later(fetcher: Fetcher):
    """A leader that goes on to offer it must not be asked on and on."""
    fetcher.replica.download = None
    fetcher.fetching.next_at_ms = fetcher.book.now_ms
    fetcher.fetching.in_flight = None
    fetcher.book.wait(0, "4")
    asked = fetcher.fetching.in_flight
    assert isinstance(asked, FetchRequest)
    response = FetchResponse(
        ErrorCode.NONE,
        fetcher.replica.epoch,
        key_of("1"),
        snapshot=LogPosition(Epoch(fetcher.replica.epoch + 1), Offset(50)),
    )
    effects = fetcher.book.give("4", ResponseReceived(key_of("1"), asked, response))
    assert not [one for one in effects if isinstance(one, SendRequest)]
    assert fetcher.waits() == fetcher.book.config.retry_backoff_ms


def test_while_the_storage_works_an_offer_makes_no_fetch_hurry(fetcher: Fetcher):
    fetcher.hear()
    fetcher.fetching.next_at_ms = 0
    busy = replace(fetcher.replica.download)
    assert offer(fetcher, fetcher.request.snapshot) == (True, busy)
    assert fetcher.waits() == fetcher.book.config.fetch_max_wait_ms


# -- the end -----------------------------------------------------------------------------


def verifying(fetcher: Fetcher) -> SnapshotVerified:
    fetcher.hear(size=10)
    fetcher.book.give("4", SnapshotPieceStored(fetcher.request.snapshot, 10))
    [made] = fetcher.book["1"].disk.snapshots
    fetcher.book["4"].loaded = made
    return SnapshotVerified(made.head)


def test_a_verified_snapshot_takes_the_place_of_the_log(fetcher: Fetcher):
    event = verifying(fetcher)
    effects = fetcher.book.give("4", event)
    assert [one for one in effects if isinstance(one, InstallSnapshot)] == [
        InstallSnapshot(event.head)
    ]
    changed = [one for one in effects if isinstance(one, Fact) and one.name == "voters_changed"]
    assert len(changed) == 1
    end = event.head.position.end_offset
    assert (fetcher.replica.log.start, fetcher.replica.high_watermark) == (end, end)
    assert fetcher.replica.applicable == end


def test_voters_that_were_known_do_not_change_with_a_snapshot(fetcher: Fetcher):
    event = verifying(fetcher)
    fetcher.replica.log.history = list(fetcher.book["1"].replica.log.history)
    effects = fetcher.book.give("4", event)
    assert not [one for one in effects if isinstance(one, Fact) and one.name == "voters_changed"]


def test_a_snapshot_that_is_only_being_stored_is_not_put_in_place(fetcher: Fetcher):
    event = verifying(fetcher)
    assert fetcher.replica.download is not None
    fetcher.replica.download.verifying = False
    assert fetcher.book.give("4", event) == []
    fetcher.replica.download = None
    assert fetcher.book.give("4", event) == []
    assert fetcher.replica.log.end == 0


@pytest.mark.rule("P54")
def test_the_end_over_a_newer_version_names_both(fetcher: Fetcher):
    event = verifying(fetcher)
    newer = SnapshotVerified(replace(event.head, raft_version=3))
    [halt] = [one for one in fetcher.book.give("4", newer) if isinstance(one, Halt)]
    assert halt.reason == UnknownRaftVersion("snapshot", 3, known=2)


@pytest.mark.rule("P52")
@pytest.mark.without(
    "core.snapshots.snapshot_fetch:verified",
    "if head.raft_version == 1 and known and unlisted:",
    "if False:",
)
def test_snapshot_at_version_1_with_an_unlisted_id_is_not_put_in_place(fetcher: Fetcher):
    """The record itself may be trimmed by the time that the replica starts again."""
    event = verifying(fetcher)
    voters = VoterSet.of(Voter(key_of(name)) for name in ("1", "2", "5"))
    fetcher.replica.log.set_base(voters)
    effects = fetcher.book.give("4", SnapshotVerified(replace(event.head, raft_version=1)))
    halts = [effect for effect in effects if isinstance(effect, Halt)]
    assert [halt.reason for halt in halts] == [UnlistedVoterIds("snapshot", frozenset({NodeId(3)}))]
    assert not [effect for effect in effects if isinstance(effect, InstallSnapshot)]
    assert fetcher.replica.log.end == 0


@pytest.mark.rule("P52")
@pytest.mark.parametrize(
    ("ids", "raft_version"), [("", 1), ("1 2 3", 1), ("1' 2 3 5", 1), ("1 2 5", 2)]
)
def test_snapshot_with_the_ids_that_its_version_allows_is_put_in_place(
    fetcher: Fetcher, ids: str, raft_version: int
):
    event = verifying(fetcher)
    fetcher.replica.log.set_base(VoterSet.of(Voter(key_of(name)) for name in ids.split()))
    head = replace(event.head, raft_version=raft_version)
    assert InstallSnapshot(head) in fetcher.book.give("4", SnapshotVerified(head))


# -- one's own ---------------------------------------------------------------------------


def test_an_own_snapshot_is_offered_if_it_is_newer_and_the_log_trimmed_behind_it():
    book = Playbook.formed("1", "2", "3")
    for number in range(4):
        book.append("1", b"record %d" % number)
        book.settle()
    book.run(1000)
    replica = book["1"].replica
    end = replica.applicable
    newest = LogPosition(Epoch(1), Offset(end - 1))
    assert book.give("1", SnapshotTaken(newest, Offset(0))) == []
    assert replica.log.snapshot == newest
    for other in (
        LogPosition(Epoch(1), Offset(end - 2)),
        LogPosition(Epoch(0), newest.end_offset),  # not newer by its end: the first stays
    ):
        assert book.give("1", SnapshotTaken(other, Offset(0))) == []
        assert replica.log.snapshot == newest
    effects = book.give("1", SnapshotTaken(newest, newest.end_offset))
    assert TrimLog(newest.end_offset) in effects
    assert replica.log.start == newest.end_offset
    assert book.give("1", SnapshotTaken(newest, newest.end_offset)) == []


def test_an_older_snapshot_is_offered_for_a_damaged_one_if_the_log_goes_on_from_it():
    book = Playbook.formed("1", "2", "3")
    for number in range(6):
        book.append("1", b"record %d" % number)
        book.settle()
    book.run(1000)
    replica = book["1"].replica
    end = replica.applicable
    older, newest = (LogPosition(Epoch(1), Offset(end - back)) for back in (3, 1))
    below = LogPosition(Epoch(1), Offset(end - 4))
    book.give("1", SnapshotTaken(older, Offset(0)))
    book.give("1", SnapshotTaken(newest, older.end_offset))
    assert (replica.log.start, replica.log.snapshot) == (older.end_offset, newest)
    for wrong in (
        SnapshotLost(LogPosition(Epoch(1), end), older),  # not the one that is offered
        SnapshotLost(newest, below),  # records behind it are gone
        SnapshotLost(newest, newest),
        SnapshotLost(newest, None),  # a fetcher could not begin without
    ):
        assert book.give("1", wrong) == []
        assert replica.log.snapshot == newest
    book.give("1", SnapshotLost(newest, older))
    assert replica.log.snapshot == older
    # The damaged one is made again, and the log is trimmed behind it as ever.
    effects = book.give("1", SnapshotTaken(newest, newest.end_offset))
    assert replica.log.snapshot == newest
    assert TrimLog(newest.end_offset) in effects


def test_who_has_every_record_needs_no_snapshot_for_a_blank_replica():
    """Its own is damaged, and there is no room for another: the log brings the replica in."""
    book = Playbook.formed("1", "2", "3")
    book.append("1", b"record")
    book.settle()
    book.run(1000)
    log = book["1"].replica.log
    only = LogPosition(Epoch(1), book["1"].replica.applicable)
    book.give("1", SnapshotTaken(only, Offset(0)))
    blank = LogPosition(Epoch(0), Offset(0))
    assert log.needs_snapshot(blank)
    book.give("1", SnapshotLost(only, None))
    assert log.snapshot is None
    assert not log.needs_snapshot(blank)
    book.give("1", SnapshotTaken(only, Offset(0)))
    assert log.snapshot == only
