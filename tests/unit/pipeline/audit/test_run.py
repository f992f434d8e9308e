"""The audit finds each kind of damage, names it, and says where and what the other sides have."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kraftquorum_pipeline.audit.engine import LocalEngine, SnapshotFile
from kraftquorum_pipeline.audit.findings import Finding, Verdict
from kraftquorum_pipeline.audit.replica_files import find_replicas
from kraftquorum_pipeline.audit.run import Audit
from kraftquorum_pipeline.audit.states import SnapshotSum
from proofkit.replicadirs import (
    FIRST_MS,
    History,
    add_snapshot,
    batches_in,
    flip,
    key_of,
    quorum_history,
    replace_batch,
    segments,
    write_quorum,
    write_replica,
)
from raftnode.core.records import AddVoter, Batch, LeaderChange, RaftVersion
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, Offset
from raftnode.logfiles import LOG_DIRECTORY, LOG_START_FILE, Files
from raftnode.logformat import Record, StateRecord, encode_control_batch, encode_data_batch, stamp
from raftnode.storage.directory.identity import MARKER_FILE
from raftnode.storage.directory.quorum_state import encode_quorum_state
from raftnode.storage.log.checkpoints import write_log_start

Run = Callable[..., Verdict]


def only(verdict: Verdict, *checks: str) -> Finding:
    """The first finding; nothing but these checks was found."""
    assert verdict.word == "damaged"
    assert set(verdict.counts) == set(checks), [f.lines() for f in verdict.findings]
    return verdict.findings[0]


def named(finding: Finding, replica: str, file: Path, offset: int) -> None:
    place = finding.place
    assert (place.replica, place.file, place.offset) == (replica, str(file), offset)


def test_sound_files_are_found_sound(quorum: list[Path], audit: Run):
    verdict = audit([quorum[0].parent])
    assert (verdict.word, verdict.findings, verdict.unchecked) == ("ok", [], [])
    assert verdict.checked["records"] == 3 * verdict.committed_end
    assert verdict.checked["elections"] == 3
    assert verdict.checked["snapshots"] == 3


# -- one bit, in each region of a batch ------------------------------------------------

REGIONS = {
    "base offset": (7, "offsets"),
    "base offset, far": (2, "offsets"),
    "length": (11, "readable"),
    "length, far": (8, "readable"),
    "leader epoch": (15, "epochs"),
    "magic": (16, "readable"),
    "checksum": (18, "crc"),
    "attributes": (22, "readable"),
    "last offset delta": (26, "readable"),
    "base timestamp": (33, "crc"),
    "largest timestamp": (41, "crc"),
    "producer": (45, "crc"),
    "record count": (60, "readable"),
    "records": (70, "crc"),
    "the last byte": (-1, "crc"),
}


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_flipped_bit(quorum: list[Path], audit: Run, region: str, number: int):
    at, check = REGIONS[region]
    segment = segments(quorum[1])[2]
    position, header = batches_in(segment)[number]
    flip(segment, position + at % header.size, bit=6 if region == "attributes" else 0)
    verdict = audit(quorum)
    assert check in verdict.counts or {"crc", "readable"} & set(verdict.counts), verdict.counts
    # The one batch is named and no other; its epoch is also what the others contradict.
    found = verdict.findings[0]
    named(found, "node-1", segment, int(header.base_offset))
    assert {one.place.offset for one in verdict.findings} == {int(header.base_offset)}
    assert {one.place.replica for one in verdict.findings} == {"node-1"}
    assert found.place.position == position
    assert {other.replica for other in found.others} == {"node-0", "node-2"}
    assert all(f"crc {header.crc:#010x}" in other.holds for other in found.others)


def test_a_flipped_epoch_is_found_without_the_checkpoint(quorum: list[Path], audit: Run):
    for path in quorum:
        (path / LOG_DIRECTORY / "leader-epoch-checkpoint").unlink()
    segment = segments(quorum[1])[2]
    position, header = batches_in(segment)[3]
    flip(segment, position + 15, bit=3)
    found = only(audit(quorum), "epochs", "log_matching")
    assert found.place.offset == header.base_offset


# -- batches that are whole, and wrong ---------------------------------------------------


def test_a_record_swapped_for_another_with_a_right_checksum(quorum: list[Path], audit: Run):
    segment = segments(quorum[2])[3]
    position, header = batches_in(segment)[2]
    records = [Record(b"key 001", b"not what was written")] * header.record_count
    body = encode_data_batch(records, header.base_timestamp_ms)
    replace_batch(segment, 2, stamp(body, header.base_offset, header.epoch))
    found = only(audit(quorum), "log_matching")
    named(found, "node-2", segment, int(header.base_offset))
    assert found.place.position == position
    assert "not what was written" in found.place.holds
    assert [other.replica for other in found.others] == ["node-0", "node-1"]
    assert all("value " in other.holds for other in found.others)


def test_the_last_batch_swapped_for_another_of_its_epoch(quorum: list[Path], audit: Run):
    """Nothing behind it that both have again: its own epoch is enough."""
    segment = segments(quorum[2])[-1]
    number = len(batches_in(segment)) - 1
    _, header = batches_in(segment)[number]
    body = encode_data_batch([Record(b"key", b"x")] * header.record_count, FIRST_MS)
    replace_batch(segment, number, stamp(body, header.base_offset, header.epoch))
    found = only(audit(quorum), "log_matching")
    named(found, "node-2", segment, int(header.base_offset))
    assert found.reason == "epoch 4 has other bytes here than at node-0"


def test_two_replicas_that_differ_show_both_sides(quorum: list[Path], audit: Run):
    segment = segments(quorum[2])[3]
    _, header = batches_in(segment)[2]
    body = encode_data_batch([Record(b"key", b"x")] * header.record_count, FIRST_MS)
    replace_batch(segment, 2, stamp(body, header.base_offset, header.epoch))
    found = only(audit(quorum[1:]), "log_matching")
    assert {found.place.replica, *(o.replica for o in found.others)} == {"node-1", "node-2"}


def test_an_offset_twice(quorum: list[Path], audit: Run):
    segment = segments(quorum[0])[1]
    position, header = batches_in(segment)[4]
    whole = segment.read_bytes()
    again = whole[position : position + header.size]
    segment.write_bytes(whole[: position + header.size] + again + whole[position + header.size :])
    found = only(audit(quorum), "offsets")
    assert "a second time" in found.reason
    assert found.place.file == str(segment)
    assert found.place.position == position + header.size


def test_a_batch_taken_out(quorum: list[Path], audit: Run):
    segment = segments(quorum[0])[1]
    _, header = batches_in(segment)[4]
    replace_batch(segment, 4, b"")
    found = only(audit(quorum), "offsets")
    named(found, "node-0", segment, int(header.base_offset))
    assert found.reason == f"offsets {header.base_offset} to {header.last_offset} are missing"
    assert {other.replica for other in found.others} == {"node-1", "node-2"}


def test_a_segment_gone(quorum: list[Path], audit: Run):
    gone, following = segments(quorum[0])[2:4]
    offset = int(batches_in(gone)[0][1].base_offset)
    gone.unlink()
    found = only(audit(quorum), "offsets")
    named(found, "node-0", following, offset)
    assert "a segment is missing" in found.reason


def test_the_first_segment_gone(quorum: list[Path], audit: Run):
    for path in (quorum[0] / LOG_DIRECTORY).glob("*.checkpoint"):
        path.unlink()
    segments(quorum[0])[0].unlink()
    found = only(audit(quorum), "offsets")
    assert "no snapshot covers the records before it" in found.reason


def test_a_log_trimmed_behind_a_snapshot_is_sound(quorum: list[Path], audit: Run):
    end = audit(quorum).replicas["node-0"]["snapshots"][0]
    trim(quorum, end)
    verdict = audit(quorum)
    assert (verdict.word, verdict.findings) == ("ok", [])
    assert verdict.replicas["node-1"]["start_offset"] > 0
    assert any("the log was trimmed" in note for note in verdict.notes)


def test_a_segment_cut_short_in_the_middle(quorum: list[Path], audit: Run):
    segment = segments(quorum[0])[2]
    position, header = batches_in(segment)[-1]
    segment.write_bytes(segment.read_bytes()[: position + 20])
    found = only(audit(quorum), "readable")
    named(found, "node-0", segment, int(header.base_offset))


def test_an_empty_directory_of_a_log(quorum: list[Path], audit: Run):
    for segment in segments(quorum[0]):
        segment.unlink()
    found = only(audit(quorum), "readable")
    assert found.place.replica == "node-0"


# -- ends --------------------------------------------------------------------------------


def test_a_replica_cut_below_what_was_durable(quorum: list[Path], audit: Run):
    newest = segments(quorum[2])[-1]
    position, header = batches_in(newest)[2]
    newest.write_bytes(newest.read_bytes()[:position])
    verdict = audit(quorum)
    found = only(verdict, "offsets")
    named(found, "node-2", newest, int(header.base_offset))
    assert "records that this replica acknowledged are lost" in found.reason
    assert verdict.committed_end == verdict.replicas["node-0"]["end_offset"]


def cut(path: Path, batches: int) -> int:
    """Take batches off the end as if they had never come; returns the new end."""
    newest = segments(path)[-1]
    position, header = batches_in(newest)[-batches]
    newest.write_bytes(newest.read_bytes()[:position])
    (path / LOG_DIRECTORY / "flushed-offset").unlink()
    point = path / LOG_DIRECTORY / "recovery-point-offset-checkpoint"
    point.write_text(f"0\n1\n__cluster_metadata 0 {header.base_offset}\n")
    return int(header.base_offset)


def test_a_follower_that_lags_is_no_fault(quorum: list[Path], audit: Run):
    end = cut(quorum[2], 3)
    verdict = audit(quorum)
    assert verdict.word == "ok"
    assert verdict.committed_end == verdict.replicas["node-0"]["end_offset"] > end
    assert any("node-2 is a voter" in note and "behind" in note for note in verdict.notes)


def test_a_majority_below_what_was_committed(quorum: list[Path], audit: Run):
    told = audit(quorum).committed_end
    ends = [cut(quorum[2], 3), cut(quorum[0], 2)]
    assert audit(quorum).word == "ok"  # nothing in the files says otherwise
    found = only(audit(quorum, committed=told), "committed_prefix")
    assert found.place.offset == ends[0]
    assert found.reason.startswith("only 1 of 3 voters have the log up to the committed offset")


def test_a_last_leader_alone_with_its_first_record_hides_nothing(tmp_path: Path, audit: Run):
    """As a quorum that was stopped node by node leaves it."""
    history, longer = quorum_history(), quorum_history()
    longer.lead(key_of(2), 5)
    paths = write_quorum(tmp_path / "all", history)
    [alone] = [path for path in write_quorum(tmp_path / "more", longer) if path.name == "node-2"]
    paths = [alone if path.name == "node-2" else path for path in paths]
    verdict = audit(paths)
    assert (verdict.word, verdict.committed_end) == ("ok", history.end)
    # With one voter unknown, it may be that which led with other records.
    [snapshot] = history.states
    assert audit(paths[1:]).committed_end == snapshot


def test_what_a_later_leader_lacks_is_not_proved(tmp_path: Path, audit: Run):
    """It won without the others' last batches, which a majority has, and its own is not theirs."""
    history, other = quorum_history(), quorum_history()
    del other.batches[-3:]
    fork = other.end
    other.lead(key_of(2), 5)
    paths = write_quorum(tmp_path / "all", history)
    [later] = [path for path in write_quorum(tmp_path / "other", other) if path.name == "node-2"]
    verdict = audit([later if path.name == "node-2" else path for path in paths])
    assert verdict.committed_end == fork < history.end


