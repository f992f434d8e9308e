"""P29, P30, P52, P54, P56, S12: what each raft.version allows, and going from one to the next."""

import pytest

from proofkit.playbook import Playbook, key_of
from proofkit.playbook.book import CLUSTER_ID
from raftnode.core.effects import Done, Refused, VoterChangeCompleted
from raftnode.core.events import LatchReceived, RequestReceived, ResponseReceived
from raftnode.core.log_index import LogIndex
from raftnode.core.messages import FetchRequest, FetchResponse
from raftnode.core.reasons.halts import UnlistedVoterIds
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.reasons.waits import Awaited, CatchUpOfAll, NewerPrograms
from raftnode.core.records import RAFT_VERSION, AddVoter, Batch, LeaderChange, RaftVersion
from raftnode.core.state import Latch
from raftnode.core.types import Voter, VoterSet


def refusal_of(book: Playbook, request: int) -> Refusal | None:
    answer = book.answer(request)
    return answer.refusal if isinstance(answer, Refused) else None


def controls(book: Playbook, name: str) -> list[type]:
    return [type(control) for batch in book[name].disk.log for control in batch.control]


@pytest.mark.rule("P54")
@pytest.mark.without(
    "core.replication.leadership:become_leader",
    "and log.base_raft_version",
    "",
)
def test_at_version_0_no_record_names_the_voters_and_writes_go_at_once():
    """Taking `and log.base_raft_version` out of `leadership.become_leader` makes this fail."""
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.append("1", b"x")
    book.run(500)
    assert controls(book, "2") == [LeaderChange]
    assert book["2"].records == [b"x"]
    assert book["2"].replica.log.raft_version == 0
    book.crash("1")
    book.run(6000)
    assert len(book.leaders) == 1


@pytest.mark.rule("P51", "P54", "S12")
@pytest.mark.parametrize("change", ["add", "remove"])
@pytest.mark.without(
    "core.membership.version_rules:why_not",
    "if not log.raft_version and not log.base_raft_version:",
    "if False:",
)
def test_at_version_0_no_voter_is_changed(change: str):
    """P54: UNSUPPORTED_VERSION. Taking its first rule out of `version_rules.why_not` fails this."""
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.observer("4")
    book.run(1500)
    request = book.add("1", "4") if change == "add" else book.remove("1", "3")
    assert refusal_of(book, request) is Refusal.UNSUPPORTED_VERSION
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.rule("P29", "P30", "P55", "S12")
@pytest.mark.without(
    "core.membership.version_rules:why_not",
    'if change.kind == "add" and not known:',
    "if False:",
)
@pytest.mark.without(
    "core.membership.version_rules:why_not",
    'if change.kind == "remove" and known == (change.key,):',
    "if False:",
)
def test_at_version_1_ids_are_fixed_and_a_disk_is_replaced():
    """P29, P30, P55. Taking either rule out of `version_rules.why_not` makes this fail."""
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.observer("4")
    book.run(1500)
    assert refusal_of(book, book.add("1", "4")) is Refusal.NOT_CONFIGURED
    assert refusal_of(book, book.remove("1", "3")) is Refusal.LAST_OF_ITS_ID
    reborn = book.wipe("3")
    book.run(1500)
    added = book.add("1", reborn, replaces="3")
    book.run(1500)
    assert isinstance(book.answer(added), VoterChangeCompleted)
    assert book.voters("1") == "{1,2,3'}"


@pytest.mark.rule("P52", "P56")
@pytest.mark.parametrize("version", [1, 2])
def test_running_quorum_goes_from_0_up_with_all_voters_in_one_batch(version: int):
    """P52, P56: RaftVersion and every AddVoter in one batch; then writes wait for all voters."""
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.append("1", b"before")
    book.run(1500)
    request = book.upgrade("1", version)
    [batch] = [b for b in book["1"].disk.log if AddVoter in map(type, b.control)]
    assert batch.control == (
        RaftVersion(version),
        *(AddVoter(Voter(key_of(name))) for name in ("1", "2", "3")),
    )
    refused = book.append("1", b"too early")
    assert refusal_of(book, refused) is Refusal.FORMATION_INCOMPLETE
    book.run(500)
    assert book.answer(request) == Done(request)
    book.append("1", b"after")
    book.run(500)
    assert book["3"].records == [b"before", b"after"]
    assert book["3"].replica.log.raft_version == version


