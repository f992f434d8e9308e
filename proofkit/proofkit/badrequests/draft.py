"""Decodes a good request, so that a test can change it and encode it again."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from kio.schema.begin_quorum_epoch.v1 import request as begin
from kio.schema.end_quorum_epoch.v1 import request as end
from kio.schema.fetch.v17 import request as fetch
from kio.schema.fetch_snapshot.v1 import request as fetch_snapshot
from kio.schema.vote.v2 import request as vote
from kio.serial import entity_reader, entity_writer

from proofkit.badrequests import compact
from raftnode.wire.envelope import Envelope, decode_envelope, encode_envelope

ENTITIES: dict[str, Any] = {
    "Vote": vote.VoteRequest,
    "BeginQuorumEpoch": begin.BeginQuorumEpochRequest,
    "EndQuorumEpoch": end.EndQuorumEpochRequest,
    "Fetch": fetch.FetchRequest,
    "FetchSnapshot": fetch_snapshot.FetchSnapshotRequest,
    compact.NAME: compact.CompactFetch,
}
"""The message of each request: Kafka's, or our own."""
REQUESTS = tuple(ENTITIES)


@dataclass(slots=True)
class Draft:
    """A decoded good request, which a test changes."""

    request: str
    envelope: Envelope
    body: Any
    tail: Callable[[bytes], bytes] = bytes
    """Changes the bytes of the encoded body."""

    @classmethod
    def of(cls, request: str, frame: bytes) -> Draft:
        """Take a frame apart."""
        envelope, body = decode_envelope(frame)
        if request == compact.NAME:
            return cls(request, envelope, compact.read(bytes(body)))
        read = cast("Any", entity_reader(ENTITIES[request]))
        message, _ = read(memoryview(bytes(body)), 0)
        return cls(request, envelope, message)

    def put(self, path: str, value: Any) -> None:
        """Set a field of the message: names and places, with dots between."""
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
        """Encode the request again."""
        return encode_envelope(self.envelope) + self.tail(self._body())

    def _body(self) -> bytes:
        if self.request == compact.NAME:
            return compact.write(self.body)
        buffer = io.BytesIO()
        cast("Any", entity_writer(ENTITIES[self.request]))(buffer, self.body)
        return buffer.getvalue()


def _with(message: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    name, *rest = path
    if name.isdecimal():
        items = list(message)
        items[int(name)] = _with(items[int(name)], rest, value)
        return tuple(items)
    return replace(message, **{name: _with(getattr(message, name), rest, value)})
