"""A replica that knows a higher epoch than the leader's is freed, without a person."""

import pytest

from proofkit.playbook import Playbook
from raftnode.core.elections import election
from raftnode.core.events import ResponseReceived
from raftnode.core.messages import ErrorCode, FetchResponse
from raftnode.core.roles import Prospective
from raftnode.core.types import Epoch


def failed_candidate(book: Playbook, name: str) -> None:
    """Let `name` raise its epoch in an election of which no other replica hears."""
    book.isolate(name)
    book.settle()
    book.drop()
    election.campaign(book[name].replica)
    book[name].disk.state = book[name].replica.state
    book[name].replica.effects.clear()


@pytest.mark.without(
    "core.replication.fetcher:_learn_leader",
    "epoch_rules.believed(replica, source, response.epoch, leader)",
    "response.epoch > replica.epoch",
)
def test_observer_takes_no_epoch_without_a_leader_from_a_failed_candidate():
    """An observer cannot stand, so no election could bring it back to the quorum's epoch.

    Adopting any higher epoch in `fetcher._learn_leader` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    failed_candidate(book, "3")
    book.observer("4")
    [fetch] = [m for m in book.pending if m.source == "4"]
    book.pending.remove(fetch)
    answer = FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(2), None)
    book.give("4", ResponseReceived(book["3"].key, fetch.request, answer))
    book.crash("3")
    book.run(5000)
    assert book["4"].role == "follower"
    assert book["4"].records == book["1"].records


@pytest.mark.without(
    "core.replication.leadership:handle_fetch",
    "follow_higher_epoch(replica, role, source, request.epoch)",
    "pass",
)
def test_leader_adopts_the_epoch_of_its_own_voter_that_fetches():
    """Taking the adoption out of `leadership.handle_fetch` makes this fail.

    The voter has to stand to be freed, but the voters that it knows may all be gone.
    """
    book = Playbook.formed("1", "2", "3")
    failed_candidate(book, "3")
    book.heal()
    book["3"].replica.role = type(book["3"].replica.role)(gives_up_at_ms=10**9, retries=0)
    book.crash("3")
    book.restart("3")
    # It asks for no vote, only for records.
    for _ in range(20):
        book.wait(20, "3")
        book.drop("pre-vote", "3")
        book.drop("vote", "3")
        book.settle()
        if book["1"].replica.epoch >= 2:
            break
    assert book["1"].replica.epoch >= 2
    book.run(5000)
    assert book["3"].replica.epoch == book["1"].replica.epoch
    assert book["3"].role in {"follower", "leader"}


@pytest.mark.without(
    "core.replication.fetcher:_try_later",
    "_lose_patience(replica)",
    "pass",
)
def test_observer_leaves_a_leader_that_fell_behind_its_own_epoch():
    """A leader whose volume went back in time never leads that epoch again.

    Losing patience only on missing answers makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    old = book["1"].saved()
    book.elect("2")
    book.elect("1")
    book.observer("4")
    book.run(1000)
    assert book["4"].replica.leader == book["1"].key
    assert book["4"].replica.epoch == 3
    book.crash("1")
    incarnation = book["1"].disk.incarnation
    book["1"].disk = old
    book["1"].disk.incarnation = incarnation
    book.isolate("2", "3")
    book.restart("1")
    book.run(4000)
    assert book["4"].role == "unattached"


@pytest.mark.without(
    "core.elections.election:handle_vote_response",
    "role.leader_hint = None if own else hint",
    "role.leader_hint = hint",
)
def test_replica_that_is_called_the_leader_does_not_ask_itself():
    """Voters that still take it for their leader name it; that is no address to ask.

    Taking the comparison with the own id out of `election.handle_vote_response` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.restart("1")
    book.impatient("1")
    book.deliver("fetch", "1")
    book.deliver("fetch-answer", "", "1")
    book.deliver("pre-vote", "1")
    book.deliver("pre-vote-answer", "", "1")
    role = book["1"].replica.role
    assert isinstance(role, Prospective)
    assert role.leader_hint is None
