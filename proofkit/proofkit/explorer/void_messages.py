"""Finds messages without any later effect, so that worlds which differ only in them are equal."""

from __future__ import annotations

from proofkit.explorer.local import Letter, Local, under_way_at
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from raftnode.core.roles import Candidate, Leader


def is_void(local: Local, letter: Letter) -> bool:
    """Whether delivery at any time would change nothing and cause no message."""
    response = letter.response
    if response is None:
        return False
    if local.core is None:
        return True
    replica = local.core.replica
    if isinstance(letter.request, FetchRequest | FetchSnapshotRequest):
        return letter.request not in under_way_at(local)
    if response.epoch > replica.epoch:
        return False
    match letter.request:
        case VoteRequest(pre_vote=True) as request:
            return request.epoch < replica.epoch
        case VoteRequest() as request:
            return request.epoch < replica.epoch or not isinstance(replica.role, Candidate)
        case BeginQuorumEpochRequest() as request:
            return request.epoch < replica.epoch or not isinstance(replica.role, Leader)
        case EndQuorumEpochRequest():
            return True
