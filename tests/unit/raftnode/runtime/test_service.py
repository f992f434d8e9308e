"""What a node can say without its core, which may be waiting for a disk that hangs."""

from __future__ import annotations

import random
import uuid
from types import SimpleNamespace

import pytest

from raftnode.core.config import CoreConfig
from raftnode.core.log_index import LogIndex
from raftnode.core.replica import Replica
from raftnode.core.roles import Follower
from raftnode.core.state import QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, ReplicaKey
from raftnode.errors import RequestError
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.service import Service

OWN = ReplicaKey(NodeId(1), uuid.UUID(int=1))
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2))


class Hung:
    """A request to the core waits for ever."""

    async def ask(self, *_args, **_kwargs):
        raise AssertionError("the core was asked")


async def test_a_read_at_a_follower_names_the_leader_though_the_core_waits_for_its_disk():
    replica = Replica(OWN, CoreConfig(), random.Random(0), LogIndex(), QuorumState(Epoch(5)), "c")
    replica.role = Follower(OTHER, 0)
    service = Service(
        SimpleNamespace(replica=replica),
        None,
        Hung(),
        None,
        api_of=lambda _: Endpoint("other", 9),
        version="1",
        disk=DiskState(),
        stall=lambda: None,
    )
    for asked in (
        service.read_barrier(timeout_ms=1),
        service.describe_quorum(confirmed=True, timeout_ms=1),
    ):
        with pytest.raises(RequestError) as refused:
            await asked
        assert (refused.value.error, refused.value.leader) == ("NOT_LEADER", OTHER)
        assert refused.value.leader_api == Endpoint("other", 9)
