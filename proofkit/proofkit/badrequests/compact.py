"""The compact Fetch as fields, so that a test can change one, and the faults of each.

The fields and their order are those of `raftnode.wire.compact_fetch`; they are written here once
more, so that a change of the layout is noticed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import astuple, dataclass

from kio.static.primitive import i16, i32, i64, u16

from proofkit.badrequests.request_faults import (
    CUT_OFF,
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    LONG,
    SILENCE,
    STRANGER,
    TAKEN,
    Wrong,
    around,
    body,
    earlier,
    later,
    own,
    raw,
)
from raftnode.wire import extensions as ext

NAME = "CompactFetch"

_NUMBERS = struct.Struct(">iqiqqqqqiihq")
_FLAGS_AT = _NUMBERS.size


@dataclass(frozen=True)
class CompactFetch:
    """The body of a compact Fetch; without `host` it has no endpoint."""

    epoch: i32
    fetch_offset: i64
    last_fetched_epoch: i32
    acknowledged_offset: i64
    high_watermark: i64
    round_token: i64
    incarnation: i64
    sequence: i64
    max_bytes: i32
    max_wait: i32
    raft_version_max: i16
    promise: i64
    host: str | None
    port: u16


def read(data: bytes) -> CompactFetch:
    """Take a body apart that has an endpoint."""
    size = data[_FLAGS_AT + 1]
    host = data[_FLAGS_AT + 2 : _FLAGS_AT + 2 + size].decode()
    port = int.from_bytes(data[-2:], "big")
    return CompactFetch(*_NUMBERS.unpack_from(data), host, u16(port))  # type: ignore[arg-type]


def write(fetch: CompactFetch) -> bytes:
    """Put a body together."""
    *numbers, host, port = astuple(fetch)
    data = _NUMBERS.pack(*numbers)
    if host is None:
        return data + b"\0"
    return data + b"\1" + bytes((len(host),)) + host.encode() + port.to_bytes(2, "big")


def rows() -> Iterator[Wrong]:
    """Return the faults of a compact Fetch, and the answer to each."""
    for field, value, answer, spoil in (
        ("api version", "another", "UNSUPPORTED_VERSION", around(api_version=1)),
        ("api version", "negative", "UNSUPPORTED_VERSION", around(api_version=-1)),
        ("api version", "huge", "UNSUPPORTED_VERSION", around(api_version=INT16_MAX)),
        ("api key", "unknown", "UNSUPPORTED_VERSION", around(api_key=999)),
        ("api key", "negative", "UNSUPPORTED_VERSION", around(api_key=-1)),
        ("api key", "huge", "UNSUPPORTED_VERSION", around(api_key=INT16_MAX)),
        ("kind of frame", "a response", CUT_OFF, around(is_response=True)),
        ("sender", "another", CUT_OFF, around(source=STRANGER)),
        ("receiver", "another", "INVALID_VOTER_KEY", around(target=STRANGER)),
        ("receiver", "missing", TAKEN, around(target=None)),
        ("cluster id", "another", "INCONSISTENT_CLUSTER_ID", around(cluster_id="another")),
        ("cluster id", "huge", "INCONSISTENT_CLUSTER_ID", around(cluster_id=LONG)),
        ("cluster id", "missing", "INVALID_REQUEST", around(cluster_id=None)),
        ("body", "missing", "INVALID_REQUEST", raw(lambda _: b"")),
        ("body", "a byte short", "INVALID_REQUEST", raw(lambda data: data[:-1])),
        ("body", "a byte long", "INVALID_REQUEST", raw(lambda data: data + b"\0")),
        ("body", "above 64 KiB", CUT_OFF, raw(lambda data: data + bytes(70_000))),
        ("flags", "unknown", "INVALID_REQUEST", raw(_with_unknown_flag)),
        ("epoch", "below -1", "INVALID_REQUEST", body("epoch", -2)),
        ("epoch", "-1", "FENCED_LEADER_EPOCH", body("epoch", -1)),
        ("epoch", "an older one", "FENCED_LEADER_EPOCH", earlier("epoch")),
        ("epoch", "a newer one", "UNKNOWN_LEADER_EPOCH", later("epoch")),
        ("epoch", "huge", SILENCE, body("epoch", INT32_MAX)),
        ("last fetched epoch", "an older one", TAKEN, earlier("last_fetched_epoch")),
        ("sequence", "overtaken", "INVALID_REQUEST", body("sequence", 0)),
        ("wish for the high watermark", "missing", TAKEN, own(ext.WANTS_HIGH_WATERMARK, None)),
        (
            "wish for the high watermark",
            "of four bytes",
            "INVALID_REQUEST",
            own(ext.WANTS_HIGH_WATERMARK, bytes(4)),
        ),
        ("endpoint", "missing", TAKEN, body("host", None)),
        ("endpoint", "without host", "INVALID_REQUEST", body("host", "")),
        ("endpoint", "another", TAKEN, body("host", "another")),
        ("endpoint", "with a host of 255 bytes", TAKEN, body("host", LONG)),
        ("endpoint", "with port 0", "INVALID_REQUEST", body("port", 0)),
    ):
        yield Wrong(NAME, field, value, answer, spoil)
    for field, path, least, most, huge in (
        ("fetch offset", "fetch_offset", 0, INT64_MAX, TAKEN),
        ("last fetched epoch", "last_fetched_epoch", -1, INT32_MAX, TAKEN),
        ("acknowledged offset", "acknowledged_offset", -1, INT64_MAX, TAKEN),
        ("high watermark", "high_watermark", -1, INT64_MAX, TAKEN),
        # A round that was never begun cannot be echoed (S11).
        ("round token", "round_token", 0, INT64_MAX, "INVALID_REQUEST"),
        ("incarnation", "incarnation", 0, INT64_MAX, TAKEN),
        ("sequence", "sequence", 0, INT64_MAX, TAKEN),
        ("max bytes", "max_bytes", 0, INT32_MAX, TAKEN),
        ("max wait", "max_wait", 0, INT32_MAX, TAKEN),
        ("raft.version", "raft_version_max", 0, INT16_MAX, TAKEN),
        ("promise", "promise", 0, INT64_MAX, TAKEN),
    ):
        low = f"below {least}" if least < 0 else "negative"
        spends = path in {"acknowledged_offset", "incarnation", "sequence"}
        yield Wrong(NAME, field, low, "INVALID_REQUEST", body(path, least - 1))
        yield Wrong(NAME, field, "huge", huge, body(path, most), spends_sender=spends)


def _with_unknown_flag(data: bytes) -> bytes:
    return data[:_FLAGS_AT] + b"\x81" + data[_FLAGS_AT + 1 :]
