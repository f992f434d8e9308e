"""The faults of a peer's requests, field by field, and the answer to each.

This module holds the table. Each row stands for bytes that a test sends to the port of a real
node; `docs/evidence/bad-requests.md` is generated from the table. Connections and assertions
belong to the tests.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kio.schema.begin_quorum_epoch.v1 import request as begin
from kio.schema.end_quorum_epoch.v1 import request as end
from kio.schema.fetch.v17 import request as fetch
from kio.static.primitive import i32Timedelta

from proofkit.badrequests import compact
from proofkit.badrequests.draft import REQUESTS
from proofkit.badrequests.head import of_any_request
from proofkit.badrequests.request_faults import (
    INT8_MAX,
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    LONG,
    STRANGER,
    TAKEN,
    Wrong,
    body,
    earlier,
    later,
    own,
    together,
)
from raftnode.wire import extensions as ext

_P = "topics.0.partitions.0"
_BAD_IDS: tuple[tuple[str, int], ...] = (("another", 77), ("negative", -5), ("huge", INT32_MAX))
_BAD_UUIDS: tuple[tuple[str, uuid.UUID | None], ...] = (
    ("another", STRANGER.directory_id),
    ("missing", None),
)

UNLISTED = "INCONSISTENT_VOTER_SET"
_SUCCESSORS = f"{_P}.preferred_candidates"
_unlisted = body(f"{_SUCCESSORS}.0.candidate_directory_id", STRANGER.directory_id)


def _identities(request: str, *fields: tuple[str, str]) -> Iterator[Wrong]:
    """Ids and UUIDs in the body, which must be those of the connection."""
    for name, path in fields:
        for value, number in _BAD_IDS:
            yield Wrong(request, f"{name} id", value, "INVALID_REQUEST", body(path, number))


def _uuids(request: str, *fields: tuple[str, str]) -> Iterator[Wrong]:
    for name, path in fields:
        for value, text in _BAD_UUIDS:
            yield Wrong(request, f"{name} UUID", value, "INVALID_REQUEST", body(path, text))


def _numbers(
    request: str, name: str, path: str, *, least: int, most: int, huge: str = TAKEN
) -> Iterator[Wrong]:
    """A number that is refused when it is too low, and what becomes of the largest."""
    text = f"below {least}" if least < 0 else "negative"
    yield Wrong(request, name, text, "INVALID_REQUEST", body(path, least - 1))
    yield Wrong(request, name, "huge", huge, body(path, most))


def _not_read(request: str, name: str, path: str, most: int) -> Iterator[Wrong]:
    """A number of Kafka's message that our replicas do not use."""
    for value, number in (("negative", -5), ("another", 7), ("huge", most)):
        yield Wrong(request, name, value, TAKEN, body(path, number))


def _extensions(
    request: str, *fields: tuple[str, int, int], spend: tuple[int, ...] = ()
) -> Iterator[Wrong]:
    """Our own fields, all of them mandatory numbers; `spend`: those that only rise."""
    for name, tag, least in fields:
        text = f"below {least}" if least < 0 else "negative"
        yield Wrong(request, name, "missing", "INVALID_REQUEST", own(tag, None))
        yield Wrong(request, name, text, "INVALID_REQUEST", own(tag, ext.int64(least - 1)))
        yield Wrong(request, name, "of four bytes", "INVALID_REQUEST", own(tag, bytes(4)))
        # A round that was never begun cannot be echoed (S11).
        answer = "INVALID_REQUEST" if tag == ext.ROUND_TOKEN else TAKEN
        huge = own(tag, ext.int64(INT64_MAX))
        yield Wrong(request, name, "huge", answer, huge, spends_sender=tag in spend)


def _endpoints(request: str) -> Iterator[Wrong]:
    for value, data in (("without host", b"\0\0\x09"), ("with port 0", b"\1a\0\0")):
        yield Wrong(request, "endpoint", value, "INVALID_REQUEST", own(ext.ENDPOINT, data))
    yield Wrong(request, "endpoint", "missing", TAKEN, own(ext.ENDPOINT, None))


def _leader_endpoints(request: str) -> Iterator[Wrong]:
    """Where the leader listens: advice, as long as it is an endpoint (S6)."""
    for value, name, host, port, answer in (
        ("without host", "CONTROLLER", "", 9, "INVALID_REQUEST"),
        ("with port 0", "CONTROLLER", "a", 0, "INVALID_REQUEST"),
        ("with a host of 256 bytes", "CONTROLLER", f"{LONG}x", 9, "INVALID_REQUEST"),
        ("without a name", "", "a", 9, TAKEN),
        ("with a huge name", LONG * 99, "a", 9, TAKEN),
        ("another", "ELSEWHERE", "another", 7, TAKEN),
    ):
        made: dict[str, Any] = {"name": name, "host": host, "port": port}
        if request == "BeginQuorumEpoch":
            spoil = body("leader_endpoints", (begin.LeaderEndpoint(**made),))
            yield Wrong(request, "endpoint", value, answer, spoil)
            continue
        spoil = body("leader_endpoints", (end.LeaderEndpoint(**made),))
        if answer == TAKEN:  # obeyed, it would end the epoch: so the receiver is not listed
            both, text = together(spoil, _unlisted), f"{value}, and the receiver not listed"
            yield Wrong(request, "endpoint", text, UNLISTED, both)
        else:
            yield Wrong(request, "endpoint", value, answer, spoil)


