"""An endpoint with an IPv6 address comes back from every place that one is written to."""

from __future__ import annotations

import uuid

import pytest

from raftnode.api.model import VoterSpec
from raftnode.core.records import AddVoter
from raftnode.core.state import Latch
from raftnode.core.types import (
    Endpoint,
    NodeId,
    ReplicaKey,
    Voter,
    VoterSet,
    format_directory_id,
)
from raftnode.logformat import decode_control_record, encode_control_record
from raftnode.settings.values import VoterAddress
from raftnode.storage.directory.formation import decode_latch, encode_latch
from raftnode.transport.hello import Hello, Identity, decode_hello, encode_hello
from raftnode.wire import extensions

KEY = ReplicaKey(NodeId(1), uuid.UUID(int=(4 << 76) | 7))
ADDRESS = Endpoint("fd00::7", 9093)
VOTER = Voter(KEY, ADDRESS)


@pytest.mark.parametrize("host", ["fd00::7", "[fd00::7]"])
def test_a_record_of_either_form_is_read_as_the_same_address(host: str) -> None:
    """Nodes of an earlier version wrote the brackets as part of the host."""
    record = AddVoter(Voter(KEY, Endpoint(host, 9093)))
    key, value = encode_control_record(record)
    assert decode_control_record(key, value) == AddVoter(VOTER)


def test_it_comes_back_from_the_latch_the_hello_and_a_frame() -> None:
    latch = Latch("MkU3OEVBNTcwNTJENDM2Qg", VoterSet.of([VOTER]), 2)
    assert decode_latch(encode_latch(latch)) == latch
    hello = Hello(Identity(KEY, None, 1, ADDRESS, Endpoint("::1", 9080)))
    assert decode_hello(encode_hello(hello)) == hello
    assert extensions.read_optional_endpoint({1: extensions.endpoint(ADDRESS)}, 1) == ADDRESS


def test_it_comes_back_from_the_api_and_from_settings() -> None:
    directory_id = format_directory_id(KEY.directory_id)
    given = VoterSpec(node_id=1, directory_id=directory_id, endpoint="[fd00::7]:9093")
    assert given.endpoint == str(ADDRESS)
    assert given.voter == VOTER
    assert VoterAddress.parse("1@[fd00::7]:9093") == VoterAddress(1, ADDRESS)
    for text in ("fd00::7:9093", "[fd00::7]", "[nowhere]:1", "[:.:]:1", "[::1::2]:1"):
        with pytest.raises(ValueError, match=r"not an endpoint|not a host"):
            VoterSpec(node_id=1, directory_id=directory_id, endpoint=text)
