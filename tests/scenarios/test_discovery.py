"""A new disk makes itself known by its own Fetch, and joins when an AddVoter names it (S5, P55).

KIP-856's recovery of a lost disk, without an operator that tells the new replica its cluster; and
what a blank replica that fetches must not break: another cluster's peace, a formation under way,
the promises of a voter whose storage was put back.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from proofkit.playbook.book import CLUSTER_ID
from raftnode.core.config import CoreConfig
from raftnode.core.describe import ReplicaDescription
from raftnode.core.effects import Refused
from raftnode.core.events import ClusterJoined, LatchReceived, TimePassed
from raftnode.core.roles import Leader
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Epoch, Voter, VoterSet

pytestmark = pytest.mark.rule("S5", "P53", "P55")

CONFIG = CoreConfig(announces_blank=True)


def formed(leader: str = "1") -> Playbook:
    return Playbook.formed("1", "2", "3", leader=leader, config=CONFIG)


def observers(book: Playbook, leader: str) -> dict[str, ReplicaDescription]:
    core = book[leader].core
    assert core is not None
    described = core.describe()
    assert described is not None
    return {str(one.key): one for one in described.observers}


def seen(book: Playbook, leader: str, name: str) -> ReplicaDescription | None:
    return observers(book, leader).get(str(key_of(name)))


def untouched(book: Playbook, name: str) -> bool:
    """Whether a replica holds nothing, on disk or in memory, and belongs to no cluster."""
    node = book[name]
    return (node.role, node.replica.cluster_id, node.disk.cluster_id, node.disk.log) == (
        "blank",
        None,
        None,
        [],
    )


def test_new_disk_under_an_old_id_is_found_added_and_the_old_one_removed():
    """KIP-856's disk failure: only AddVoter tells the new replica anything.

    The first address leads to a follower, which names the leader.
    """
    book = formed(leader="2")
    book.append("2", b"before")
    book.settle()
    book.crash("3")
    book.blank("3'")
    book.run(1000)
    found = seen(book, "2", "3'")
    assert found is not None
    assert (found.blank, found.caught_up, found.could_be_voter) == (True, False, True)
    assert found.last_fetch_age_ms is not None
    assert untouched(book, "3'"), "an address says nothing of the cluster that it belongs to"

    request = book.add("2", "3'", replaces="3", within_ms=20_000)
    book.run(10_000)
    assert not isinstance(book.answer(request), Refused)
    assert book.voters("2") == "{1,2,3'}"
    assert book["3'"].role == "follower"
    assert b"before" in book["3'"].records
    assert book["3'"].disk.cluster_id == book["2"].disk.cluster_id


def test_reassignment_names_a_new_disk_too():
    book = formed()
    book.blank("4")
    book.run(1000)
    assert untouched(book, "4")
    bare = book.reassign("1", "1", "2", "#4")
    assert isinstance(book.answer(bare), Refused), "a bare id means no replica without a cluster"
    book.reassign("1", "1", "2", "4")
    book.run(20_000)
    assert book.voters("1") == "{1,2,4}"


def test_blank_replica_without_bootstrap_servers_is_silent():
    book = Playbook.formed("1", "2", "3")
    book.blank("4")
    book.run(5000)
    assert observers(book, "1") == {}
    assert untouched(book, "4")


def test_blank_replica_that_goes_away_is_no_observer_any_more():
    book = formed()
    book.blank("4")
    book.run(1000)
    assert seen(book, "1", "4") is not None
    book.crash("4")
    book.run(CONFIG.fetch_timeout_ms + CONFIG.announce_interval_ms)
    assert observers(book, "1") == {}


def test_new_leader_hears_of_a_blank_replica_too():
    book = formed()
    book.blank("4")
    book.run(1000)
    book.transfer("1", "2")
    book.run(2000)
    assert seen(book, "2", "4") is not None
    assert untouched(book, "4")


def test_blank_replica_still_joins_when_it_is_told_to():
    """The operator's way: it knows the cluster id from the latch."""
    book = formed()
    book.blank("4")
    book.run(1000)
    cluster_id = book["1"].disk.cluster_id
    assert cluster_id is not None
    book.ask("4", lambda request_id: ClusterJoined(request_id, cluster_id))
    book.run(2000)
    found = seen(book, "1", "4")
    assert found is not None
    assert (found.blank, found.caught_up) == (False, True)


