from __future__ import annotations

from raftnode.core.types import Epoch, Offset
from raftnode.logformat.epochs import EpochIndex, EpochStart

INDEX = EpochIndex((EpochStart(Epoch(1), Offset(0)), EpochStart(Epoch(4), Offset(10))))


def starts(index: EpochIndex) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in index.entries]


def test_only_a_batch_of_a_new_epoch_starts_one() -> None:
    assert INDEX.with_started(Epoch(4), Offset(30)) is INDEX
    assert starts(INDEX.with_started(Epoch(6), Offset(30))) == [(1, 0), (4, 10), (6, 30)]
    assert starts(EpochIndex().with_started(Epoch(0), Offset(0))) == [(0, 0)]


def test_a_truncation_takes_the_epochs_that_have_no_record_left() -> None:
    assert [starts(INDEX.truncated(Offset(end))) for end in (0, 1, 10, 11)] == [
        [],
        [(1, 0)],
        [(1, 0)],
        [(1, 0), (4, 10)],
    ]
    assert (INDEX.last_epoch, INDEX.truncated(Offset(10)).last_epoch) == (4, 1)
    assert EpochIndex().last_epoch == -1
