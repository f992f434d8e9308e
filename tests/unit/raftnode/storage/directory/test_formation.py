from __future__ import annotations

import uuid

import pytest

from raftnode.core.state import Latch
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from raftnode.logformat.sealed_json import seal
from raftnode.storage.directory.formation import decode_latch, encode_latch

OWN = uuid.UUID("f1e2d3c4-0000-4000-8000-000000000001")


ONE = ReplicaKey(NodeId(1), OWN)


TWO = ReplicaKey(NodeId(2), uuid.UUID(int=7))


LATCH = Latch("c-1", VoterSet.of([Voter(ONE, Endpoint("h", 9)), Voter(TWO)]))


@pytest.mark.rule("P54", "S18")
@pytest.mark.without(
    "storage.directory.formation:decode_latch", "if intact is not True:", "if False:"
)
@pytest.mark.without("storage.directory.formation:decode_latch", 'text(fields, "clusterId")', "'c'")
def test_latch_comes_back_and_rot_in_it_is_refused() -> None:
    data = encode_latch(LATCH)
    assert decode_latch(data) == LATCH
    for byte in range(len(data) - 1):
        rotten = bytearray(data)
        rotten[byte] ^= 1
        with pytest.raises(ValueError):
            decode_latch(bytes(rotten))


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 2, "clusterId": "c", "voters": []},
        {"version": 1, "clusterId": "c"},
        {"version": 1, "clusterId": 5, "voters": []},
        {"version": 1, "clusterId": "c", "voters": [1]},
        {
            "version": 1,
            "clusterId": "c",
            "voters": [{"id": -1, "directoryId": "J8aAPcfLQt2bqs1JT_rMgQ"}],
        },
        {"version": 1, "clusterId": "c", "voters": [{"id": 1}]},
        {
            "version": 1,
            "clusterId": "c",
            "voters": [{"id": 1, "directoryId": "J8aAPcfLQt2bqs1JT_rMgQ"}] * 2,
        },
    ],
)
def test_other_latches_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        decode_latch(seal(fields))  # type: ignore[arg-type]
