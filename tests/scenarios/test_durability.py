"""S10, P42, P44: what counts is what is flushed; `single-node-lost-write`, `pause-then-stale-read`."""

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Confirmed, HighWatermarkAdvanced, Refused
from raftnode.core.events import LogFlushed, RequestReceived
from raftnode.core.roles import Leader
from raftnode.core.types import Offset

pytestmark = pytest.mark.rule("P44")


@pytest.mark.rule("S10")
@pytest.mark.scenario("single-node-lost-write")
@pytest.mark.without(
    "core.replication.leadership:_acknowledged",
    "yield replica.log.durable_end",
    "yield replica.log.end",
)
@pytest.mark.without(
    "core.replication.leadership:_acknowledged", "replica.log.durable_end", "replica.log.end"
)
def test_single_node_lost_write():
    """etcd #14370, S10: alone or not, a leader counts its own durable end only.

    Yielding `log.end` in `leadership._acknowledged` makes this fail.
    """
    book = Playbook.formed("1")
    book["1"].flushes = False
    book.append("1", b"in memory")
    book.settle()
    assert book["1"].high_watermark == book["1"].replica.log.end - 1
    book["1"].flush(book.now_ms)
    assert book["1"].high_watermark == book["1"].replica.log.end


@pytest.mark.rule("S10")
@pytest.mark.without(
    "core.replication.fetcher:_is_idle",
    " and replica.log.durable_end >= replica.log.end",
    "",
    "core.replication.fetcher:_next_fetch",
    "acknowledged_offset=replica.log.durable_end",
    "acknowledged_offset=replica.log.end",
)
def test_follower_acknowledges_what_it_has_flushed():
    """S10. Acknowledging what is in memory, which takes not waiting for it, makes this fail."""
    book = Playbook.formed("1", "2")
    before = book["1"].high_watermark
    book["2"].flushes = False
    book.append("1", b"x")
    book.settle()
    assert book["2"].replica.log.end == before + 1
    assert not [m for m in book.pending if m.source == "2"]
    assert book["1"].high_watermark == before
    book["2"].flush(book.now_ms)
    book.settle()
    assert book["1"].high_watermark == before + 1


@pytest.mark.rule("S10")
@pytest.mark.without(
    "core.replication.leadership:handle_fetch",
    "Offset(min(request.acknowledged_offset, request.fetch_offset))",
    "request.fetch_offset",
)
def test_pipelined_fetch_offset_is_no_acknowledgement():
    """S10. Counting `fetch_offset` in `leadership.handle_fetch` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("3")
    book.append("1", b"x")
    book["1"].flush(book.now_ms)
    parked = [m for m in book.pending if m.kind == "fetch-answer" and m.target == "2"]
    request = replace(
        parked[0].request, fetch_offset=Offset(7), sequence=10**9, acknowledged_offset=Offset(6)
    )
    book.give("1", RequestReceived(book.number(), key_of("2"), request))
    assert book["1"].high_watermark == 6


@pytest.mark.rule("S10")
@pytest.mark.without(
    "core.replica:Replica.raise_high_watermark",
    "min(self.high_watermark, self.log.durable_end)",
    "self.high_watermark",
)
def test_committed_is_applied_only_once_it_is_durable_here():
    """S10. Taking `durable_end` out of `Replica.raise_high_watermark` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book["1"].flushes = False
    book.append("1", b"x")
    book.settle()
    assert (book["1"].high_watermark, book["1"].replica.applicable) == (7, 6)
    effects = book["1"].flush(book.now_ms)
    assert HighWatermarkAdvanced(Offset(7), Offset(7)) in effects


@pytest.mark.rule("S10")
@pytest.mark.without(
    "core.raft:RaftCore._dispatch",
    "if event.truncations == replica.log.truncations:",
    "if True:",
)
def test_flush_from_before_a_truncation_says_nothing():
    """S10. Not comparing `truncations` in `RaftCore._dispatch` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    before = book["2"].replica.log.truncations
    book["2"].replica.truncate(Offset(6))
    book.append("1", b"x")
    book.deliver()
    assert book["2"].replica.log.end == 7
    book.give("2", LogFlushed(Offset(7), before))
    assert book["2"].replica.log.durable_end == 6


@pytest.mark.rule("P42")
@pytest.mark.without(
    "core.replication.leadership:after_progress",
    "offset > role.epoch_start and ",
    "",
)
def test_nothing_is_committed_before_an_entry_of_the_own_epoch():
    """P42. Taking `epoch_start` out of `leadership.after_progress` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book["3"].flushes = False
    book.append("1", b"of epoch 1")
    book.deliver()
    book["2"].flush(book.now_ms)
    book.crash("1")
    book.drop()
    book["2"].flushes = False
    book.elect("2")
    book["3"].flush(book.now_ms)
    book.settle()
    # Both hold offset 6 durably, but LeaderChange of epoch 2 at 7 only one of them.
    assert book["2"].replica.log.durable_end == 7
    assert book["2"].high_watermark == 6
    book["2"].flush(book.now_ms)
    book["3"].flush(book.now_ms)
    book.settle()
    assert book["2"].high_watermark == 8