def test_what_a_dead_leader_of_a_later_epoch_would_cut_off_is_not_proved(
    tmp_path: Path, audit: Run
):
    """Raft's figure 8: a majority has it, in an epoch older than that of a leader that fell."""

    def until_the_fork() -> History:
        history = History(voters=tuple(key_of(number) for number in range(5)))
        history.lead(key_of(0), 1)
        history.write(20)
        return history

    short, fallen, longer, newest = (until_the_fork() for _ in range(4))
    fork = short.end
    # Node 3 was elected in epoch 2 before node 2 had the last batches; then it fell.
    fallen.lead(key_of(3), 2)
    for history in (longer, newest):
        history.write(3)
    newest.lead(key_of(0), 3)
    led = QuorumState(Epoch(3), key_of(0))
    logs = [(newest, led), (longer, led), (longer, led)]
    logs += [(fallen, QuorumState(Epoch(2), key_of(3))), (short, QuorumState(Epoch(1), key_of(0)))]
    paths = [
        write_replica(tmp_path / f"node-{number}", key_of(number), history.batches, state=state)
        for number, (history, state) in enumerate(logs)
    ]
    verdict = audit(paths)
    assert verdict.word == "ok", [f.lines() for f in verdict.findings]
    assert verdict.committed_end == fork < longer.end


