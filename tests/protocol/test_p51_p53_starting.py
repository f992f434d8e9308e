"""P51, P53: how a quorum begins, grows from one node, and lives on without its configuration.

KIP-642, bootstrapping: "the quorum.voters configuration can be removed" once the voters stand
in the log; S18 to S20 put the latch in the place of the configuration.
"""

import pytest

from proofkit.playbook import Playbook
from raftnode.core.types import VoterSet


@pytest.mark.rule("P51")
def test_p51_every_replica_is_of_the_cluster_before_the_first_vote():
    """The id is in the latch, since votes without one are refused (S5): no leader invents it."""
    book = Playbook()
    book.latch("1", "2", "3")
    ids = {book[name].replica.cluster_id for name in ("1", "2", "3")}
    assert len(ids) == 1
    assert None not in ids
    assert book.leaders == []
    assert all(book[name].replica.state.voted is None for name in ("1", "2", "3"))


@pytest.mark.rule("P53")
@pytest.mark.without(
    "core.replication.fetcher:_fetch_target",
    "            return None",
    "            return replica.key",
)
def test_p53_replica_that_knows_no_voter_asks_a_bootstrap_server():
    """Taking the `None` out of `fetcher._fetch_target` makes this fail."""
    book = Playbook.formed("1")
    book.observer("2")
    role = book["2"].replica.role
    assert not book["2"].replica.log.voters
    book.settle()
    assert book["2"].replica.log.end == book["1"].replica.log.end
    assert type(role).__name__ == "Unattached"
    assert book["2"].replica.leader == book["1"].replica.key


@pytest.mark.rule("P53")
def test_p53_quorum_grows_from_one_node_and_needs_no_configuration_afterwards():
    """After the first batch the log names the voters; the latched set counts no more."""
    book = Playbook.formed("1")
    for name in ("2", "3"):
        book.observer(name)
        book.run(2000)
        book.add("1", name)
        book.run(1000)
    assert book.voters("2") == book.voters("3") == "{1,2,3}"
    for name in ("2", "3"):
        log = book[name].replica.log
        assert log.base_voters == VoterSet(), "no record says which voters to vote with"
        assert log.has_voter_record
    book.crash("1")
    for name in ("2", "3"):
        book.crash(name)
        book.restart(name)
    book.run(8000)
    assert len(book.leaders) == 1, "two of three elect each other from their logs alone"
    book.append(book.leaders[0], b"x")
    book.settle()
    assert book[book.leaders[0]].records[-1] == b"x"


@pytest.mark.rule("P53")
def test_p53_voters_vote_before_the_log_names_them():
    """The latched set is in force while the log is empty (S19)."""
    book = Playbook()
    book.latch("1", "2", "3")
    book.stand("2")
    assert not book["2"].replica.log.has_voter_record
    assert {message.target for message in book.pending if message.kind in {"pre-vote", "vote"}} == {
        "1",
        "3",
    }
    book.settle()
    assert book.leaders == ["2"]
    assert book["1"].replica.log.has_voter_record
