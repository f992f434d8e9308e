"""Sample answers of a quorum, for tests of what reads them."""

import uuid
from collections.abc import Sequence

from raftnode.api.model import QuorumInfo, Replica, ReplicaProgress, VoterRecord
from raftnode.core.types import format_directory_id


def replica(node_id: int, disk: int = 0) -> Replica:
    """The replica of a node on its n-th disk."""
    directory_id = format_directory_id(uuid.UUID(int=((node_id + 1) << 96) + (disk + 1)))
    return Replica(node_id=node_id, directory_id=directory_id)


A, B, C, C2 = replica(0), replica(1), replica(2), replica(2, disk=1)


def progress(replica: Replica, *, lag: int = 0, fetched_ms_ago: int = 10) -> ReplicaProgress:
    """What a leader knows of a replica that is caught up if it does not lag."""
    return ReplicaProgress(
        node_id=replica.node_id,
        directory_id=replica.directory_id,
        endpoint=None,
        acknowledged_offset=100 - lag,
        lag=lag,
        last_fetch_age_ms=fetched_ms_ago,
        last_caught_up_age_ms=fetched_ms_ago,
        caught_up=lag == 0,
        fenced=False,
        incarnation=1,
    )


def quorum(
    leader: Replica,
    voters: Sequence[Replica],
    *,
    epoch: int = 1,
    observers: Sequence[tuple[Replica, int]] = (),
    lagging: Sequence[Replica] = (),
    committed: Sequence[Replica] | None = None,
) -> QuorumInfo:
    """An answer of DescribeQuorum; observers with the milliseconds since they fetched."""
    return QuorumInfo(
        cluster_id="made-up",
        leader=leader,
        epoch=epoch,
        high_watermark=100,
        log_end_offset=100,
        voters=tuple(progress(voter, lag=7 * (voter in lagging)) for voter in voters),
        committed_voters=tuple(voters if committed is None else committed),
        voter_record=VoterRecord(offset=4, epoch=1),
        voter_record_committed=committed is None,
        observers=tuple(
            progress(observer, lag=3, fetched_ms_ago=age) for observer, age in observers
        ),
        pending_change=None,
        formation_completed=True,
        epoch_committed=True,
        confirmed=True,
    )