def _vote() -> Iterator[Wrong]:
    offset, epoch = f"{_P}.last_offset", f"{_P}.last_offset_epoch"
    yield from _identities("Vote", ("candidate", f"{_P}.replica_id"), ("voter", "voter_id"))
    yield from _uuids(
        "Vote",
        ("candidate", f"{_P}.replica_directory_id"),
        ("voter", f"{_P}.voter_directory_id"),
    )
    yield from _numbers("Vote", "last offset", offset, least=-1, most=INT64_MAX)
    yield Wrong("Vote", "last offset", "-1: none", TAKEN, body(offset, -1))
    yield from _numbers("Vote", "last epoch", epoch, least=-1, most=INT32_MAX)
    yield Wrong("Vote", "last epoch", "-1: none", TAKEN, body(epoch, -1))
    yield Wrong("Vote", "last epoch", "an older one", TAKEN, earlier(epoch))


def _begin() -> Iterator[Wrong]:
    request = "BeginQuorumEpoch"
    yield from _identities(request, ("voter", "voter_id"), ("leader", f"{_P}.leader_id"))
    yield from _uuids(request, ("voter", f"{_P}.voter_directory_id"))
    yield from _leader_endpoints(request)


def _end() -> Iterator[Wrong]:
    request, first_id = "EndQuorumEpoch", f"{_SUCCESSORS}.0.candidate_id"
    yield from _identities(request, ("leader", f"{_P}.leader_id"))
    no_uuid = body(f"{_SUCCESSORS}.0.candidate_directory_id", None)
    for field, value, answer, spoil in (
        ("successor UUID", "missing", "INVALID_REQUEST", no_uuid),
        ("successor id", "negative", "INVALID_REQUEST", body(first_id, -1)),
        ("successor id", "huge", UNLISTED, body(first_id, INT32_MAX)),
        ("successors", "none", UNLISTED, body(_SUCCESSORS, ())),
        ("successors", "without the receiver's id", UNLISTED, body(first_id, STRANGER.node_id)),
        ("successors", "without the receiver's UUID", UNLISTED, _unlisted),
    ):
        yield Wrong(request, field, value, answer, spoil)
    yield from _leader_endpoints(request)


def _fetch() -> Iterator[Wrong]:
    epoch, last_epoch = f"{_P}.current_leader_epoch", f"{_P}.last_fetched_epoch"
    yield Wrong("Fetch", "epoch", "a newer one", "UNKNOWN_LEADER_EPOCH", later(epoch))
    yield from _identities("Fetch", ("replica", "replica_state.replica_id"))
    yield from _uuids("Fetch", ("replica", f"{_P}.replica_directory_id"))
    yield from _numbers("Fetch", "fetch offset", f"{_P}.fetch_offset", least=0, most=INT64_MAX)
    yield from _numbers("Fetch", "last fetched epoch", last_epoch, least=-1, most=INT32_MAX)
    yield Wrong("Fetch", "last fetched epoch", "an older one", TAKEN, earlier(last_epoch))
    yield from _numbers("Fetch", "max bytes", "max_bytes", least=0, most=INT32_MAX)
    of_one = f"{_P}.partition_max_bytes"
    yield from _numbers("Fetch", "max bytes of the partition", of_one, least=0, most=INT32_MAX)
    for value, wait_ms, answer in (
        ("negative", -1, "INVALID_REQUEST"),
        ("huge", INT32_MAX, TAKEN),  # there is something to tell already
    ):
        wait = i32Timedelta.parse(dt.timedelta(milliseconds=wait_ms))
        yield Wrong("Fetch", "max wait", value, answer, body("max_wait", wait))
    for name, path, most in (
        ("min bytes", "min_bytes", INT32_MAX),
        ("isolation level", "isolation_level", INT8_MAX),
        ("session id", "session_id", INT32_MAX),
        ("session epoch", "session_epoch", INT32_MAX),
        ("broker epoch", "replica_state.replica_epoch", INT64_MAX),
        ("log start offset", f"{_P}.log_start_offset", INT64_MAX),
    ):
        yield from _not_read("Fetch", name, path, most)
    yield Wrong("Fetch", "rack", "another", TAKEN, body("rack_id", "another"))
    yield Wrong("Fetch", "rack", "huge", TAKEN, body("rack_id", LONG * 99))
    forgotten = fetch.ForgottenTopic(topic_id=uuid.UUID(int=1), partitions=())
    yield Wrong(
        "Fetch",
        "forgotten topics",
        "one",
        "INVALID_REQUEST",
        body("forgotten_topics_data", (forgotten,)),
    )
    yield from _extensions(
        "Fetch",
        ("acknowledged offset", ext.ACKNOWLEDGED_OFFSET, -1),
        ("high watermark", ext.HIGH_WATERMARK, -1),
        ("round token", ext.ROUND_TOKEN, 0),
        ("incarnation", ext.INCARNATION, 0),
        ("sequence", ext.SEQUENCE, 0),
        spend=(ext.ACKNOWLEDGED_OFFSET, ext.INCARNATION, ext.SEQUENCE),
    )
    overtaken = own(ext.SEQUENCE, ext.int64(0))
    yield Wrong("Fetch", "sequence", "overtaken", "INVALID_REQUEST", overtaken)
    yield from _raft_version()
    yield from _promise()
    wish, tag = "wish for the high watermark", ext.WANTS_HIGH_WATERMARK
    yield Wrong("Fetch", wish, "missing", TAKEN, own(tag, None))
    yield Wrong("Fetch", wish, "of four bytes", "INVALID_REQUEST", own(tag, bytes(4)))
    yield from _endpoints("Fetch")