def test_a_snapshot_proves_what_was_committed(quorum: list[Path], audit: Run):
    end = audit(quorum).replicas["node-0"]["snapshots"][0]
    for path in quorum[1:]:
        for one in (path / LOG_DIRECTORY).glob("*.checkpoint"):
            one.unlink()
        while batches_in(segments(path)[-1])[0][1].base_offset >= end - 2:
            segments(path)[-1].unlink()
        left = [one for _, one in batches_in(segments(path)[-1]) if one.end_offset > end - 2]
        cut(path, len(left))
    found = only(audit(quorum), "committed_prefix")
    assert f"up to the committed offset {end} (a snapshot of node-0)" in found.reason


def test_a_torn_end_is_no_fault(quorum: list[Path], audit: Run):
    newest = segments(quorum[2])[-1]
    newest.write_bytes(newest.read_bytes() + batches_in_bytes(newest)[:50])
    verdict = audit(quorum)
    assert verdict.word == "ok"
    assert any("an unfinished batch" in note for note in verdict.notes)


def batches_in_bytes(segment: Path) -> bytes:
    return segment.read_bytes()


# -- leaders and ends that went their own way ------------------------------------------------


def test_a_stale_end_of_a_replica_that_was_away_is_no_fault(tmp_path: Path, audit: Run):
    history = quorum_history()
    paths = write_quorum(tmp_path, history)
    start = next(b for b in history.batches if b.epoch == 4).base_offset
    away = [batch for batch in history.batches if batch.base_offset < start]
    body = encode_data_batch([Record(b"lost", b"never committed")], FIRST_MS)
    away.append(Batch(start, start, Epoch(3), stamp(body, start, Epoch(3))))
    shutil.rmtree(paths[2])
    write_replica(paths[2], history.voters[1], away)
    verdict = audit(paths)
    assert verdict.word == "ok", [f.lines() for f in verdict.findings]
    assert any(
        "1 records from offset" in note and "it was not running" in note for note in verdict.notes
    )
    assert verdict.replicas[paths[2].name]["agreed_end"] == start


