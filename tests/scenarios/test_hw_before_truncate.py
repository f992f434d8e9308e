"""`hw-before-truncate` (KAFKA-14704): a high watermark says nothing about a log that diverged."""

import pytest

from proofkit.playbook import Playbook
from raftnode.core.effects import TruncateLog
from raftnode.core.messages import FetchRequest
from raftnode.core.records import Batch
from raftnode.core.types import Epoch, Offset

pytestmark = pytest.mark.rule("P22", "P42")


def diverged() -> Playbook:
    """1 has two records that no other replica has; 2 leads, and committed five others."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    for data in (b"lost-1", b"lost-2"):
        book.append("1", data)
    book["1"].flush(book.now_ms)
    book.drop()
    book.elect("2")
    for count in range(5):
        book.append("2", b"kept-%d" % count)
    book.settle()
    book.crash("1")
    book.heal()
    book.restart("1")
    return book


def until_asked(book: Playbook) -> None:
    """Until a Fetch of 1 with its diverged log is on its way to the leader of its own epoch."""
    for _ in range(200):
        waiting = [m for m in book.pending if m.source == "1" and m.kind == "fetch"]
        request = waiting[0].request if waiting else None
        if isinstance(request, FetchRequest) and request.epoch == 2 and waiting[0].target == "2":
            return
        if not book.deliver(limit=1):
            book.wait(20, "1")
    raise AssertionError(book.describe())


@pytest.mark.scenario("hw-before-truncate")
@pytest.mark.without(
    "core.replication.fetcher:_take",
    "replica.truncate(replica.log.truncation_point(response.diverging))\n        return",
    "replica.truncate(replica.log.truncation_point(response.diverging))",
)
def test_follower_truncates_before_it_believes_a_high_watermark():
    """Taking the `return` after `replica.truncate` out of `fetcher._take` makes this fail.

    It needs two rounds to find where the logs part; after the first its log still
    holds records of epoch 2 that no other replica has.
    """
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.run(3000)
    [leader] = book.leaders
    book.crash(leader)
    book.restart(leader)
    book.run(5000)
    [leader] = book.leaders
    for count in range(5):
        book.append(leader, b"kept-%d" % count)
        book.settle()
    epoch = book[leader].replica.epoch
    assert epoch >= 3
    disk = book["1"].disk
    for offset, lost_epoch in ((6, 1), (7, 1), (8, epoch - 1)):
        disk.append((Batch(Offset(offset), Offset(offset), Epoch(lost_epoch), b"lost"),))
    disk.flush(disk.end)
    book.restart("1")
    rounds = 0
    for _ in range(500):
        if not book.deliver(limit=1):
            book["1"].flush(book.now_ms)
            book.wait(20, "1")
        rounds = sum(isinstance(effect, TruncateLog) for effect in book["1"].effects)
        if b"lost" in book["1"].records:
            assert book["1"].high_watermark <= 6
    assert rounds == 2
    assert book["1"].records == book[leader].records


@pytest.mark.scenario("hw-before-truncate")
@pytest.mark.without(
    "core.replication.leadership:handle_fetch",
    "replica.respond(request_id, _response(replica, role, ErrorCode.INVALID_REQUEST))\n        return\n    if _is_fenced",
    "replica.respond(request_id, _response(replica, role, ErrorCode.NONE))\n        return\n    if _is_fenced",
)
def test_answer_to_a_duplicated_fetch_carries_no_high_watermark_for_a_diverged_log():
    """The second copy of a Fetch is not compared with the log, so it must say nothing of it.

    Answering it with `ErrorCode.NONE` in `leadership.handle_fetch` makes this fail: the
    follower commits `lost-1`, and halts when the first answer tells it to truncate.
    """
    book = diverged()
    until_asked(book)
    book.repeat("fetch", "1", "2")
    book.deliver("fetch", "1", "2")
    answers = [m for m in book.pending if m.kind == "fetch-answer" and m.target == "1"]
    assert len(answers) == 2
    book.pending = [*reversed(answers), *(m for m in book.pending if m not in answers)]
    book.deliver("fetch-answer", "2", "1", limit=1)
    assert book["1"].high_watermark <= 6
    book.run(1000)
    assert book["1"].halted is None
    assert book["1"].records == book["2"].records
