"""The table of wrong requests leaves nothing out, whatever fields a request has."""

import dataclasses
import uuid
from pathlib import Path

import pytest
from kio.static.primitive import i32, i64

from proofkit.badrequests import REQUESTS, Draft, needed, spoilt, wrong_requests
from proofkit.badrequests import fields as known_fields
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.logformat import decode_batches
from raftnode.wire import Codec

OWN, PEER = ReplicaKey(NodeId(1), uuid.UUID(int=1)), ReplicaKey(NodeId(2), uuid.UUID(int=2))
EPOCH, LAST = Epoch(5), LogPosition(Epoch(5), Offset(9))
HERE = Endpoint("here", 9)
GOOD: dict[str, Request] = {
    "Vote": VoteRequest(EPOCH, PEER, OWN, LAST, pre_vote=True),
    "BeginQuorumEpoch": BeginQuorumEpochRequest(EPOCH, PEER, OWN, HERE),
    "EndQuorumEpoch": EndQuorumEpochRequest(EPOCH, PEER, OWN, (OWN,)),
    "Fetch": FetchRequest(
        EPOCH,
        PEER,
        Offset(9),
        EPOCH,
        Offset(9),
        Offset(9),
        round_token=1,
        incarnation=1,
        max_bytes=9,
        max_wait_ms=9,
        sequence=9,
        endpoint=HERE,
        raft_version_max=2,
        promise_ms=9,
        wants_high_watermark=True,
    ),
    "FetchSnapshot": FetchSnapshotRequest(EPOCH, PEER, LAST, 9, 9, 1, HERE),
}
GOOD["CompactFetch"] = GOOD["Fetch"]
"""Nothing of them is left at its default, so that every field is in the frame."""


def drafted(request: str) -> Draft:
    codec = Codec(decode_batches=decode_batches)
    frame = codec.encode_request(
        GOOD[request],
        source=PEER,
        target=OWN,
        cluster_id="Cluster",
        correlation_id=1,
        compact=request == "CompactFetch",
    )
    return Draft.of(request, frame)


def tried(request: str) -> set[tuple[str, str]]:
    good, found = drafted(request), set[tuple[str, str]]()
    for wrong in wrong_requests():
        if wrong.request == request:
            bad = drafted(request)
            wrong.spoil(bad)
            found |= spoilt(good, bad)
    return found


@pytest.mark.rule("P2", "P3", "S5", "S28")
@pytest.mark.parametrize("request_name", REQUESTS)
def test_every_field_is_tried_with_every_kind_of_wrong_value(request_name: str):
    assert sorted(needed(drafted(request_name)) - tried(request_name)) == []


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_good_requests_of_these_tests_leave_no_extension_out(request_name: str):
    """A field of ours that a message gets must be set above, or nothing would ask for its rows."""
    for field in dataclasses.fields(GOOD[request_name]):
        # A Fetch is blank without a cluster id, which is no extension and has rows of its own.
        if field.default is not dataclasses.MISSING and field.name != "blank":
            assert getattr(GOOD[request_name], field.name) != field.default, field.name


@pytest.mark.parametrize("request_name", REQUESTS)
def test_every_row_spoils_something_and_no_two_are_alike(request_name: str):
    frames = [drafted(request_name).frame()]
    for wrong in wrong_requests():
        if wrong.request == request_name:
            bad = drafted(request_name)
            wrong.spoil(bad)
            frames.append(bad.frame())
    assert len(set(frames)) == len(frames)
    names = [str(wrong) for wrong in wrong_requests()]
    assert len(set(names)) == len(names)


def test_the_page_on_proofs_says_how_many_rows_there_are():
    assert f"has {len(wrong_requests())} rows;" in Path("docs/evidence/proof.md").read_text()


@dataclasses.dataclass(frozen=True)
class Inner:
    some_epoch: i32
    name: str


@dataclasses.dataclass(frozen=True)
class Wider:
    """What Kafka's next version of a message may look like."""

    count: i64
    directory_id: uuid.UUID | None
    inner: tuple[Inner, ...]


def test_a_field_more_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    """The test remembers: rows are needed from the day on which a message has a field."""
    good = drafted("Vote")
    monkeypatch.setitem(known_fields.ENTITIES, "Vote", Wider)
    assert {spot for spot in needed(good) if "." not in spot[0] or "inner" in spot[0]} == {
        ("count", "negative"),
        ("count", "huge"),
        ("directory_id", "missing"),
        ("directory_id", "another"),
        ("inner", "missing"),
        ("inner.some_epoch", "negative"),
        ("inner.some_epoch", "huge"),
        ("inner.some_epoch", "another"),
        ("inner.name", "missing"),
        ("inner.name", "another"),
        ("inner.name", "huge"),
    }