def test_voter_that_waits_for_its_latch_is_not_made_an_observer():
    """Formation: the others lead already, and what is listed takes the latch and nothing else."""
    book = Playbook(CONFIG)
    for name in ("1", "2", "3"):
        book.blank(name)
    latch = Latch(CLUSTER_ID, VoterSet.of(Voter(key_of(name)) for name in ("1", "2", "3")))
    for name in ("1", "2"):
        book.give(name, LatchReceived(book.number(), latch))
    book.impatient("1")
    book.run(3000)
    assert book["1"].role == "leader"
    assert seen(book, "1", "3") is None
    assert untouched(book, "3")
    assert not book["1"].replica.log.formation_completed
    book.give("3", LatchReceived(book.number(), latch))
    book.run(3000)
    assert book["1"].replica.log.formation_completed
    assert book["3"].role == "follower"


def test_storage_put_back_to_when_it_was_blank_neither_joins_nor_speaks_for_the_voter():
    """The voter's promises are gone with its log; only a person or the operator replaces it."""
    book = Playbook(CONFIG)
    book.blank("3")
    saved = book["3"].saved()
    book.latch("1", "2", "3")
    book.impatient("1")
    book.settle()
    book.append("1", b"acknowledged by 3")
    book.settle()
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    before = role.progress[key_of("3")].acknowledged
    book.crash("3")
    book.put_back("3", saved)
    book.restart("3")
    book.run(3000)
    assert untouched(book, "3")
    assert seen(book, "1", "3") is None
    progress = role.progress[key_of("3")]
    assert (progress.acknowledged, progress.fenced) == (before, False)
    assert progress.announced_ms is None


def test_delayed_announcement_says_nothing_of_a_replica_that_has_joined():
    book = formed()
    book.blank("4")
    book.give("4", TimePassed())
    while not (waiting := [m for m in book.pending if m.source == "4" and m.target == "1"]):
        assert book.deliver(limit=1)
        book.now_ms += CONFIG.announce_interval_ms
        book.give("4", TimePassed())
    [delayed] = waiting
    book.pending.remove(delayed)
    cluster_id = book["1"].disk.cluster_id
    assert cluster_id is not None
    book.ask("4", lambda request_id: ClusterJoined(request_id, cluster_id))
    book.append("1", b"data")
    book.run(2000)
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    before = role.progress[key_of("4")].acknowledged
    book.pending.append(delayed)
    book.settle()
    found = seen(book, "1", "4")
    assert found is not None
    assert (found.blank, found.fenced, found.acknowledged) == (False, False, before)


def test_observer_put_back_to_when_it_was_blank_is_not_blank_again():
    """It has fetched with a cluster id, which no storage loses by itself."""
    book = formed()
    book.blank("4")
    saved = book["4"].saved()
    cluster_id = book["1"].disk.cluster_id
    assert cluster_id is not None
    book.ask("4", lambda request_id: ClusterJoined(request_id, cluster_id))
    book.run(2000)
    book.crash("4")
    book.put_back("4", saved)
    book.restart("4")
    book.run(3000)
    request = book.add("1", "4", within_ms=3000)
    book.run(5000)
    assert isinstance(book.answer(request), Refused)
    assert untouched(book, "4")
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    assert role.progress[key_of("4")].announced_ms is None


def test_delayed_announcement_brings_no_replica_back_that_is_gone():
    book = formed()
    book.blank("4")
    book.run(1000)
    while not (waiting := [m for m in book.pending if m.source == "4" and m.target == "1"]):
        book.now_ms += CONFIG.announce_interval_ms
        book.give("4", TimePassed())
        if not [m for m in book.pending if m.source == "4" and m.target == "1"]:
            book.settle()
    [delayed] = waiting
    book.pending.remove(delayed)
    book.run(3000)
    assert seen(book, "1", "4") is not None
    book.crash("4")
    book.run(CONFIG.fetch_timeout_ms + CONFIG.announce_interval_ms)
    assert observers(book, "1") == {}
    book.pending.append(delayed)
    book.settle()
    assert observers(book, "1") == {}


