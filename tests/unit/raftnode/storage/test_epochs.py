from __future__ import annotations

from raftnode.core.records import Batch
from raftnode.core.types import Epoch, LogPosition, Offset
from raftnode.storage.batch import Record, encode_data_batch, stamp
from raftnode.storage.epochs import EpochIndex, EpochStart


def batch(base: int, epoch: int = 1, count: int = 1, size: int = 20) -> Batch:
    records = [Record(None, base.to_bytes(8, "big") + bytes(size))] * count
    data = stamp(encode_data_batch(records, 1), Offset(base), Epoch(epoch))
    return Batch(Offset(base), Offset(base + count - 1), Epoch(epoch), data)


def test_the_epoch_index_answers_where_logs_part() -> None:
    index = EpochIndex((EpochStart(Epoch(1), Offset(0)), EpochStart(Epoch(4), Offset(10))))
    ends = [index.end_of(Epoch(e), Offset(20)) for e in (0, 1, 3, 4, 9)]
    assert ends == [
        LogPosition(Epoch(e), Offset(o)) for e, o in ((-1, 0), (1, 10), (1, 10), (4, 20), (4, 20))
    ]
    assert [index.epoch_at(Offset(o)) for o in (0, 9, 10, 11)] == [1, 1, 4, 4]
    assert index.with_started(Epoch(4), Offset(30)) is index