def test_two_committed_histories(tmp_path: Path, audit: Run):
    """Same epochs at both ends, other epochs before: no replica was merely away."""
    history = quorum_history()
    paths = write_quorum(tmp_path, history)
    forged = [b for b in history.batches if b.epoch < 4]
    other = History(forged[:], voters=history.voters, epoch=3)
    other.write(3)
    other.lead(key_of(2), 4)
    shutil.rmtree(paths[2])
    write_replica(paths[2], history.voters[1], other.batches)
    verdict = audit(paths)
    assert {"one_leader"} <= set(verdict.counts)
    assert {"committed_prefix", "log_matching"} & set(verdict.counts)


def test_two_leaders_in_an_epoch(quorum: list[Path], audit: Run):
    segment, number, header = find_control(quorum[1], LeaderChange, epoch=3)
    change = LeaderChange(key_of(1, disk=1), (), ())
    replace_batch(segment, number, control(header.base_offset, 3, change))
    verdict = audit(quorum)
    only(verdict, "log_matching", "one_leader")
    found = next(one for one in verdict.findings if one.check == "one_leader")
    assert found.place.offset == header.base_offset
    assert f"{key_of(2)}" in found.reason
    assert f"{key_of(1, disk=1)}" in found.reason
    assert {found.place.replica, *(one.replica for one in found.others)} >= {"node-1"}


def test_a_vote_file_that_names_another_leader(quorum: list[Path], audit: Run):
    path = quorum[2] / LOG_DIRECTORY / "quorum-state"
    own = key_of(2)
    path.write_bytes(encode_quorum_state(QuorumState(Epoch(4), own), own.directory_id))
    found = only(audit(quorum), "one_leader")
    assert found.reason.startswith("epoch 4 has 2 leaders")
    assert any(one.file == str(path) for one in (found.place, *found.others))