@pytest.mark.rule("P56")
def test_version_goes_up_step_by_step_and_lets_more_pass():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.observer("4")
    book.run(1500)
    for version in (1, 2):
        request = book.upgrade("1", version)
        book.run(1500)
        assert book.answer(request) == Done(request)
    added = book.add("1", "4")
    book.run(1500)
    assert isinstance(book.answer(added), VoterChangeCompleted)


@pytest.mark.rule("P54")
@pytest.mark.without(
    "core.membership.raft_version:handle_upgrade",
    "if event.version < log.raft_version:",
    "if False:",
)
def test_version_is_never_lowered():
    """P54. Taking the comparison out of `raft_version.handle_upgrade` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1500)
    assert refusal_of(book, book.upgrade("1", 1)) is Refusal.VERSION_NOT_LOWERED
    same = book.upgrade("1", RAFT_VERSION)
    assert book.answer(same) == Done(same)
    for wrong in (-1, RAFT_VERSION + 1):
        assert refusal_of(book, book.upgrade("1", wrong)) is Refusal.UNSUPPORTED_VERSION
    assert refusal_of(book, book.upgrade("2", 2)) is Refusal.NOT_LEADER


@pytest.mark.rule("P54")
@pytest.mark.without(
    "core.log_index:LogIndex._apply_control",
    "max(version, self.raft_version)",
    "version",
)
def test_a_lower_version_in_a_log_lowers_nothing():
    """P54. Taking the maximum out of `LogIndex._apply_control` makes this fail."""
    log = LogIndex()
    for offset, version in enumerate((2, 1)):
        log.append(Batch(offset, offset, 1, b"", (RaftVersion(version),)))
    assert log.raft_version == 2
    log.truncate(0)
    assert log.raft_version == 0


@pytest.mark.rule("P56")
@pytest.mark.without(
    "core.membership.raft_version:obstacle",
    "if missing:",
    "if False:",
)
def test_upgrade_waits_for_every_voter_and_is_given_up_in_time():
    """P56. Taking the missing voters out of `raft_version.obstacle` makes this fail."""
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.run(1500)
    book.isolate("3")
    book.run(2500)
    [leader] = book.leaders
    request = book.upgrade(leader, 2)
    assert book.answer(request) is None
    assert book[leader].replica.role.upgrade.waiting_for == CatchUpOfAll((key_of("3"),))
    book.run(5100)
    assert refusal_of(book, request) is Refusal.WAITING
    assert AddVoter not in controls(book, leader)
    book.heal()
    book.run(3000)
    [leader] = book.leaders
    again = book.upgrade(leader, 2)
    book.run(1000)
    assert book.answer(again) == Done(again)


@pytest.mark.rule("P56")
@pytest.mark.parametrize("old", ["3", "4"], ids=["voter", "observer"])
@pytest.mark.without(
    "core.membership.raft_version:obstacle",
    "if old:",
    "if False:",
)
def test_upgrade_waits_for_programs_that_know_the_version(old: str):
    """P56. Taking `old` out of `raft_version.obstacle` makes this fail."""
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.observer("4")
    book.run(1500)
    role = book["1"].replica.role
    role.progress[key_of(old)].raft_version_max = 1
    request = book.upgrade("1", 2)
    assert book.answer(request) is None
    assert role.upgrade.waiting_for == NewerPrograms(2, frozenset({key_of(old)}))
    book.run(1500)  # the next Fetch tells that it knows 2
    assert book.answer(request) == Done(request)


@pytest.mark.rule("P32", "P54")
def test_uncommitted_upgrade_is_cut_off_with_its_voters():
    """P32, P54: a batch that no other replica has is no upgrade."""
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.run(1500)
    request = book.upgrade("1", 2)
    book["1"].flush(book.now_ms)
    book.drop()
    book.isolate("1")
    book.run(6000)
    assert refusal_of(book, request) is Refusal.LEADERSHIP_LOST
    book.heal()
    book.run(6000)
    assert book["1"].replica.log.raft_version == 0
    assert book["1"].replica.log.voter_record.offset == -1
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.rule("P31", "P54")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    "if replica.log.raft_version_record >= replica.high_watermark:",
    "if False:",
)
def test_uncommitted_upgrade_lets_no_change_pass():
    """P31, P54. Taking `raft_version_record` out of `voter_changes.obstacle` makes this fail."""
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.observer("4")
    book.run(1500)
    book.upgrade("1", 2)
    added = book.add("1", "4")
    assert book.answer(added) is None
    [pending] = book["1"].replica.role.changes
    assert pending.appended is None
    assert pending.waiting_for is Awaited.VERSION_COMMIT
    book.run(1500)
    assert isinstance(book.answer(added), VoterChangeCompleted)


@pytest.mark.rule("S24")
def test_upgrade_that_no_client_waits_for_any_more_is_given_up():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.run(1500)
    book.isolate("3")
    book.run(2500)
    [leader] = book.leaders
    request = book.upgrade(leader, 2)
    book.abandon(leader, request)
    assert book[leader].replica.role.upgrade is None


@pytest.mark.rule("P52")
@pytest.mark.without(
    "core.replica:Replica.append",
    "if unlisted:",
    "if False:",
)
def test_unlisted_id_in_the_log_ends_a_node_at_version_1():
    """P52. Taking UNLISTED_VOTER_ID out of `Replica.append` makes this fail."""
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.run(1500)
    node = book["2"]
    replica = node.replica
    request = replica.role.fetching.in_flight
    assert isinstance(request, FetchRequest)
    base = replica.log.end
    stranger = Batch(base, base, replica.epoch, b"", (AddVoter(Voter(key_of("4"))),))
    response = FetchResponse(0, replica.epoch, key_of("1"), batches=(stranger,))
    book.give("2", ResponseReceived(key_of("1"), request, response))
    assert node.halted
    assert isinstance(node.halted.reason, UnlistedVoterIds)


@pytest.mark.rule("P56")
def test_fetch_tells_which_version_its_program_knows():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    fetches = [m.request for m in book.pending if isinstance(m.request, FetchRequest)]
    role = book["1"].replica.role
    assert all(fetch.raft_version_max == RAFT_VERSION for fetch in fetches)
    assert {p.raft_version_max for p in role.progress.values()} == {RAFT_VERSION}


@pytest.mark.rule("S18")
@pytest.mark.without("core.raft:RaftCore._join", "if same and same_latch:", "if same:")
def test_latch_of_another_version_is_another_latch():
    """S18: taken once."""
    book = Playbook.formed("1", "2", "3", raft_version=1)
    voters = VoterSet.of(Voter(key_of(name)) for name in ("1", "2", "3"))
    for version, refused in ((1, False), (2, True)):
        number = book.number()
        book.answers[number] = []
        book.give("1", LatchReceived(number, Latch(CLUSTER_ID, voters, version)))
        assert isinstance(book.answer(number), Refused) is refused


@pytest.mark.rule("P56")
def test_a_request_from_before_the_field_says_no_version():
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.run(1500)
    request = book["2"].replica.role.fetching.in_flight
    old = FetchRequest(
        request.epoch,
        request.replica,
        request.fetch_offset,
        request.last_fetched_epoch,
        request.acknowledged_offset,
        request.high_watermark,
        0,
        request.incarnation,
        1 << 20,
        0,
        request.sequence + 1,
    )
    book.give("1", RequestReceived(book.number(), key_of("2"), old))
    assert book["1"].replica.role.progress[key_of("2")].raft_version_max == 0
