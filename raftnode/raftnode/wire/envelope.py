"""Our frame around each message (S28).

    u16 magic "KQ" · u8 envelope version · u8 flags · u32 correlation id
    i16 api key · i16 api version · i32 + 16 bytes from (id, UUID)
    [u8 length + cluster id] [i32 + 16 bytes to]
    responses: i32 leader epoch [i32 + 16 bytes leader] [u8 length + host, u16 port]
    u16 length of the extensions, each u16 tag · u16 length · bytes, tags rising
    body: the rest

Big-endian; a part in brackets is there when its flag says so. A reader skips unknown extensions,
so that the frame can grow; unknown flags are an error.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from raftnode.core.types import NO_EPOCH, Endpoint, Epoch, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.wire.reader import Reader, replica_key

MAGIC = 0x4B51
ENVELOPE_VERSION = 1

FLAG_RESPONSE = 0x01
FLAG_ERROR = 0x02
FLAG_CLUSTER_ID = 0x04
FLAG_TARGET = 0x08
FLAG_LEADER = 0x10
FLAG_LEADER_ENDPOINT = 0x20
_RESPONSE_FLAGS = FLAG_ERROR | FLAG_LEADER | FLAG_LEADER_ENDPOINT
_KNOWN_FLAGS = 0x3F

EXTENSIONS_MAX = 64
HOST_BYTES_MAX = 255

_HEAD = struct.Struct(">HBBIhhi16s")
_KEY = struct.Struct(">i16s")
_EPOCH = struct.Struct(">i")
_SIZE = struct.Struct(">H")
_TAG = struct.Struct(">HH")


@dataclass(frozen=True, slots=True)
class Envelope:
    """The header around a body.

    Invariant: only a response has a leader, an endpoint or `is_error`.
    """

    api_key: int
    api_version: int
    correlation_id: int
    source: ReplicaKey
    target: ReplicaKey | None = None
    """The receiver of the frame; None only while the sender does not know it yet."""
    cluster_id: str | None = None
    is_response: bool = False
    is_error: bool = False
    """The frame has no body: the request could not be served; the extensions say why."""
    leader: ReplicaKey | None = None
    leader_epoch: Epoch = NO_EPOCH
    leader_endpoint: Endpoint | None = None
    extensions: Mapping[int, bytes] = field(default_factory=dict[int, bytes])


def encode_endpoint(endpoint: Endpoint) -> bytes:
    """Write an endpoint.

    Raises:
        ValueError: a host longer than 255 bytes or a port outside 16 bits.
    """
    host = endpoint.host.encode()
    if len(host) > HOST_BYTES_MAX or not 0 < endpoint.port < 65536:
        raise ValueError(f"not an endpoint that a frame can carry: {endpoint}")
    return bytes((len(host),)) + host + endpoint.port.to_bytes(2, "big")


def read_endpoint(reader: Reader) -> Endpoint:
    """Read what `encode_endpoint` wrote.

    Raises:
        DecodeError: no host, port 0, or too few bytes.
    """
    host = reader.text(reader.u8())
    port = reader.u16()
    if not host or port == 0:
        raise DecodeError(f"not an endpoint: host {host!r}, port {port}")
    return Endpoint(host, port)


def encode_envelope(envelope: Envelope) -> bytes:
    """Write an envelope; the frame is this and the body.

    Raises:
        ValueError: a value that the frame cannot carry.
    """
    try:
        return b"".join(_parts(envelope))
    except struct.error as error:
        raise ValueError(f"an envelope that a frame cannot carry: {error}") from None


def _parts(envelope: Envelope) -> list[bytes]:
    flags = 0
    parts = [b""]
    if envelope.cluster_id is not None:
        flags |= FLAG_CLUSTER_ID
        cluster_id = envelope.cluster_id.encode()
        if not 0 < len(cluster_id) < 256:
            raise ValueError(f"a cluster id of {len(cluster_id)} bytes; allowed are 1 to 255")
        parts.append(bytes((len(cluster_id),)) + cluster_id)
    if envelope.target is not None:
        flags |= FLAG_TARGET
        parts.append(_key_bytes(envelope.target))
    if envelope.is_response:
        flags |= FLAG_RESPONSE | (FLAG_ERROR if envelope.is_error else 0)
        parts.append(_EPOCH.pack(envelope.leader_epoch))
        if envelope.leader is not None:
            flags |= FLAG_LEADER
            parts.append(_key_bytes(envelope.leader))
        if envelope.leader_endpoint is not None:
            flags |= FLAG_LEADER_ENDPOINT
            parts.append(encode_endpoint(envelope.leader_endpoint))
    extensions = b"".join(
        _TAG.pack(tag, len(value)) + value for tag, value in sorted(envelope.extensions.items())
    )
    parts[0] = _HEAD.pack(
        MAGIC,
        ENVELOPE_VERSION,
        flags,
        envelope.correlation_id,
        envelope.api_key,
        envelope.api_version,
        envelope.source.node_id,
        envelope.source.directory_id.bytes,
    )
    parts += (_SIZE.pack(len(extensions)), extensions)
    return parts


def decode_envelope(frame: bytes | memoryview) -> tuple[Envelope, memoryview]:
    """Split a frame into its envelope and its body.

    Raises:
        DecodeError: the bytes are not a frame of this version.
    """
    view = memoryview(frame)
    if len(view) < _HEAD.size:
        raise DecodeError(f"a frame of {len(view)} bytes; the head alone has {_HEAD.size}")
    magic, version, flags, correlation_id, api_key, api_version, node_id, directory_id = (
        _HEAD.unpack_from(view)
    )
    if magic != MAGIC or version != ENVELOPE_VERSION:
        raise DecodeError(f"not a frame of version {ENVELOPE_VERSION}: {magic:#06x} {version}")
    is_response = bool(flags & FLAG_RESPONSE)
    if flags & ~_KNOWN_FLAGS or (not is_response and flags & _RESPONSE_FLAGS):
        raise DecodeError(f"flags {flags:#04x} are unknown or contradict each other")
    reader = Reader(view)
    reader.skip(_HEAD.size)
    cluster_id = None
    if flags & FLAG_CLUSTER_ID and not (cluster_id := reader.text(reader.u8())):
        raise DecodeError("an empty cluster id")
    target = _read_key(reader) if flags & FLAG_TARGET else None
    leader, leader_epoch, leader_endpoint = None, NO_EPOCH, None
    if is_response:
        leader_epoch = Epoch(reader.i32())
        leader = _read_key(reader) if flags & FLAG_LEADER else None
        leader_endpoint = read_endpoint(reader) if flags & FLAG_LEADER_ENDPOINT else None
    extensions = _read_extensions(Reader(reader.view(reader.u16())))
    envelope = Envelope(
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        source=replica_key(node_id, directory_id),
        target=target,
        cluster_id=cluster_id,
        is_response=is_response,
        is_error=bool(flags & FLAG_ERROR),
        leader=leader,
        leader_epoch=leader_epoch,
        leader_endpoint=leader_endpoint,
        extensions=extensions,
    )
    return envelope, reader.view(reader.remaining)


def _key_bytes(key: ReplicaKey) -> bytes:
    return _KEY.pack(key.node_id, key.directory_id.bytes)


def _read_key(reader: Reader) -> ReplicaKey:
    return replica_key(reader.i32(), reader.uuid_bytes())


def _read_extensions(reader: Reader) -> dict[int, bytes]:
    extensions: dict[int, bytes] = {}
    last = -1
    while reader.remaining:
        tag = reader.u16()
        if tag <= last or len(extensions) >= EXTENSIONS_MAX:
            raise DecodeError(f"extension {tag} after {last}, {len(extensions)} read")
        last = tag
        extensions[tag] = reader.raw(reader.u16())
    return extensions
