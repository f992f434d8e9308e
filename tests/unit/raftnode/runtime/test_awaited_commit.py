"""However many clients of a follower wait for a commit, the core hears of it once."""

from __future__ import annotations

import pytest

from proofkit.playbook import Playbook
from raftnode.core.config import CoreConfig
from raftnode.core.events import CommitAwaited
from raftnode.core.roles import Follower
from raftnode.core.types import NO_OFFSET, Offset
from raftnode.runtime.awaited_commit import AwaitedCommit

CLIENTS = 2000


@pytest.fixture
def book() -> Playbook:
    formed = Playbook.formed("1", "2", "3", config=CoreConfig())
    formed.run(1000)
    return formed


def watched(book: Playbook, name: str) -> tuple[AwaitedCommit, list[CommitAwaited]]:
    posted: list[CommitAwaited] = []
    return AwaitedCommit(book[name].replica, posted.append), posted


@pytest.mark.without(
    "runtime.awaited_commit:AwaitedCommit.wait", "if awaited > self._reported:", "if True:"
)
def test_the_core_hears_once_of_all_clients_that_wait_for_the_same_record(book):
    awaited_commit, posted = watched(book, "2")
    end = book["2"].replica.log.end
    for _ in range(CLIENTS):
        awaited_commit.wait(end)
        awaited_commit.wait(Offset(1 << 60))
        awaited_commit.wait(Offset(end - 1))
    assert posted == [CommitAwaited(end)]


def test_the_core_hears_of_each_further_record_that_a_client_waits_for(book):
    awaited_commit, posted = watched(book, "2")
    first = book["2"].replica.log.end
    awaited_commit.wait(first)
    book.append("1", b"next")
    book.run(100)
    second = book["2"].replica.log.end
    assert second > first
    awaited_commit.wait(second)
    assert posted == [CommitAwaited(first), CommitAwaited(second)]


@pytest.mark.without("runtime.awaited_commit:AwaitedCommit.wait", "role is not self._role or ", "")
def test_a_follower_tells_its_core_again_in_a_new_role(book):
    """The core keeps what is awaited in the role."""
    awaited_commit, posted = watched(book, "2")
    replica = book["2"].replica
    awaited_commit.wait(replica.log.end)
    leader = replica.leader
    replica.become_follower(replica.epoch, leader)
    assert isinstance(replica.role, Follower)
    assert replica.role.awaited == NO_OFFSET
    awaited_commit.wait(replica.log.end)
    assert posted == [CommitAwaited(replica.log.end)] * 2


@pytest.mark.without(
    "runtime.awaited_commit:AwaitedCommit.wait", " or log.truncations != self._truncations", ""
)
def test_a_follower_tells_its_core_again_after_a_truncation(book):
    """The core had bounded what is awaited by an end of the log that may be gone."""
    awaited_commit, posted = watched(book, "2")
    log = book["2"].replica.log
    end = log.end
    awaited_commit.wait(end)
    log.truncate(Offset(end - 1))
    awaited_commit.wait(end)
    assert posted == [CommitAwaited(end), CommitAwaited(Offset(end - 1))]


def test_a_leader_is_told_nothing(book):
    awaited_commit, posted = watched(book, "1")
    awaited_commit.wait(book["1"].replica.log.end)
    assert posted == []
