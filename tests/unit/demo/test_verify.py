"""Each kind of damage, planted and found under its own figure and no other."""

import dataclasses

import pytest

from kraftquorum_demo.record import Record, Write
from kraftquorum_demo.verify import Verdict, compare
from raftnode.client import ListingEntry, LogRecord


def control(offset: int, epoch: int = 1, kind: str = "LeaderChange") -> LogRecord:
    return LogRecord(offset, epoch, 0, b"", b"", kind, {})


def entry(offset: int, key: str | None, value: bytes | None, epoch: int = 1) -> LogRecord:
    return LogRecord(offset, epoch, 0, None if key is None else key.encode(), value)


class Scene:
    """Six writes: five acknowledged at 1 to 5, one of unknown outcome; no damage."""

    def __init__(self) -> None:
        self.record = Record()
        self.log = [control(0)]
        for number, key in enumerate(["a", "b", None, "a", "c"], start=1):
            value = b"value %d" % number
            write = self.record.begin("w0", key, value, number)
            self.record.acknowledge(write, number, number + 0.5)
            self.log.append(entry(number, key, value))
        self.unknown = self.record.begin("w0", "d", b"unknown", 6)
        self.record.lose_sight(self.unknown, "cut", 6.5)

    @property
    def writes(self) -> list[Write]:
        return self.record.writes

    def store(self) -> list[ListingEntry]:
        newest: dict[str, ListingEntry] = {}
        for record in self.log:
            if record.control is None and record.key is not None:
                key = record.key.decode()
                newest.pop(key, None)
                if record.value is not None:
                    newest[key] = ListingEntry(key, record.value, record.offset)
        return sorted(newest.values(), key=lambda found: found.key)

    def compare(self, kv: list[ListingEntry] | None = None) -> Verdict:
        return compare(self.writes, self.log, self.store() if kv is None else kv)

    def renumber(self) -> None:
        self.log = [dataclasses.replace(found, offset=n) for n, found in enumerate(self.log)]


FIGURES = ("lost", "duplicated", "out_of_order", "bytes_mismatched", "unexpected")


def wrong(verdict: Verdict) -> dict[str, int]:
    return {name: getattr(verdict, name) for name in FIGURES if getattr(verdict, name)}


def test_an_undamaged_log_passes():
    verdict = Scene().compare()
    assert verdict.ok
    assert verdict.differences == []
    assert (verdict.acknowledged, verdict.unknown, verdict.unknown_found) == (5, 1, 0)


def test_an_unknown_write_may_be_there_once():
    scene = Scene()
    scene.log.append(entry(6, "d", b"unknown"))
    verdict = scene.compare()
    assert verdict.ok
    assert (verdict.unknown, verdict.unknown_found) == (1, 1)


def test_an_unknown_write_may_not_be_there_twice():
    scene = Scene()
    scene.log += [entry(6, "d", b"unknown"), entry(7, "d", b"unknown")]
    assert wrong(scene.compare()) == {"duplicated": 1}


def test_an_acknowledged_write_that_is_gone_is_lost():
    scene = Scene()
    del scene.log[5]
    verdict = scene.compare()
    assert wrong(verdict) == {"lost": 1}
    assert "acknowledged at 5, is not in the log" in verdict.differences[0]


def test_an_acknowledged_write_whose_place_another_took_is_lost():
    scene = Scene()
    scene.unknown.started_s = 4.2
    scene.log[5] = entry(5, "d", b"unknown")
    assert wrong(scene.compare()) == {"lost": 1}


def test_a_second_copy_is_duplicated():
    scene = Scene()
    scene.log.append(entry(6, "c", b"value 5"))
    assert wrong(scene.compare()) == {"duplicated": 1}


def test_a_write_at_another_offset_than_acknowledged_is_out_of_order():
    scene = Scene()
    scene.log[4], scene.log[5] = scene.log[5], scene.log[4]
    scene.renumber()
    assert wrong(scene.compare()) == {"out_of_order": 2}


