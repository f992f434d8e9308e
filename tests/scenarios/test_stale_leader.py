"""S3: an observer alone has seen what the leader of today has forgotten, and no replica believes it."""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.roles import Leader


def data(book: Playbook, name: str) -> list[bytes]:
    return [batch.data for batch in book[name].disk.log if batch.data]


def leads_its_epoch_twice() -> Playbook:
    """1 was elected in epoch 2, has forgotten it, and was elected in epoch 2 again.

    Only 4, an observer, has records of the first time; nothing of them was committed.
    """
    book = Playbook.formed("1", "2", "3", leader="3")
    book.observer("4")
    book.run(500)
    book.close_gates()
    book.settle()
    copy = book["1"].saved()
    book.isolate("2")
    book.crash("3")
    book.restart("3")
    book.now_ms += 4_000
    book.impatient("1")
    while not isinstance(book["1"].replica.role, Leader):
        assert book.deliver()
    book.drop("begin")
    book.crash("3")
    for text in (b"lost 0", b"lost 1"):
        book.append("1", text)
    book.run(1_500)
    assert data(book, "4") == [b"lost 0", b"lost 1"]
    assert book["1"].replica.epoch == 2
    book.crash("1")
    book.put_back("1", copy)
    book.heal()
    book.isolate("4")
    book.restart("1")
    book.now_ms += 4_000
    book.impatient("1")
    book.run(1_000)
    assert isinstance(book["1"].replica.role, Leader)
    assert book["1"].replica.epoch == 2
    for text in (b"kept 0", b"kept 1", b"kept 2"):
        book.append("1", text)
    book.run(1_000)
    book.heal()
    return book


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.replication.peer_memory:_forgotten", "if start.epoch < peer.epoch:", "if False:"
)
def test_an_observer_takes_no_log_of_a_leader_that_it_knows_as_a_copy():
    """The last record of its log has an epoch and an offset that the leader has, too.

    Were it to follow, it would go on behind the wrong records, become a voter with them, and
    give them to others in the place of those that are committed.
    """
    book = leads_its_epoch_twice()
    refusals: list[str] = []
    book.on_refusal = refusals.append
    book.run(10_000)
    book.append("1", b"kept 3")
    book.run(1_000)
    assert data(book, "4") == [b"lost 0", b"lost 1"]
    assert "4 refuses 1: it is in epoch 1, but it had been in epoch 2" in refusals
    assert not book["1"].disk.stale


@pytest.mark.rule("S3")
def test_an_empty_disk_brings_such_an_observer_back():
    book = leads_its_epoch_twice()
    book.run(5_000)
    reborn = book.wipe("4")
    book.run(3_000)
    assert book[reborn].replica.leader == key_of("1")
    assert data(book, reborn) == [b"kept 0", b"kept 1", b"kept 2"]