def test_an_epoch_without_its_leaders_record(quorum: list[Path], audit: Run):
    for path in quorum:
        segment, number, header = find_control(path, LeaderChange, epoch=3)
        replace_batch(segment, number, control(header.base_offset, 3, RaftVersion(2)))
    found = only(audit(quorum), "one_leader")
    assert found.place.offset == header.base_offset
    assert "does not begin with its leader's record" in found.reason


# -- voter sets ----------------------------------------------------------------------------


def test_voters_that_change_by_two_at_once(tmp_path: Path, audit: Run):
    history = quorum_history()
    history.control(AddVoter_of(3), AddVoter_of(4))
    found = only(audit(write_quorum(tmp_path, history)), "voter_sets")
    assert "the voters change by 2 at once" in found.reason
    assert found.place.offset == history.end - 1


def test_a_voter_change_that_the_log_does_not_have(quorum: list[Path], audit: Run):
    """Another record in its place, on all replicas: only what a leader wrote down tells."""
    for path in quorum:
        segment, number, header = find_control(path, AddVoter, epoch=1, last=True)
        replace_batch(segment, number, control(header.base_offset, 1, RaftVersion(2)))
    verdict = audit(quorum)
    only(verdict, "voter_sets", "snapshots")
    reasons = [one.reason for one in verdict.findings if one.check == "voter_sets"]
    assert f"the leader of epoch 3 names other voters: with {key_of(1, disk=1)}" in reasons


@pytest.mark.parametrize("who", ["a voter is added", "a stranger is removed"])
def test_a_change_that_changes_nothing(tmp_path: Path, audit: Run, who: str):
    history = quorum_history()
    if who == "a voter is added":
        history.add(key_of(0))
    else:
        history.remove(key_of(7))
    history.voters = history.voters[:3]
    found = only(audit(write_quorum(tmp_path, history)), "voter_sets")
    assert "was a voter" in found.reason or "was not a voter" in found.reason


# -- snapshots -----------------------------------------------------------------------------


def snapshot(path: Path) -> Path:
    return next((path / LOG_DIRECTORY).glob("*.checkpoint"))


@pytest.mark.parametrize(
    "change",
    [
        lambda r: [r[0]._replace(value=b"wrong"), *r[1:]],
        lambda r: r[1:],
        lambda r: [*r, StateRecord(b"key zzz", b"made up", Offset(9), Epoch(1))],
        lambda r: [r[0]._replace(offset=Offset(r[0].offset - 1)), *r[1:]],
    ],
    ids=["wrong value", "a key missing", "a key too many", "wrong origin"],
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_snapshot_that_is_not_the_log(tmp_path: Path, audit: Run, change, everywhere: bool):
    history = quorum_history()
    paths = write_quorum(tmp_path, history)
    [end] = history.states
    for path in paths if everywhere else paths[:1]:
        snapshot(path).unlink()
        add_snapshot(path, history, end, change=change)
    verdict = audit(paths)
    only(verdict, "snapshots")
    [found, *_] = [one for one in verdict.findings if "key " in one.reason]
    named(found, "node-0", snapshot(paths[0]), end)
    assert found.others[0].replica == "the log"


def test_snapshots_of_one_offset_that_differ(quorum: list[Path], audit: Run, tmp_path: Path):
    """Trimmed below it: there is no log left to hold it against, only the others."""
    history = quorum_history()
    [end] = history.states
    snapshot(quorum[0]).unlink()
    add_snapshot(quorum[0], history, end, change=lambda r: r[1:])
    trim(quorum, end)
    found = only(audit(quorum), "snapshots")
    assert found.reason.endswith("differs from another replica's snapshot at the same offset")
    assert {found.place.replica, found.others[0].replica} >= {"node-0"}


def test_a_snapshot_with_other_voters(tmp_path: Path, audit: Run):
    history = quorum_history()
    paths = write_quorum(tmp_path, history)
    [end] = history.states
    snapshot(paths[2]).unlink()
    add_snapshot(paths[2], history, end, voters=[key_of(0), key_of(1), key_of(2)])
    found = only(audit(paths), "snapshots")
    assert found.reason == "the snapshot has other voters than the log up to that offset"


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_flipped_bit_in_a_snapshot(quorum: list[Path], audit: Run, share: float):
    path = snapshot(quorum[1])
    flip(path, int(path.stat().st_size * share), bit=2)
    found = only(audit(quorum), "snapshots")
    named(found, "node-1", path, int(path.name[:20]))


def test_a_snapshot_cut_short(quorum: list[Path], audit: Run):
    path = snapshot(quorum[1])
    path.write_bytes(path.read_bytes()[:-80])
    assert only(audit(quorum), "snapshots").place.file == str(path)


def test_a_snapshot_under_another_name(quorum: list[Path], audit: Run):
    path = snapshot(quorum[1])
    path.rename(path.with_name(path.name.replace("253-", "251-")))
    assert only(audit(quorum), "snapshots").place.replica == "node-1"


# -- the small files -------------------------------------------------------------------------


def test_a_storage_uuid_that_differs_in_its_places(quorum: list[Path], audit: Run):
    marker = quorum[1] / LOG_DIRECTORY / MARKER_FILE
    marker.write_text("AAAAAAAAAAAAAAAAAAAABQ\n")
    found = only(audit(quorum), "identity")
    assert found.place.replica == "node-1"


def test_a_directory_that_is_a_copy(quorum: list[Path], audit: Run):
    copy = Path(shutil.copytree(quorum[0], quorum[0].parent / "copy"))
    found = only(audit([*quorum, copy]), "identity")
    assert f"two directories are of replica {key_of(0)}" in found.reason


def test_another_cluster(tmp_path: Path, quorum: list[Path], audit: Run):
    path = quorum[1]
    for name in ("meta.properties", "formation.json"):
        text = (path / name).read_text()
        (path / name).write_text(text.replace("TestTestTestTestTestTe", "Test" * 5 + "TT"))
    assert "identity" in audit(quorum).counts


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "quorum-state"])
def test_a_flipped_bit_in_a_small_file(quorum: list[Path], audit: Run, name: str):
    path = quorum[1] / LOG_DIRECTORY / name
    flip(path, path.stat().st_size - 4)
    verdict = audit(quorum)
    assert verdict.word == "damaged"
    assert {one.place.replica for one in verdict.findings} == {"node-1"}