def test_a_write_that_overtook_one_acknowledged_before_it_began_is_out_of_order():
    scene = Scene()
    late = scene.record.begin("w1", None, b"late", 5.6)
    scene.record.acknowledge(late, 3, 5.7)
    scene.log[3] = entry(3, None, b"late")
    assert wrong(scene.compare()) == {"lost": 1, "out_of_order": 1}


def test_an_unknown_write_that_stands_before_its_time_is_out_of_order():
    scene = Scene()
    scene.log[3] = entry(3, "d", b"unknown")
    assert wrong(scene.compare()) == {"lost": 1, "out_of_order": 1}


def test_concurrent_writes_may_stand_in_either_order():
    record = Record()
    one, two = record.begin("w0", None, b"1", 0.0), record.begin("w1", None, b"2", 0.1)
    record.acknowledge(two, 1, 0.2)
    record.acknowledge(one, 2, 0.3)
    log = [control(0), entry(1, None, b"2"), entry(2, None, b"1")]
    assert compare(record.writes, log, []).ok


def test_a_changed_byte_is_a_mismatch_and_not_a_stray():
    scene = Scene()
    scene.log[3] = entry(3, None, b"valuE 3")
    assert wrong(scene.compare()) == {"bytes_mismatched": 1}


def test_a_record_that_no_client_wrote_is_unexpected():
    scene = Scene()
    scene.log.append(entry(6, "e", b"stranger"))
    assert wrong(scene.compare()) == {"unexpected": 1}


def test_a_refused_write_that_was_done_is_unexpected():
    scene = Scene()
    scene.record.refuse(scene.record.begin("w1", "e", b"refused", 7), "no", 7.5)
    assert scene.compare().ok
    scene.log.append(entry(6, "e", b"refused"))
    assert wrong(scene.compare()) == {"unexpected": 1}


def test_a_refused_write_that_was_done_when_written_again_is_fine():
    scene = Scene()
    scene.record.refuse(scene.record.begin("w1", "e", b"again", 7), "no", 7.5)
    scene.record.acknowledge(scene.record.begin("w1", "e", b"again", 8), 6, 8.5)
    scene.log.append(entry(6, "e", b"again"))
    assert scene.compare().ok


def test_a_hole_in_the_offsets_is_out_of_order():
    scene = Scene()
    scene.log.append(control(9))
    assert wrong(scene.compare()) == {"out_of_order": 1}


def test_an_epoch_that_goes_back_is_out_of_order():
    scene = Scene()
    scene.log += [control(6, epoch=3), control(7, epoch=2)]
    assert wrong(scene.compare()) == {"out_of_order": 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda kv: kv[1:], {"lost": 1}),
        (lambda kv: [*kv, ListingEntry("z", b"?", 3)], {"unexpected": 1}),
        (lambda kv: [ListingEntry("a", b"value 1", 4), *kv[1:]], {"bytes_mismatched": 1}),
        (lambda kv: [ListingEntry("a", b"value 4", 1), *kv[1:]], {"bytes_mismatched": 1}),
    ],
)
def test_the_store_must_be_what_the_log_comes_to(change, expected):
    scene = Scene()
    assert wrong(scene.compare(change(scene.store()))) == expected


def test_a_deleted_key_is_not_in_the_store():
    scene = Scene()
    scene.log.append(entry(6, "a", None))
    verdict = scene.compare()
    assert wrong(verdict) == {"unexpected": 1}  # no client in this account deleted it
    assert all("store" not in text for text in verdict.differences)


def test_only_the_first_differences_are_told_and_all_are_counted():
    record = Record()
    for number in range(50):
        record.acknowledge(record.begin("w0", None, b"%d" % number, number), number, number + 0.5)
    verdict = compare(record.writes, [], [])
    assert verdict.lost == 50
    assert len(verdict.differences) == 20
