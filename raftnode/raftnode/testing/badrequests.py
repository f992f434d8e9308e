"""What a peer may get wrong in a request, field by field, and the answer that it must get.

What lives here: the table, and how a row makes its frame out of a good one. Each row stands for
bytes that a real node's port gets; `docs/reference/bad-requests.md` is made from it. What must
not: connections, and what a test looks at.
"""

from __future__ import annotations

import datetime as dt
import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from kio.schema.begin_quorum_epoch.v1 import request as begin
from kio.schema.end_quorum_epoch.v1 import request as end
from kio.schema.fetch.v17 import request as fetch
from kio.schema.fetch_snapshot.v1 import request as fetch_snapshot
from kio.schema.vote.v2 import request as vote
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from raftnode.core.types import NodeId, ReplicaKey
from raftnode.wire import extensions as ext
from raftnode.wire.envelope import Envelope, decode_envelope, encode_envelope

CUT_OFF = "cut off"
"""The connection is closed: what follows such bytes cannot be told apart any more."""
SILENCE = "no answer"
"""Dropped, as a network would: the sender is damaged, and no answer would mend it."""

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
STRANGER = ReplicaKey(NodeId(77), uuid.UUID(int=77))
NO_UUID = uuid.UUID(int=0)

_ENTITIES: dict[str, Any] = {
    "Vote": vote.VoteRequest,
    "BeginQuorumEpoch": begin.BeginQuorumEpochRequest,
    "EndQuorumEpoch": end.EndQuorumEpochRequest,
    "Fetch": fetch.FetchRequest,
    "FetchSnapshot": fetch_snapshot.FetchSnapshotRequest,
}
REQUESTS = tuple(_ENTITIES)
TO_LEADER = frozenset({"Fetch", "FetchSnapshot"})
"""These go to a leader, from who observes it; the others to a follower, from its leader."""


@dataclass(slots=True)
class Draft:
    """A good request taken apart, to be spoilt."""

    request: str
    envelope: Envelope
    body: Any
    tail: Callable[[bytes], bytes] = bytes
    """What becomes of the body's bytes in the end."""

    @classmethod
    def of(cls, request: str, frame: bytes) -> Draft:
        """Take a frame apart."""
        envelope, body = decode_envelope(frame)
        read = cast("Any", entity_reader(_ENTITIES[request]))
        message, _ = read(memoryview(bytes(body)), 0)
        return cls(request, envelope, message)

    def put(self, path: str, value: Any) -> None:
        """Set a field of Kafka's message: names and places, with dots between."""
        self.body = _with(self.body, path.split("."), value)

    def wrap(self, **changes: Any) -> None:
        """Set fields of the envelope."""
        self.envelope = replace(self.envelope, **changes)

    def extend(self, tag: int, value: bytes | None) -> None:
        """Set one of our own fields; None: leave it out."""
        extensions = dict(self.envelope.extensions)
        extensions.pop(tag, None)
        if value is not None:
            extensions[tag] = value
        self.wrap(extensions=extensions)

    def frame(self) -> bytes:
        """Put it together again."""
        buffer = io.BytesIO()
        cast("Any", entity_writer(_ENTITIES[self.request]))(buffer, self.body)
        return encode_envelope(self.envelope) + self.tail(buffer.getvalue())


def _with(message: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    name, *rest = path
    if name.isdecimal():
        items = list(message)
        items[int(name)] = _with(items[int(name)], rest, value)
        return tuple(items)
    return replace(message, **{name: _with(getattr(message, name), rest, value)})


@dataclass(frozen=True, slots=True)
class Wrong:
    """One row: what is wrong, and the answer."""

    request: str
    field: str
    value: str
    answer: str
    """The name of an error code, or CUT_OFF or SILENCE."""
    spoil: Callable[[Draft], None]

    def __str__(self) -> str:
        return f"{self.request}: {self.field} {self.value}"


def _body(path: str, value: Any) -> Callable[[Draft], None]:
    return lambda draft: draft.put(path, value)


def _around(**changes: Any) -> Callable[[Draft], None]:
    return lambda draft: draft.wrap(**changes)


def _own(tag: int, value: bytes | None) -> Callable[[Draft], None]:
    return lambda draft: draft.extend(tag, value)


def _all(*spoils: Callable[[Draft], None]) -> Callable[[Draft], None]:
    def spoil(draft: Draft) -> None:
        for one in spoils:
            one(draft)

    return spoil


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Draft], None]:
    def spoil(draft: Draft) -> None:
        draft.tail = change

    return spoil


