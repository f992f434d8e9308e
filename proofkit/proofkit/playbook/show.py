"""Formats messages and effects as short words, for golden scripts."""

from __future__ import annotations

import re

from proofkit.playbook.message import Message, name_of
from raftnode.core.effects import (
    AppendAccepted,
    AppendBatches,
    Confirmed,
    Done,
    DropSnapshot,
    Effect,
    Fact,
    Halt,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeadershipLost,
    PersistQuorumState,
    Refused,
    StoreSnapshotPiece,
    TrimLog,
    TruncateLog,
    VerifySnapshot,
    VoterChangeCompleted,
)
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.records import Batch
from raftnode.core.types import ReplicaKey
from raftnode.runtime import reason_sentences

_KEY = re.compile(r"\d+-[A-Za-z0-9_-]{22}")


def names(text: str) -> str:
    """Replace each printed replica by its name."""
    return _KEY.sub(lambda match: name_of(ReplicaKey.parse(match.group())), text)


def show_key(key: ReplicaKey | None) -> str:
    """Return a replica's name, or a dash."""
    return name_of(key) if key else "-"


def show_message(message: Message) -> str:
    """`1 > 2 vote epoch=2 log=5@1`."""
    return f"{message.source} > {message.target or 'anybody'} {message.kind}{_body(message)}"


def _body(message: Message) -> str:
    request, response = message.request, message.response
    if response is not None:
        error = "" if response.error == ErrorCode.NONE else f" {ErrorCode(response.error).name}"
        text = f"{error} epoch={response.epoch} leader={show_key(response.leader)}"
        match response:
            case VoteResponse(granted=granted):
                return f"{text} {'granted' if granted else 'denied'}"
            case FetchSnapshotResponse(position=position, size=size, data=data):
                return f"{text} bytes={position}+{len(data)}/{size}"
            case FetchResponse(diverging=diverging, snapshot=snapshot, batches=batches) as fetched:
                text += f" committed={fetched.high_watermark}"
                if diverging is not None:
                    text += f" diverging={diverging.end_offset}@{diverging.epoch}"
                if snapshot is not None:
                    text += f" snapshot={snapshot.end_offset}@{snapshot.epoch}"
                return text + "".join(f" {show_batch(batch)}" for batch in batches)
            case _:
                return text
    match request:
        case VoteRequest(epoch=epoch, last=last):
            return f" epoch={epoch} log={last.end_offset}@{last.epoch}"
        case FetchRequest() as fetch:
            return (
                f" epoch={fetch.epoch} from={fetch.fetch_offset}@{fetch.last_fetched_epoch} "
                f"durable={fetch.acknowledged_offset}"
            )
        case FetchSnapshotRequest(epoch=epoch, snapshot=snapshot, position=position):
            where = f"{snapshot.end_offset}@{snapshot.epoch}"
            return f" epoch={epoch} snapshot={where} position={position}"
        case EndQuorumEpochRequest(epoch=epoch, preferred_successors=successors):
            order = ",".join(name_of(key) for key in successors)
            return f" epoch={epoch} successors={order}"
        case BeginQuorumEpochRequest(epoch=epoch):
            return f" epoch={epoch}"


def show_batch(batch: Batch) -> str:
    """`[5..6@2 LeaderChange]` or `[7@2 hello]`."""
    span = f"{batch.base_offset}"
    if batch.last_offset != batch.base_offset:
        span += f"..{batch.last_offset}"
    what = "+".join(type(control).__name__ for control in batch.control) or batch.data.decode()
    return f"[{span}@{batch.epoch} {what}]"


def show_effect(effect: Effect) -> str | None:
    """Return an effect in short words; None: a script leaves it out."""
    match effect:
        case PersistQuorumState(state):
            return (
                f"persists epoch={state.epoch} leader={show_key(state.leader)} "
                f"voted={show_key(state.voted)}"
            )
        case AppendBatches(batches):
            return "appends " + " ".join(show_batch(batch) for batch in batches)
        case TruncateLog(end):
            return f"truncates to {end}"
        case TrimLog(start):
            return f"trims to {start}"
        case StoreSnapshotPiece(snapshot, position, size, data):
            where = f"{snapshot.end_offset}@{snapshot.epoch}"
            return f"stores {where} bytes={position}+{len(data)}/{size}"
        case VerifySnapshot(snapshot):
            return f"reads {snapshot.end_offset}@{snapshot.epoch}"
        case InstallSnapshot(head):
            return f"installs {head.position.end_offset}@{head.position.epoch}"
        case DropSnapshot(snapshot):
            return f"drops {snapshot.end_offset}@{snapshot.epoch}"
        case HighWatermarkAdvanced(high_watermark, applicable):
            return f"committed={high_watermark} applicable={applicable}"
        case Fact(name, fields):
            said = " ".join(f"{key}={value}" for key, value in fields if key != "epoch")
            return names(f"fact {name} {said}".rstrip())
        case Halt(reason):
            return names(f"HALTS: {reason_sentences.halt(reason)}")
        case LeadershipLost(epoch):
            return f"leads epoch {epoch} no more"
        case AppendAccepted(base_offset=offset):
            return f"accepts at {offset}"
        case Refused(refusal=refusal, reason=reason, outcome=outcome):
            return names(f"refuses {refusal.value} ({outcome}): {reason_sentences.refusal(reason)}")
        case VoterChangeCompleted(voters=voters):
            return names(f"completes voters={voters}")
        case Confirmed(high_watermark=high_watermark):
            return f"confirms committed={high_watermark}"
        case Done():
            return "is done"
        case _:
            return None