def removed_but_not_committed() -> Playbook:
    """Leader 2 has appended the removal of 3, which only 2 has; 3's storage is blank again."""
    book = Playbook(CONFIG)
    book.blank("3")
    saved = book["3"].saved()
    book.latch("1", "2", "3")
    book.impatient("1")
    book.settle()
    book.append("1", b"acknowledged by 3")
    book.settle()
    book.crash("3")
    book.transfer("1", "2")
    book.run(1000)
    book.remove("2", "3")
    book.isolate("1")
    assert book.voters("2") == "{1,2}"
    book.put_back("3", saved)
    book.restart("3")
    book.run(600)
    return book


@pytest.mark.without(
    "core.membership.discovery:handle_announcement",
    "not replica.may_be_voter(source)",
    "source not in replica.log.voters",
)
@pytest.mark.parametrize("asked_by", ["add", "reassign"])
def test_voter_whose_removal_may_be_reverted_does_not_join_without_its_promises(asked_by: str):
    """The next leader may lack the removal, and then counts votes that 3 has forgotten."""
    book = removed_but_not_committed()
    if asked_by == "add":
        book.add("2", "3")
    else:
        book.reassign("2", "1", "2", "3")
    book.run(1200)
    assert book["2"].role == "leader"
    assert untouched(book, "3")
    assert seen(book, "2", "3") is None


def test_voter_that_was_removed_for_good_joins_again_on_a_blank_storage():
    book = removed_but_not_committed()
    book.heal()
    book.run(2000)
    [leader] = book.leaders
    assert book.voters(leader) == "{1,2}"
    book.add(leader, "3", within_ms=10_000)
    book.run(10_000)
    assert book.voters(leader) == "{1,2,3}"
    assert b"acknowledged by 3" in book["3"].records