def _raft_version() -> Iterator[Wrong]:
    """The newest raft.version that a program knows: one that says none knows none (P56)."""
    tag = ext.RAFT_VERSION_MAX
    for value, data, answer in (
        ("missing", None, TAKEN),
        ("negative", ext.int16(-1), TAKEN),
        ("huge", ext.int16(INT16_MAX), TAKEN),
        ("of four bytes", bytes(4), "INVALID_REQUEST"),
    ):
        yield Wrong("Fetch", "raft.version", value, answer, own(tag, data))


def _promise() -> Iterator[Wrong]:
    """For how long the fetcher does not vote: no leader counts more than its own (S33)."""
    tag = ext.PROMISE_MS
    for value, data, answer in (
        ("missing", None, TAKEN),
        ("negative", ext.int64(-1), "INVALID_REQUEST"),
        ("huge", ext.int64(INT64_MAX), TAKEN),
        ("of four bytes", bytes(4), "INVALID_REQUEST"),
    ):
        yield Wrong("Fetch", "promise", value, answer, own(tag, data))


def _fetch_snapshot() -> Iterator[Wrong]:
    request, snapshot = "FetchSnapshot", f"{_P}.snapshot_id"
    epoch, end_offset = f"{_P}.current_leader_epoch", f"{snapshot}.end_offset"
    unknown = "SNAPSHOT_NOT_FOUND"
    beyond = "POSITION_OUT_OF_RANGE"
    yield Wrong(request, "epoch", "a newer one", "UNKNOWN_LEADER_EPOCH", later(epoch))
    yield from _identities(request, ("replica", "replica_id"))
    yield from _uuids(request, ("replica", f"{_P}.replica_directory_id"))
    yield from _numbers(request, "max bytes", "max_bytes", least=0, most=INT32_MAX)
    position = f"{_P}.position"
    yield from _numbers(request, "position", position, least=0, most=INT64_MAX, huge=beyond)
    yield Wrong(request, "position", "behind the end", beyond, body(position, 10**9))
    yield from _numbers(
        request, "snapshot's end", end_offset, least=-1, most=INT64_MAX, huge=unknown
    )
    yield Wrong(request, "snapshot's end", "-1: none", unknown, body(end_offset, -1))
    yield Wrong(request, "snapshot's end", "another", unknown, body(end_offset, 1))
    of_epoch = f"{snapshot}.epoch"
    yield from _numbers(
        request, "snapshot's epoch", of_epoch, least=-1, most=INT32_MAX, huge=unknown
    )
    yield Wrong(request, "snapshot's epoch", "another", unknown, body(of_epoch, 99))
    yield from _extensions(request, ("round token", ext.ROUND_TOKEN, 0))
    yield from _endpoints(request)


_OF_ONE: tuple[Callable[[], Iterator[Wrong]], ...] = (
    _vote,
    _begin,
    _end,
    _fetch,
    _fetch_snapshot,
)


def wrong_requests() -> tuple[Wrong, ...]:
    """Return the whole table, request by request."""
    wrong: list[Wrong] = []
    of_kafka = [request for request in REQUESTS if request != compact.NAME]
    for request, special in zip(of_kafka, _OF_ONE, strict=True):
        wrong += of_any_request(request)
        wrong += special()
    return (*wrong, *compact.rows())