# -- what else a start looks at --------------------------------------------------------------


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_first_segment_gone_though_a_snapshot_covers_it(
    quorum: list[Path], audit: Run, trimmed: bool
):
    """A trim says where the log begins before it removes anything; here no trim has happened."""
    if trimmed:
        trim(quorum, audit(quorum).replicas["node-0"]["snapshots"][0] // 2)
    assert audit(quorum).word == "ok"
    gone, following = segments(quorum[0])[:2]
    gone.unlink()
    found = only(audit(quorum), "offsets")
    named(found, "node-0", following, int(gone.stem))
    missing = f"offsets {int(gone.stem)} to {int(following.stem) - 1} are missing"
    assert found.reason.startswith(missing)


def test_a_trim_that_is_not_finished_is_no_fault(quorum: list[Path], audit: Run):
    [_, second, *_] = segments(quorum[0])
    write_log_start(Files(), second.parent / LOG_START_FILE, Offset(int(second.stem)))
    assert audit(quorum).word == "ok"


SMALL = {
    f"{LOG_DIRECTORY}/log-start-offset-checkpoint": ("readable", "damaged"),
    f"{LOG_DIRECTORY}/recovery-point-offset-checkpoint": ("readable", "gone"),
    f"{LOG_DIRECTORY}/leader-epoch-checkpoint": ("epochs", "gone"),
    "formation.json": ("identity", "gone"),
    "incarnation": ("identity", "gone"),
    "peer-starts": ("identity", "damaged"),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_file_without_which_no_node_starts(quorum: list[Path], audit: Run, name: str):
    check, how = SMALL[name]
    file = quorum[1] / name
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(b"nonsense")
    found = only(audit(quorum), check)
    assert found.place.replica == "node-1"
    assert file.name in found.reason


# -- a node that runs on -----------------------------------------------------------------------


class Meanwhile(LocalEngine):
    """Does something before it reads the snapshots."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do

    def snapshots(self, files: Sequence[SnapshotFile]) -> list[SnapshotSum]:
        self._do()
        return super().snapshots(files)


class Afterwards(Meanwhile):
    """Does it once the snapshots have been read."""

    def snapshots(self, files: Sequence[SnapshotFile]) -> list[SnapshotSum]:
        sums = LocalEngine.snapshots(self, files)
        self._do()
        return sums


def test_a_snapshot_that_a_node_replaces_meanwhile_is_no_fault(quorum: list[Path]):
    old = snapshot(quorum[1])
    newer = old.with_name(f"{int(old.name[:20]) + 5:020d}{old.name[20:]}")
    verdict = Audit(find_replicas(quorum), Meanwhile(lambda: old.rename(newer))).run()
    assert (verdict.word, verdict.findings) == ("ok", [])
    assert any("node-1 has replaced its snapshot" in note for note in verdict.notes)


def test_a_snapshot_that_was_read_and_is_damaged_is_a_fault_though_it_is_replaced_then(
    quorum: list[Path],
):
    old = snapshot(quorum[1])
    newer = old.with_name(f"{int(old.name[:20]) + 5:020d}{old.name[20:]}")
    flip(old, old.stat().st_size // 2)
    found = only(
        Audit(find_replicas(quorum), Afterwards(lambda: old.rename(newer))).run(), "snapshots"
    )
    named(found, "node-1", old, int(old.name[:20]))
    assert "checksum" in found.reason


def test_a_snapshot_that_a_node_sets_aside_as_damaged_is_a_fault(quorum: list[Path]):
    old = snapshot(quorum[1])
    newer = old.with_name(f"{int(old.name[:20]) + 5:020d}{old.name[20:]}")
    aside = old.with_name(f"{old.name}.damaged")

    def set_aside() -> None:
        shutil.copyfile(old, newer)
        old.rename(aside)

    found = only(Audit(find_replicas(quorum), Meanwhile(set_aside)).run(), "snapshots")
    named(found, "node-1", old, int(old.name[:20]))
    assert aside.name in found.reason


def test_a_snapshot_that_is_gone_once_it_is_opened_was_replaced_as_well(
    quorum: list[Path], monkeypatch: pytest.MonkeyPatch
):
    old = snapshot(quorum[1])
    newer = old.with_name(f"{int(old.name[:20]) + 5:020d}{old.name[20:]}")
    look = Files.stat

    def stat(files: Files, path: Path):
        there = look(files, path)
        if path == old and there is not None:
            old.rename(newer)
        return there

    replicas = find_replicas(quorum)
    monkeypatch.setattr(Files, "stat", stat)
    verdict = Audit(replicas, LocalEngine()).run()
    assert (verdict.word, verdict.findings) == ("ok", [])


def test_a_snapshot_that_is_gone_for_none_is_a_fault(quorum: list[Path]):
    old = snapshot(quorum[1])
    found = only(Audit(find_replicas(quorum), Meanwhile(old.unlink)).run(), "snapshots")
    assert "does not exist" in found.reason


# -- helpers ----------------------------------------------------------------------------------


def trim(paths: list[Path], end: int) -> None:
    """Remove what a snapshot that ends there covers, as a node does."""
    for path in paths:
        covered = [one for one in segments(path)[:-1] if batches_in(one)[-1][1].end_offset <= end]
        start = Offset(batches_in(covered[-1])[-1][1].end_offset)
        write_log_start(Files(), path / LOG_DIRECTORY / LOG_START_FILE, start)
        for segment in covered:
            segment.unlink()


def AddVoter_of(number: int) -> AddVoter:  # noqa: N802 - reads as the record that it makes
    from proofkit.replicadirs import voter  # noqa: PLC0415

    return AddVoter(voter(key_of(number)))


def control(offset: int, epoch: int, *records) -> bytes:
    last = Offset(offset + len(records) - 1)
    return encode_control_batch(Batch(Offset(offset), last, Epoch(epoch), b"", records), FIRST_MS)


def find_control(path: Path, kind: type, *, epoch: int, last: bool = False):
    """Segment, number in it and header of a control batch of one record of a kind."""
    from raftnode.logformat import iter_records  # noqa: PLC0415

    found = []
    for segment in segments(path):
        data = segment.read_bytes()
        for number, (position, header) in enumerate(batches_in(segment)):
            if header.is_control and header.epoch == epoch and header.record_count == 1:
                [record] = iter_records(data[position : position + header.size])
                if isinstance(record.control, kind):
                    found.append((segment, number, header))
    return found[-1] if last else found[0]
