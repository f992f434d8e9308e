"""What is not freed, and why: a removed replica above the leader's epoch waits for the next one."""

import pytest

from proofkit.playbook import Playbook
from raftnode.core.elections import election


@pytest.mark.rule("S9")
@pytest.mark.scenario("removed-voter-disrupts")
@pytest.mark.without(
    "core.elections.election:_judge_pre_vote",
    "epoch_rules.believed(replica, request.candidate, request.epoch, None)",
    "request.epoch > replica.epoch",
)
@pytest.mark.without(
    "core.replication.leadership:follow_higher_epoch",
    "epoch_rules.believed(replica, source, epoch, None)",
    "epoch > replica.epoch",
)
def test_removed_replica_with_a_higher_epoch_waits_and_disturbs_no_voter():
    """S9 goes before: a replica outside the set must not move a leader's epoch.

    It comes back by itself with the next election that reaches its epoch.
    """
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.isolate("4")
    book.remove("1", "4")
    book.settle()
    election.campaign(book["4"].replica)
    book["4"].disk.state = book["4"].replica.state
    book["4"].replica.effects.clear()
    book.heal()
    book.run(10_000)
    assert book.leaders == ["1"]
    assert (book["1"].replica.epoch, book["4"].replica.epoch) == (1, 2)
    assert book["4"].replica.leader is None
    book.elect("2")
    book.run(6000)
    assert book["4"].replica.epoch == book["2"].replica.epoch
    assert book["4"].role == "follower"
    assert book["4"].disk.log == book["2"].disk.log