def _twice(path: str) -> Callable[[Draft], None]:
    def spoil(draft: Draft) -> None:
        [only] = getattr(draft.body, path)
        draft.put(path, (only, only))

    return spoil


def _of_any_request(request: str) -> Iterator[Wrong]:
    """What can be wrong around and at the head of every request."""
    part = "topics.0.partitions.0"
    named = {"Fetch": ("topic_id", uuid.UUID(int=9)), "FetchSnapshot": ("name", "t")}
    topic, another = named.get(request, ("topic_name", "t"))
    index = "partition" if request in TO_LEADER else "partition_index"
    rows: list[tuple[str, str, str, Callable[[Draft], None]]] = [
        ("api version", "0", "UNSUPPORTED_VERSION", _around(api_version=0)),
        ("api version", "huge", "UNSUPPORTED_VERSION", _around(api_version=2**15 - 1)),
        ("api key", "unknown", "UNSUPPORTED_VERSION", _around(api_key=999)),
        ("sender", "another, in the body alike", CUT_OFF, _another_sender),
        ("sender", "another than in the body", CUT_OFF, _around(source=STRANGER)),
        ("receiver", "of another UUID", "INVALID_VOTER_KEY", _another_receiver),
        (
            "cluster id",
            "another",
            "INCONSISTENT_CLUSTER_ID",
            _all(_around(cluster_id="another"), _body("cluster_id", "another")),
        ),
        (
            "cluster id",
            "missing",
            "INVALID_REQUEST",
            _all(_around(cluster_id=None), _body("cluster_id", None)),
        ),
        ("cluster id", "another in the body", "INVALID_REQUEST", _body("cluster_id", "another")),
        ("cluster id", "missing in the body", "INVALID_REQUEST", _body("cluster_id", None)),
        ("topics", "none", "INVALID_REQUEST", _body("topics", ())),
        ("topics", "two", "INVALID_REQUEST", _twice("topics")),
        ("topic", "another", "INVALID_REQUEST", _body(f"topics.0.{topic}", another)),
        ("partitions", "none", "INVALID_REQUEST", _body("topics.0.partitions", ())),
        ("partition", "1", "INVALID_REQUEST", _body(f"{part}.{index}", 1)),
        ("partition", "negative", "INVALID_REQUEST", _body(f"{part}.{index}", -1)),
        ("body", "missing", "INVALID_REQUEST", _bytes(lambda _: b"")),
        ("body", "a byte short", "INVALID_REQUEST", _bytes(lambda body: body[:-1])),
        ("body", "a byte long", "INVALID_REQUEST", _bytes(lambda body: body + b"\0")),
        ("body", "above 64 KiB", CUT_OFF, _bytes(lambda body: body + bytes(70_000))),
    ]
    if request not in TO_LEADER:
        rows.append(("receiver", "missing", "INVALID_REQUEST", _around(target=None)))
    epoch = {
        "Vote": "replica_epoch",
        "BeginQuorumEpoch": "leader_epoch",
        "EndQuorumEpoch": "leader_epoch",
    }.get(request, "current_leader_epoch")
    rows += [
        ("epoch", "below -1", "INVALID_REQUEST", _body(f"{part}.{epoch}", -2)),
        ("epoch", "-1", "FENCED_LEADER_EPOCH", _body(f"{part}.{epoch}", -1)),
        ("epoch", "an older one", "FENCED_LEADER_EPOCH", _earlier(f"{part}.{epoch}")),
        ("epoch", "huge", SILENCE, _body(f"{part}.{epoch}", INT32_MAX)),
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


def _earlier(path: str) -> Callable[[Draft], None]:
    def spoil(draft: Draft) -> None:
        draft.put(path, _at(draft.body, path) - 1)

    return spoil


def _later(path: str) -> Callable[[Draft], None]:
    def spoil(draft: Draft) -> None:
        draft.put(path, _at(draft.body, path) + 1)

    return spoil


def _at(message: Any, path: str) -> int:
    for name in path.split("."):
        message = message[int(name)] if name.isdecimal() else getattr(message, name)
    return cast("int", message)


_P = "topics.0.partitions.0"
_BAD_IDS: tuple[tuple[str, int], ...] = (("another", 77), ("negative", -5), ("huge", INT32_MAX))
_BAD_UUIDS: tuple[tuple[str, uuid.UUID | None], ...] = (
    ("another", STRANGER.directory_id),
    ("missing", None),
)


def _identities(request: str, *fields: tuple[str, str]) -> Iterator[Wrong]:
    """Ids and UUIDs in the body, which must be those of the connection."""
    for name, path in fields:
        for value, number in _BAD_IDS:
            yield Wrong(request, f"{name} id", value, "INVALID_REQUEST", _body(path, number))


def _uuids(request: str, *fields: tuple[str, str]) -> Iterator[Wrong]:
    for name, path in fields:
        for value, one in _BAD_UUIDS:
            yield Wrong(request, f"{name} UUID", value, "INVALID_REQUEST", _body(path, one))


def _numbers(request: str, name: str, path: str, *, least: int) -> Iterator[Wrong]:
    text = f"below {least}" if least < 0 else "negative"
    yield Wrong(request, name, text, "INVALID_REQUEST", _body(path, least - 1))


def _extensions(request: str, *fields: tuple[str, int, int]) -> Iterator[Wrong]:
    """Our own fields, all of them mandatory numbers."""
    for name, tag, least in fields:
        text = f"below {least}" if least < 0 else "negative"
        yield Wrong(request, name, "missing", "INVALID_REQUEST", _own(tag, None))
        yield Wrong(request, name, text, "INVALID_REQUEST", _own(tag, ext.int64(least - 1)))
        yield Wrong(request, name, "of four bytes", "INVALID_REQUEST", _own(tag, bytes(4)))


def _endpoints(request: str) -> Iterator[Wrong]:
    for value, data in (("without host", b"\0\0\x09"), ("with port 0", b"\1a\0\0")):
        yield Wrong(request, "endpoint", value, "INVALID_REQUEST", _own(ext.ENDPOINT, data))


def _vote() -> Iterator[Wrong]:
    yield from _identities("Vote", ("candidate", f"{_P}.replica_id"), ("voter", "voter_id"))
    yield from _uuids(
        "Vote",
        ("candidate", f"{_P}.replica_directory_id"),
        ("voter", f"{_P}.voter_directory_id"),
    )
    yield from _numbers("Vote", "last offset", f"{_P}.last_offset", least=-1)
    yield from _numbers("Vote", "last epoch", f"{_P}.last_offset_epoch", least=-1)


def _begin() -> Iterator[Wrong]:
    request = "BeginQuorumEpoch"
    yield from _identities(request, ("voter", "voter_id"), ("leader", f"{_P}.leader_id"))
    yield from _uuids(request, ("voter", f"{_P}.voter_directory_id"))
    for value, host, port in (("without host", "", 9), ("with port 0", "a", 0)):
        endpoint = begin.LeaderEndpoint(name="CONTROLLER", host=host, port=cast("Any", port))
        yield Wrong(
            request, "endpoint", value, "INVALID_REQUEST", _body("leader_endpoints", (endpoint,))
        )


def _end() -> Iterator[Wrong]:
    request, successors = "EndQuorumEpoch", f"{_P}.preferred_candidates"
    yield from _identities(request, ("leader", f"{_P}.leader_id"))
    yield Wrong(
        request,
        "successor UUID",
        "missing",
        "INVALID_REQUEST",
        _body(f"{successors}.0.candidate_directory_id", None),
    )
    yield Wrong(
        request,
        "successor id",
        "negative",
        "INVALID_REQUEST",
        _body(f"{successors}.0.candidate_id", -1),
    )
    yield Wrong(request, "successors", "none", "INCONSISTENT_VOTER_SET", _body(successors, ()))
    yield Wrong(
        request,
        "successors",
        "without the receiver's UUID",
        "INCONSISTENT_VOTER_SET",
        _body(f"{successors}.0.candidate_directory_id", STRANGER.directory_id),
    )


def _fetch() -> Iterator[Wrong]:
    epoch = f"{_P}.current_leader_epoch"
    yield Wrong("Fetch", "epoch", "a newer one", "UNKNOWN_LEADER_EPOCH", _later(epoch))
    yield from _identities("Fetch", ("replica", "replica_state.replica_id"))
    yield from _uuids("Fetch", ("replica", f"{_P}.replica_directory_id"))
    yield from _numbers("Fetch", "fetch offset", f"{_P}.fetch_offset", least=0)
    yield from _numbers("Fetch", "last fetched epoch", f"{_P}.last_fetched_epoch", least=-1)
    yield from _numbers("Fetch", "max bytes", "max_bytes", least=0)
    yield from _numbers("Fetch", "max bytes of the partition", f"{_P}.partition_max_bytes", least=0)
    negative = i32Timedelta.parse(dt.timedelta(milliseconds=-1))
    yield Wrong("Fetch", "max wait", "negative", "INVALID_REQUEST", _body("max_wait", negative))
    forgotten = fetch.ForgottenTopic(topic_id=uuid.UUID(int=1), partitions=())
    yield Wrong(
        "Fetch",
        "forgotten topics",
        "one",
        "INVALID_REQUEST",
        _body("forgotten_topics_data", (forgotten,)),
    )
    yield from _extensions(
        "Fetch",
        ("acknowledged offset", ext.ACKNOWLEDGED_OFFSET, -1),
        ("high watermark", ext.HIGH_WATERMARK, -1),
        ("round token", ext.ROUND_TOKEN, 0),
        ("incarnation", ext.INCARNATION, 0),
        ("sequence", ext.SEQUENCE, 0),
    )
    overtaken = _own(ext.SEQUENCE, ext.int64(0))
    yield Wrong("Fetch", "sequence", "overtaken", "INVALID_REQUEST", overtaken)
    yield from _endpoints("Fetch")


def _fetch_snapshot() -> Iterator[Wrong]:
    request, snapshot = "FetchSnapshot", f"{_P}.snapshot_id"
    epoch = f"{_P}.current_leader_epoch"
    yield Wrong(request, "epoch", "a newer one", "UNKNOWN_LEADER_EPOCH", _later(epoch))
    yield from _identities(request, ("replica", "replica_id"))
    yield from _uuids(request, ("replica", f"{_P}.replica_directory_id"))
    yield from _numbers(request, "max bytes", "max_bytes", least=0)
    yield from _numbers(request, "position", f"{_P}.position", least=0)
    yield from _numbers(request, "snapshot's epoch", f"{snapshot}.epoch", least=-1)
    for value, number in (("another", 1), ("huge", INT64_MAX)):
        put = _body(f"{snapshot}.end_offset", number)
        yield Wrong(request, "snapshot's end", value, "SNAPSHOT_NOT_FOUND", put)
    yield Wrong(
        request, "snapshot's epoch", "another", "SNAPSHOT_NOT_FOUND", _body(f"{snapshot}.epoch", 99)
    )
    for value, number in (("behind the end", 10**9), ("huge", INT64_MAX)):
        put = _body(f"{_P}.position", number)
        yield Wrong(request, "position", value, "POSITION_OUT_OF_RANGE", put)
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
    """The whole table, request by request."""
    found: list[Wrong] = []
    for request, special in zip(REQUESTS, _OF_ONE, strict=True):
        found += _of_any_request(request)
        found += special()
    return tuple(found)
