"""A reassignment's target on disk, in a snapshot, in the API and at the command line."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from raftnode.api.encode import control_fields
from raftnode.api.model import ReassignRequest, TargetSpec, VoterRecord
from raftnode.cli import make_app
from raftnode.core.events import Target
from raftnode.core.records import TargetVoters
from raftnode.core.types import (
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
    format_directory_id,
)
from raftnode.errors import DecodeError
from raftnode.logformat import (
    SnapshotHead,
    SnapshotId,
    decode_control_record,
    describe_control,
    encode_control_record,
)
from raftnode.storage.files import Files
from raftnode.storage.snapshots.snapshot_file import write_snapshot
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

pytestmark = pytest.mark.rule("P33", "S15")

ONE = Voter(ReplicaKey(NodeId(1), uuid.UUID(int=101)), Endpoint("h", 9093))
TWO = Voter(ReplicaKey(NodeId(2), uuid.UUID(int=102)))


@pytest.mark.parametrize("voters", [(), (ONE,), (ONE, TWO)], ids=len)
def test_target_comes_back(voters: tuple[Voter, ...]):
    record = TargetVoters(voters)
    key, value = encode_control_record(record)
    assert decode_control_record(key, value) == record
    for end in range(len(value)):
        with pytest.raises(DecodeError):
            decode_control_record(key, value[:end])
    with pytest.raises(DecodeError, match="left over"):
        decode_control_record(key, value + b"\0")


def test_target_with_a_voter_twice_is_refused():
    key, value = encode_control_record(TargetVoters((ONE, ONE)))
    with pytest.raises(DecodeError, match="twice"):
        decode_control_record(key, value)


@pytest.mark.rule("P49")
@pytest.mark.without(
    "logformat.control_fields:_own_fields",
    '{"target_voters": [str(voter.key) for voter in voters]}',
    '{"target_voters": []}',
)
def test_target_is_shown_by_name():
    record = TargetVoters((ONE, TWO))
    shown = describe_control(*encode_control_record(record))
    assert shown == ("TargetVoters", {"target_voters": [str(ONE.key), str(TWO.key)]})
    ids = [format_directory_id(one.key.directory_id) for one in (ONE, TWO)]
    assert control_fields(record) == {
        "target_voters": [
            {"node_id": 1, "directory_id": ids[0]},
            {"node_id": 2, "directory_id": ids[1]},
        ]
    }


@pytest.mark.parametrize("target", [VoterSet(), VoterSet.of([ONE, TWO])], ids=len)
def test_snapshot_carries_a_pending_target(tmp_path: Path, target: VoterSet):
    """S15. Writing no TargetVoters in `snapshot._quorum` makes this fail."""
    head = SnapshotHead(
        VoterSet.of([ONE]),
        2,
        formation_completed=True,
        target_voters=target,
        voter_record=VoterRecordId(Offset(4), Epoch(1)),
    )
    made = SnapshotId(Offset(9), Epoch(3))
    write_snapshot(Files(), tmp_path, made, head, (), now_ms=5)
    reader = SnapshotReader(Files(), tmp_path / made.file_name)
    assert list(reader.records()) == []
    assert reader.snapshot is not None
    assert reader.snapshot.head == head
    began = reader.snapshot.log_head
    assert began is not None
    assert began.target_voters == target


def test_request_names_replicas_with_or_without_their_storage():
    text = format_directory_id(uuid.UUID(int=101))
    specs = (TargetSpec(node_id=1, directory_id=text, endpoint="h:1"), TargetSpec(node_id=2))
    assert [spec.target for spec in specs] == [
        Target(NodeId(1), uuid.UUID(int=101), Endpoint("h", 1)),
        Target(NodeId(2)),
    ]


@pytest.mark.parametrize("count", [0, 10])
def test_request_has_one_to_nine_targets(count: int):
    record = VoterRecord(offset=1, epoch=1)
    with pytest.raises(ValidationError, match="targets"):
        ReassignRequest(targets=[TargetSpec(node_id=n) for n in range(count)], expected=record)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "one of --targets and --cancel"),
        (("--targets", "1", "--cancel"), "one of --targets and --cancel"),
        (("--targets", "1,,2"), "expected ID or ID-UUID"),
        (("--targets", "1-short"), "expected ID or ID-UUID"),
        (("--targets", "-1"), "expected ID or ID-UUID"),
    ],
)
def test_command_says_what_is_wrong_with_its_flags(arguments: tuple[str, ...], says: str):
    result = CliRunner().invoke(make_app(), ["metadata-quorum", "reassign", *arguments])
    assert result.exit_code == 2
    assert says in result.stderr
