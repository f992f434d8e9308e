"""raft.version on disk, on the wire and in the API (P54, P56, S18)."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from pydantic import ValidationError

from raftnode.api.model import FormRequest, UpgradeRequest, VoterSpec
from raftnode.commands.storage import parse_voters
from raftnode.core.messages import FetchRequest
from raftnode.core.records import RAFT_VERSION, Batch
from raftnode.core.state import Latch
from raftnode.core.types import (
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterSet,
    format_directory_id,
)
from raftnode.errors import ConfigurationError
from raftnode.logformat.sealed_json import seal, unseal
from raftnode.storage.directory.formation import decode_latch, encode_latch
from raftnode.wire import Codec, RequestFrame

ONE = ReplicaKey(NodeId(1), uuid.UUID(int=101))
TWO = ReplicaKey(NodeId(2), uuid.UUID(int=102))
LATCH = Latch("c-1", VoterSet.of([Voter(ONE, Endpoint("h", 9)), Voter(TWO)]))
FETCH = FetchRequest(
    Epoch(1), ONE, Offset(0), Epoch(-1), Offset(0), Offset(0), 0, 1, 1 << 20, 0, sequence=1
)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_latch_keeps_its_version(version: int):
    latch = replace(LATCH, raft_version=version)
    assert decode_latch(encode_latch(latch)) == latch


def test_older_programs_do_not_read_a_latch_that_they_would_upgrade():
    """They know version 1 of the file only, and would write raft.version 2 by themselves."""
    for version, of_file in ((0, 2), (1, 2), (RAFT_VERSION, 1)):
        fields, _ = unseal(encode_latch(replace(LATCH, raft_version=version)))
        assert fields["version"] == of_file
        assert ("raftVersion" in fields) is (of_file == 2)


def test_latch_of_a_later_version_is_refused():
    fields, _ = unseal(encode_latch(replace(LATCH, raft_version=0)))
    fields["raftVersion"] = RAFT_VERSION + 1
    with pytest.raises(ValueError, match=r"raft\.version 3"):
        decode_latch(seal(fields))


@pytest.mark.parametrize("version", [0, 1, 2, 7])
def test_fetch_carries_the_version_that_its_program_knows(version: int):
    codec = Codec(no_batches)
    request = replace(FETCH, raft_version_max=version)
    frame = codec.encode_request(
        request, source=ONE, target=TWO, cluster_id="c-1", correlation_id=5
    )
    decoded = codec.decode(frame)
    assert isinstance(decoded, RequestFrame)
    assert decoded.message == request


def no_batches(data: bytes | memoryview, *, allow_partial_tail: bool = False) -> tuple[Batch, ...]:
    assert not data
    assert not allow_partial_tail
    return ()


def spec(node_id: int, storage: int) -> VoterSpec:
    return VoterSpec(node_id=node_id, directory_id=format_directory_id(uuid.UUID(int=storage)))


def test_a_quorum_is_not_formed_with_an_id_twice():
    with pytest.raises(ValidationError, match=r"\[1\] are listed twice"):
        FormRequest(cluster_id="c", voters=(spec(1, 7), spec(2, 8), spec(1, 9)))
    own, other = format_directory_id(uuid.UUID(int=7)), format_directory_id(uuid.UUID(int=8))
    with pytest.raises(ConfigurationError, match="listed twice"):
        parse_voters(f"1-{own}@h:1,1-{other}@h:2")


@pytest.mark.parametrize("version", [-1, 3, 2**40])
def test_version_out_of_range_is_refused_by_name(version: int):
    with pytest.raises(ValidationError, match="raft_version"):
        UpgradeRequest(raft_version=version)
    with pytest.raises(ValidationError, match="raft_version"):
        FormRequest(cluster_id="c", voters=(spec(1, 7),), raft_version=version)