def crowd(book: Playbook, *names: str) -> None:
    for name in names:
        book.blank(name)
        book.run(CONFIG.announce_interval_ms // 4)


@pytest.mark.without(
    "core.membership.discovery:_note",
    "if not leadership.has_room_to_list(replica, role, source):",
    "if False:",
)
def test_announcement_displaces_no_observer_that_fetches():
    """Its waiting Fetch would get no answer, and its catch-up would begin again."""
    config = replace(CONFIG, observers_max=3)
    book = Playbook.formed("1", "2", "3", config=config)
    for name in ("4", "5", "6"):
        book.observer(name)
    book.run(1000)
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    before = {name: role.progress[key_of(name)] for name in ("4", "5", "6")}
    crowd(book, "7", "8")
    book.run(3000)
    for name, progress in before.items():
        assert role.progress.get(key_of(name)) is progress
    assert seen(book, "1", "7") is None
    book.crash("5")
    book.run(CONFIG.fetch_timeout_ms + 2 * CONFIG.announce_interval_ms)
    assert len(role.progress) == 2 + config.observers_max
    assert {"4", "6"} <= {str(key.node_id) for key in role.progress}


@pytest.mark.without(
    "core.replication.leadership:_longest_silent",
    "progress.fenced or epoch_rules.counts(replica, key)",
    "progress.fenced or key in replica.log.voters",
)
def test_replica_that_is_to_be_added_is_not_displaced_by_others():
    config = replace(CONFIG, observers_max=3)
    book = Playbook.formed("1", "2", "3", config=config)
    crowd(book, "4", "5", "6")
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    book.isolate("4")  # its next announcement is late
    book.add("1", "4", within_ms=20_000)
    crowd(book, "7", "8", "9")
    assert key_of("4") in role.progress
    book.heal()
    book.run(5000)
    assert key_of("4") in book["1"].replica.log.voters


def until_joined(book: Playbook, name: str) -> None:
    """Deliver message by message until a blank replica has taken a cluster id."""
    for _ in range(1000):
        if book[name].replica.cluster_id is not None:
            return
        if not book.deliver(limit=1):
            book.now_ms += CONFIG.announce_interval_ms // 4
            for node in list(book.nodes.values()):
                if node.core is not None:
                    book.give(node.name, TimePassed())
    raise AssertionError(f"{name} does not join")


def asked_to_add_4() -> tuple[Playbook, int]:
    book = formed()
    book.blank("4")
    book.run(1000)
    return book, book.add("1", "4", within_ms=20_000)


@pytest.mark.without(
    "core.membership.voter_changes:abandon", "if change.leave(request_id):", "if False:"
)
def test_addition_that_is_abandoned_after_the_replica_joined_leaves_an_observer():
    book, request = asked_to_add_4()
    until_joined(book, "4")
    book.abandon("1", request)
    book.run(5000)
    assert book.voters("1") == "{1,2,3}"
    assert book["4"].role == "follower"
    book.add("1", "4", within_ms=20_000)
    book.run(5000)
    assert book.voters("1") == "{1,2,3,4}"


@pytest.mark.without(
    "core.membership.discovery:_join",
    "replica.become_unattached(replica.epoch, election_at_ms=first)",
    "pass",
)
def test_replica_that_joined_follows_the_next_leader_if_the_one_that_asked_dies():
    book, _ = asked_to_add_4()
    until_joined(book, "4")
    book.crash("1")
    book.run(10_000)
    [leader] = book.leaders
    assert book["4"].role == "follower"
    assert book.voters(leader) == "{1,2,3}"
    book.add(leader, "4", within_ms=20_000)
    book.run(8000)
    assert book.voters(leader) == "{1,2,3,4}"


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "lost"])
def test_replica_that_is_killed_as_it_joins_is_added_after_its_restart(stored: bool):
    book, _ = asked_to_add_4()
    saved = book["4"].saved()
    until_joined(book, "4")
    book.crash("4")
    if not stored:
        book.put_back("4", saved)  # killed before the cluster id was durable
    assert (book["4"].disk.cluster_id is not None) == stored
    book.run(500)
    book.restart("4")
    book.run(8000)
    assert book.voters("1") == "{1,2,3,4}"


@pytest.mark.without("core.raft:RaftCore._join", "if same and same_latch:", "if not same:")
@pytest.mark.parametrize("same", [True, False], ids=["same", "other"])
def test_operators_join_after_the_leaders_is_done_already_or_refused(same: bool):
    book, _ = asked_to_add_4()
    until_joined(book, "4")
    cluster_id = CLUSTER_ID if same else "other"
    request = book.ask("4", lambda request_id: ClusterJoined(request_id, cluster_id))
    assert isinstance(book.answer(request), Refused) is not same
    book.run(8000)
    assert book.voters("1") == "{1,2,3,4}"


@pytest.mark.without(
    "core.membership.discovery:_note",
    "if progress.has_asked or progress.fenced:",
    "if progress.last_fetch_ms is not None or progress.fenced:",
)
def test_observer_of_a_higher_epoch_put_back_to_when_it_was_blank_is_not_blank_again():
    """Its Fetch showed that it had stored a vote in that epoch, which the copy has forgotten."""
    book = formed()
    book.blank("4")
    saved = book["4"].saved()
    cluster_id = book["1"].disk.cluster_id
    assert cluster_id is not None
    book.isolate("4")
    book.ask("4", lambda request_id: ClusterJoined(request_id, cluster_id))
    core = book["4"].core
    assert core is not None
    core.replica.persist(QuorumState(Epoch(9), None, key_of("2")))
    book.heal()
    book.run(1000)
    before = seen(book, "1", "4")
    assert before is not None
    assert before.higher_epoch == 9
    book.crash("4")
    book.put_back("4", saved)
    book.restart("4")
    book.run(3000)
    after = seen(book, "1", "4")
    assert after is not None
    assert not after.blank
    book.add("1", "4", within_ms=3000)
    book.run(1000)
    assert untouched(book, "4")
