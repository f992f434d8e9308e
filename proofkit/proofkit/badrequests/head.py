"""Faults in the frame, the envelope and the identity of any request between nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

from proofkit.badrequests.draft import Draft
from proofkit.badrequests.request_faults import (
    CUT_OFF,
    INT16_MAX,
    INT32_MAX,
    LONG,
    SILENCE,
    STRANGER,
    TAKEN,
    TO_LEADER,
    Wrong,
    around,
    body,
    earlier,
    raw,
    together,
    twice,
)


def of_any_request(request: str) -> Iterator[Wrong]:
    """Return the rows that every request has."""
    part = "topics.0.partitions.0"
    named = {"Fetch": ("topic_id", uuid.UUID(int=9)), "FetchSnapshot": ("name", "t")}
    topic, another = named.get(request, ("topic_name", "t"))
    missing = None if topic == "topic_id" else ""
    index = "partition" if request in TO_LEADER else "partition_index"
    rows: list[tuple[str, str, str, Callable[[Draft], None]]] = [
        ("api version", "0", "UNSUPPORTED_VERSION", around(api_version=0)),
        ("api version", "negative", "UNSUPPORTED_VERSION", around(api_version=-1)),
        ("api version", "huge", "UNSUPPORTED_VERSION", around(api_version=INT16_MAX)),
        ("api key", "unknown", "UNSUPPORTED_VERSION", around(api_key=999)),
        ("api key", "negative", "UNSUPPORTED_VERSION", around(api_key=-1)),
        ("api key", "huge", "UNSUPPORTED_VERSION", around(api_key=INT16_MAX)),
        ("kind of frame", "a response", CUT_OFF, around(is_response=True)),
        ("sender", "another, in the body alike", CUT_OFF, _another_sender),
        ("sender", "another than in the body", CUT_OFF, around(source=STRANGER)),
        ("receiver", "of another UUID", "INVALID_VOTER_KEY", _another_receiver),
        (
            "cluster id",
            "another",
            "INCONSISTENT_CLUSTER_ID",
            together(around(cluster_id="another"), body("cluster_id", "another")),
        ),
        (
            "cluster id",
            "huge",
            "INCONSISTENT_CLUSTER_ID",
            together(around(cluster_id=LONG), body("cluster_id", LONG)),
        ),
        (
            "cluster id",
            "missing",
            "INVALID_REQUEST",
            together(around(cluster_id=None), body("cluster_id", None)),
        ),
        ("cluster id", "another in the body", "INVALID_REQUEST", body("cluster_id", "another")),
        ("cluster id", "missing in the body", "INVALID_REQUEST", body("cluster_id", None)),
        ("cluster id", "huge in the body", "INVALID_REQUEST", body("cluster_id", LONG * 99)),
        ("topics", "none", "INVALID_REQUEST", body("topics", ())),
        ("topics", "two", "INVALID_REQUEST", twice("topics")),
        ("topic", "another", "INVALID_REQUEST", body(f"topics.0.{topic}", another)),
        ("topic", "missing", "INVALID_REQUEST", body(f"topics.0.{topic}", missing)),
        ("partitions", "none", "INVALID_REQUEST", body("topics.0.partitions", ())),
        ("partition", "1", "INVALID_REQUEST", body(f"{part}.{index}", 1)),
        ("partition", "negative", "INVALID_REQUEST", body(f"{part}.{index}", -1)),
        ("partition", "huge", "INVALID_REQUEST", body(f"{part}.{index}", INT32_MAX)),
        ("body", "missing", "INVALID_REQUEST", raw(lambda _: b"")),
        ("body", "a byte short", "INVALID_REQUEST", raw(lambda data: data[:-1])),
        ("body", "a byte long", "INVALID_REQUEST", raw(lambda data: data + b"\0")),
        ("body", "above 64 KiB", CUT_OFF, raw(lambda data: data + bytes(70_000))),
    ]
    if topic != "topic_id":
        rows.append(("topic", "huge", "INVALID_REQUEST", body(f"topics.0.{topic}", LONG * 99)))
    # A fetcher may ask before it knows whom it asks.
    unnamed = TAKEN if request in TO_LEADER else "INVALID_REQUEST"
    rows.append(("receiver", "missing", unnamed, around(target=None)))
    epoch = {
        "Vote": "replica_epoch",
        "BeginQuorumEpoch": "leader_epoch",
        "EndQuorumEpoch": "leader_epoch",
    }.get(request, "current_leader_epoch")
    rows += [
        ("epoch", "below -1", "INVALID_REQUEST", body(f"{part}.{epoch}", -2)),
        ("epoch", "-1", "FENCED_LEADER_EPOCH", body(f"{part}.{epoch}", -1)),
        ("epoch", "an older one", "FENCED_LEADER_EPOCH", earlier(f"{part}.{epoch}")),
        ("epoch", "huge", SILENCE, body(f"{part}.{epoch}", INT32_MAX)),
    ]
    yield from (Wrong(request, *row) for row in rows)


_SENDER: dict[str, tuple[str, str | None]] = {
    "Vote": ("topics.0.partitions.0.replica_id", "replica_directory_id"),
    "BeginQuorumEpoch": ("topics.0.partitions.0.leader_id", None),
    "EndQuorumEpoch": ("topics.0.partitions.0.leader_id", None),
    "Fetch": ("replica_state.replica_id", "replica_directory_id"),
    "FetchSnapshot": ("replica_id", "replica_directory_id"),
}


def _another_sender(draft: Draft) -> None:
    number, directory = _SENDER[draft.request]
    draft.wrap(source=STRANGER)
    draft.put(number, STRANGER.node_id)
    if directory is not None:
        draft.put(f"topics.0.partitions.0.{directory}", STRANGER.directory_id)


def _another_receiver(draft: Draft) -> None:
    target = draft.envelope.target
    assert target is not None
    draft.wrap(target=replace(target, directory_id=STRANGER.directory_id))
    if draft.request in {"Vote", "BeginQuorumEpoch"}:
        draft.put("topics.0.partitions.0.voter_directory_id", STRANGER.directory_id)
