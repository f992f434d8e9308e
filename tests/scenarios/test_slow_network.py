"""`election-timeout<rpc-timeout` (fluree #1373): elections that end before any vote can come."""

from pathlib import Path
from random import Random

import pytest

from proofkit.playbook import Playbook
from raftnode.core.config import CoreConfig
from raftnode.errors import ConfigurationError
from raftnode.settings import NodeSettings, load_settings

pytestmark = [pytest.mark.rule("P57"), pytest.mark.scenario("election-timeout<rpc-timeout")]

ROUND_TRIP_MS = 400
STEP_MS = 20


def settings(election_timeout_ms: int) -> NodeSettings:
    """A node's, on a network where an answer may take a whole round trip."""
    return load_settings(
        {
            "node_id": 1,
            "log_dir": Path("/data"),
            "request_timeout_ms": ROUND_TRIP_MS,
            "election_timeout_ms": election_timeout_ms,
            "fetch_max_wait_ms": 50,
        }
    )


def leader_within(duration_ms: int, election_timeout_ms: int) -> bool:
    """Whether three are led, once, where every message takes half a round trip."""
    book = Playbook(CoreConfig(election_timeout_ms=election_timeout_ms))
    book.latch("1", "2", "3")
    for number, node in enumerate(book.nodes.values()):
        node.replica.rng = Random(number)
    sent: dict[int, int] = {}
    for _ in range(duration_ms // STEP_MS):
        book.wait(STEP_MS)
        for node in book.nodes.values():
            node.flush(book.now_ms)
        waiting, book.pending = book.pending, []
        for message in waiting:
            if book.now_ms - sent.setdefault(message.number, book.now_ms) < ROUND_TRIP_MS // 2:
                book.pending.append(message)
            else:
                book.pending.insert(0, message)
                assert book.deliver(limit=1) == 1
        if book.leaders:
            return True
    return False


@pytest.mark.without(
    "settings.checks:cross_checks",
    "2 * settings.election_timeout_ms >= settings.request_timeout_ms",
    "True",
)
@pytest.mark.rule("P57")
def test_election_that_no_answer_can_come_to_in_time_is_refused_at_the_start():
    """The document's own defaults have an election last half as long as a request may take."""
    with pytest.raises(ConfigurationError, match="might never end"):
        settings(ROUND_TRIP_MS // 2 - 10)
    assert settings(ROUND_TRIP_MS // 2).election_timeout_ms == ROUND_TRIP_MS // 2


def test_refused_one_never_ends_and_one_with_room_does():
    assert not leader_within(30_000, election_timeout_ms=ROUND_TRIP_MS // 2 - 10)
    assert leader_within(30_000, election_timeout_ms=1000)