@pytest.mark.rule("S11")
@pytest.mark.scenario("pause-then-stale-read")
@pytest.mark.without(
    "core.replication.leadership:answer_confirmations",
    "confirmation.token <= echoed and settled",
    "settled",
)
def test_pause_then_stale_read():
    """etcd #20418, S11: a leader that slept answers no read from memory.

    Not comparing tokens in `leadership.answer_confirmations` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.elect("2")
    book.append("2", b"newer")
    book.settle()
    read = book.confirm("1")
    assert book.answer(read) is None
    book.run(4000)
    assert isinstance(book.answer(read), Refused)


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.replication.leadership:answer_confirmations",
    "confirmation.token <= echoed and settled",
    "settled",
)
def test_confirmed_answer_needs_fetches_from_after_the_question():
    """S11. Counting any current Fetch makes this fail: it may have been on its way before."""
    book = Playbook.formed("1", "2", "3")
    for name in ("2", "3"):
        book["1"].replica.role.progress[key_of(name)].last_fetch_ms = book.now_ms
    read = book.confirm("1")
    assert book.answer(read) is None
    book.settle()
    assert isinstance(book.answer(read), Confirmed)


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.replication.leadership:answer_confirmations",
    "confirmation.token <= echoed and settled",
    "confirmation.token <= echoed",
)
def test_read_waits_for_an_entry_of_the_own_epoch():
    """S11. Taking `settled` out of `leadership.answer_confirmations` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    for name in ("2", "3"):
        book[name].flushes = False
    book.crash("1")
    book.elect("2")
    book["2"].replica.role.progress[key_of("3")].round_token = 99
    read, plain = book.confirm("2"), book.confirm("2", for_read=False)
    assert book.answer(read) is None
    assert isinstance(book.answer(plain), Confirmed)


@pytest.mark.rule("S8", "S11")
@pytest.mark.without(
    "core.replication.leadership:answer_confirmations",
    "for voter in replica.log.voters",
    "for voter in (replica.key, *replica.log.voters)",
)
def test_a_leader_outside_the_set_does_not_count_itself_in_a_round():
    """Of {2, 3}, 3 may have elected another with a vote of its own and of one that 1 has not heard.

    Counting the leader beside one voter of two would answer a read that is stale by then.
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.isolate("3")
    book.remove("1", "1")
    book.run(200)
    assert book.voters("1") == book.voters("2") == "{2,3}"
    read = book.confirm("1")
    plain = book.confirm("1", for_read=False)
    book.run(500)
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    assert role.progress[key_of("2")].round_token == role.round_token, "2 has echoed both"
    assert book.answer(read) is None
    assert book.answer(plain) is None
    book.heal()
    book.run(3000)
    assert book.answer(read) is not None
    assert book.voters("2") == "{2,3}"


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.replication.leadership:answer_confirmations",
    "for voter in replica.log.voters",
    "for voter in {*replica.log.voters, *role.progress}",
)
def test_observers_do_not_count_in_a_round():
    """They may follow a leader that all voters have left (hashicorp/raft #308)."""
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1000)
    book.isolate("2", "3")
    read = book.confirm("1")
    book.run(1000)
    role = book["1"].replica.role
    assert isinstance(role, Leader)
    assert all(role.progress[key_of(name)].round_token == role.round_token for name in "45")
    assert book.answer(read) is None


@pytest.mark.parametrize("names", [("1",), ("1", "2"), ("1", "2", "3", "4", "5")])
def test_confirmed_answer_in_a_quiet_quorum(names: tuple[str, ...]):
    book = Playbook.formed(*names)
    read = book.confirm("1")
    book.settle()
    assert book.answer(read) == Confirmed(read, book["1"].high_watermark)
