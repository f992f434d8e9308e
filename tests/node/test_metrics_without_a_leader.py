"""A scrape before the quorum forms, in an election, without a majority and of an observer.

What a node does not know has no series, or the value that its help text names: never a number that
belongs to another moment.
"""

from __future__ import annotations

import asyncio

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum

from .scrapes import Scrape, scrape, scraped_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("P58", "P59")]

LEADERS_SERIES = (
    "raftnode_fault_tolerance",
    "raftnode_peer_caught_up",
    "raftnode_peer_lag_records",
    "raftnode_peer_lag_seconds",
    "raftnode_peer_fetch_age_seconds",
)
LEADERS_COUNTS = (
    "raftnode_observers",
    "raftnode_possible_voters",
    "raftnode_pending_add_voter",
    "raftnode_pending_remove_voter",
    "raftnode_uncommitted_voter_change",
    "raftnode_append_queue_bytes",
    "raftnode_uncommitted_bytes",
)
ROLES = {"blank", "unattached", "prospective", "candidate", "follower", "leader", "resigned"}


def assert_knows_nothing_of_a_leader(shown: Scrape) -> None:
    for name in LEADERS_SERIES:
        assert name not in shown.samples, name
    for name in LEADERS_COUNTS:
        assert shown.value(name.removeprefix("raftnode_")) == 0, name


async def test_before_the_quorum_forms_nothing_is_known(quorum: LocalQuorum) -> None:
    nodes = quorum.nodes[:3]
    for node in nodes:
        node.start()
    await quorum.wait_running(nodes)
    for node in nodes:
        shown = await scrape(node)
        assert shown.roles == {"blank"}
        for name in ("current_leader", "current_epoch", "current_vote", "log_end_epoch"):
            assert shown.value(name) == -1, name
        for name in ("voters", "high_watermark", "log_end_offset", "caught_up", "incarnation"):
            assert shown.value(name) == (1 if name == "incarnation" else 0), name
        assert shown.samples["raftnode_current_vote_directory_info"] == [({"directory_id": ""}, 1)]
        assert shown.value("voter_record_offset") == -1
        assert_knows_nothing_of_a_leader(shown)


async def test_without_a_majority_no_leader_and_no_commit_is_shown(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    for number in range(10):
        await quorum.client.put(f"key-{number}", b"value")
    leader = await quorum.leader()
    rest, away = [node for node in quorum.nodes[:3] if node is not leader]
    committed = (await quorum.info(leader)).high_watermark
    epoch = (await quorum.info(leader)).epoch
    await scraped_until(
        rest, lambda scraped: scraped.value("high_watermark") == committed, "the commit"
    )
    away.kill()
    leader.kill()
    shown = await scraped_until(
        rest, lambda scraped: scraped.value("current_leader") == -1, "a node that lost its leader"
    )
    assert shown.roles <= {"prospective", "unattached", "candidate"}
    assert len(shown.roles) == 1
    assert shown.value("caught_up") == 0
    assert shown.value("high_watermark") == committed
    assert shown.value("current_epoch") >= epoch
    assert_knows_nothing_of_a_leader(shown)

    # After a restart it does not know how much of its log is committed.
    end = (await quorum.info(rest)).log_end_offset
    rest.kill()
    rest.start()
    await quorum.wait_running([rest])
    shown = await scraped_until(
        rest,
        lambda scraped: scraped.value("current_leader") == -1,
        "a node that waited for its leader",
    )
    assert shown.value("log_end_offset") == end
    assert shown.value("high_watermark") <= committed
    assert shown.value("voters") == 3
    assert_knows_nothing_of_a_leader(shown)


@pytest.mark.quorum_settings(
    RAFTNODE_FETCH_TIMEOUT_MS="1000",
    RAFTNODE_ELECTION_TIMEOUT_MS="500",
    RAFTNODE_REQUEST_TIMEOUT_MS="1000",
    RAFTNODE_FETCH_MAX_WAIT_MS="200",
)
async def test_each_scrape_of_an_election_is_of_one_moment(quorum: LocalQuorum) -> None:
    """Only a leader shows the others, it names itself, and its epoch has no other leader."""
    await quorum.form(3)
    first = await quorum.leader()
    epoch = (await quorum.info(first)).epoch
    rest = [node for node in quorum.nodes[:3] if node is not first]
    scrapes: list[tuple[LocalNode, Scrape]] = []

    async def another_leads() -> bool:
        current = [(node, await scrape(node)) for node in rest]
        scrapes.extend(current)
        epochs = {shown.value("current_epoch") for _, shown in current}
        named = {shown.value("current_leader") for _, shown in current}
        return len(epochs) == len(named) == 1 and min(epochs) > epoch and min(named) >= 0

    assert not await another_leads()
    first.kill()
    deadline = asyncio.get_running_loop().time() + 60
    while not await another_leads():
        assert asyncio.get_running_loop().time() < deadline, "no other leader"
    leaders: dict[float, set[float]] = {}
    for node, shown in scrapes:
        assert len(shown.roles) == 1
        assert shown.roles <= ROLES
        leads = shown.roles == {"leader"}
        for name in LEADERS_SERIES:
            assert (name in shown.samples) == leads, (name, shown.roles)
        named = shown.value("current_leader")
        assert (named == node.node_id) == leads
        if not leads:
            assert_knows_nothing_of_a_leader(shown)
        if named != -1:
            leaders.setdefault(shown.value("current_epoch"), set()).add(named)
    assert any(shown.value("current_leader") == -1 for _, shown in scrapes)
    assert len(leaders) >= 2
    assert all(len(names) == 1 for names in leaders.values()), leaders


async def test_an_observer_shows_its_own_state_and_nothing_of_the_voters(
    quorum: LocalQuorum,
) -> None:
    await quorum.form(3)
    observer = quorum.nodes[3]
    observer.start()
    await quorum.observe(observer)
    leader = await quorum.leader()
    shown = await scraped_until(
        observer, lambda scraped: scraped.value("caught_up") == 1, "an observer that is caught up"
    )
    assert shown.roles == {"observer"}
    assert shown.value("current_leader") == leader.node_id
    assert shown.value("current_vote") == -1
    assert shown.value("voters") == 3
    assert shown.value("elections_total") == 0
    assert_knows_nothing_of_a_leader(shown)
