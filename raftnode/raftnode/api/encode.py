"""Convert the node's records to the API's JSON. Pure functions."""

from __future__ import annotations

import base64
from typing import assert_never

from raftnode.api.model import ReadResult, RecordOut
from raftnode.api.service import CommittedRecord, CommittedRecords
from raftnode.core.records import (
    AddVoter,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
    TargetVoters,
)
from raftnode.core.types import ReplicaKey, format_directory_id


def read_result(read: CommittedRecords) -> ReadResult:
    """Convert a part of the log to the form of `GET /v1/log`."""
    return ReadResult(
        records=tuple(record_out(record) for record in read.records),
        next_offset=read.next_offset,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
    )


def record_out(record: CommittedRecord) -> RecordOut:
    """Convert a record to the API's form."""
    control = record.control
    return RecordOut(
        offset=record.offset,
        epoch=record.epoch,
        timestamp_ms=record.timestamp_ms,
        control=type(control).__name__ if control is not None else None,
        fields=control_fields(control) if control is not None else None,
        key=base64_text(record.key),
        value=base64_text(record.value),
    )


def control_fields(control: ControlRecord) -> dict[str, object]:
    """Return a control record's fields; its kind is the class's name."""
    match control:
        case LeaderChange():
            return {
                "leader": _replica(control.leader),
                "voters": [_replica(key) for key in control.voters],
                "granting_voters": [_replica(key) for key in control.granting_voters],
            }
        case AddVoter():
            endpoint = control.voter.endpoint
            return {
                "voter": _replica(control.voter.key),
                "endpoint": str(endpoint) if endpoint else None,
            }
        case RemoveVoter():
            return {"voter": _replica(control.key)}
        case RaftVersion():
            return {"version": control.version}
        case FormationCompleted():
            return {}
        case TargetVoters(voters):
            return {"target_voters": [_replica(voter.key) for voter in voters]}
        case _:
            assert_never(control)


def base64_text(value: bytes | None) -> str | None:
    """Convert bytes to base64; None stays None (an absent key, a delete)."""
    return None if value is None else base64.b64encode(value).decode()


def _replica(key: ReplicaKey) -> dict[str, object]:
    return {
        "node_id": int(key.node_id),
        "directory_id": format_directory_id(key.directory_id),
    }
