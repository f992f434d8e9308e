"""What both ends of a connection say first, and who refuses whom (S5, S6).

The dialler speaks first: who it is and whom it wants. The other answers with who
it is, or with a refusal by name. JSON in one binary frame; unknown fields are
skipped, so later versions can say more.
"""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass

import msgspec

from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.errors import DecodeError

VERSION_MIN = 1
VERSION_MAX = 1
"""The versions of hello and envelope together that this node speaks."""

HELLO_BYTES_MAX = 4096


class RefusalReason(enum.StrEnum):
    """Why one end will not talk to the other."""

    WRONG_REPLICA = "wrong_replica"
    """Another (id, UUID) listens here: e.g. the one wanted lost its disk (S6)."""
    WRONG_CLUSTER = "wrong_cluster"
    OWN_KEY = "own_key"
    """Caller and called are the same (id, UUID): own address dialled, or a disk copied."""
    UNSUPPORTED_VERSION = "unsupported_version"
    BAD_HELLO = "bad_hello"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a replica says it is.

    Attributes:
        key: (id, UUID); fixed for the life of the process.
        cluster_id: None until formation or the first fetch told it.
        incarnation: how often its storage was started (S3).
        peer_endpoint: where peers reach it, as far as it knows: advice.
        api_endpoint: where clients reach it: advice.
    """

    key: ReplicaKey
    cluster_id: str | None
    incarnation: int
    peer_endpoint: Endpoint | None = None
    api_endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """An identity, the versions that it speaks and, from the dialler, whom it wants."""

    identity: Identity
    wants: ReplicaKey | None = None
    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a hello that is not welcome; `replica` says who answered."""

    reason: RefusalReason
    detail: str
    replica: ReplicaKey | None = None


class _Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    refused: str | None = None
    detail: str = ""
    replica: str | None = None
    versions: tuple[int, int] | None = None
    cluster_id: str | None = None
    incarnation: int = 0
    peer_endpoint: str | None = None
    api_endpoint: str | None = None
    wants: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Message)


def refusal_of(
    own: Identity, theirs: Hello, *, wanted: ReplicaKey | None, found: ReplicaKey
) -> Refusal | None:
    """Judge the other side's hello; None: welcome.

    Args:
        own: who this replica is.
        theirs: what the other side said.
        wanted: whom the dialler wants, if it knows.
        found: who is called: `own` on the called side, the other on the dialler's.
    """
    key = theirs.identity.key
    if max(theirs.version_min, VERSION_MIN) > min(theirs.version_max, VERSION_MAX):
        detail = (
            f"versions {theirs.version_min} to {theirs.version_max} there, "
            f"{VERSION_MIN} to {VERSION_MAX} here"
        )
        return Refusal(RefusalReason.UNSUPPORTED_VERSION, detail, own.key)
    if key == own.key:
        return Refusal(RefusalReason.OWN_KEY, f"both ends are {key}", own.key)
    clusters = {own.cluster_id, theirs.identity.cluster_id} - {None}
    if len(clusters) == 2:
        detail = f"cluster {theirs.identity.cluster_id} there, {own.cluster_id} here"
        return Refusal(RefusalReason.WRONG_CLUSTER, detail, own.key)
    if wanted is not None and wanted != found:
        detail = f"{wanted} is wanted, {found} listens here"
        return Refusal(RefusalReason.WRONG_REPLICA, detail, own.key)
    return None


def encode_hello(hello: Hello) -> bytes:
    """Write a hello."""
    identity = hello.identity
    return _encoder.encode(
        _Message(
            replica=str(identity.key),
            versions=(hello.version_min, hello.version_max),
            cluster_id=identity.cluster_id,
            incarnation=identity.incarnation,
            peer_endpoint=_optional_text(identity.peer_endpoint),
            api_endpoint=_optional_text(identity.api_endpoint),
            wants=_optional_text(hello.wants),
        )
    )


def encode_refusal(refusal: Refusal) -> bytes:
    """Write a refusal."""
    return _encoder.encode(
        _Message(
            refused=refusal.reason,
            detail=refusal.detail[:512],
            replica=_optional_text(refusal.replica),
        )
    )


def decode_hello(data: bytes) -> Hello | Refusal:
    """Read what the other side said.

    Raises:
        DecodeError: neither a hello nor a refusal.
    """
    if len(data) > HELLO_BYTES_MAX:
        raise DecodeError(f"a hello of {len(data)} bytes; allowed are {HELLO_BYTES_MAX}")
    try:
        message = _decoder.decode(data)
        key = _key(message.replica)
        if message.refused is not None:
            return Refusal(RefusalReason(message.refused), message.detail, key)
        if key is None or message.versions is None:
            raise DecodeError("a hello without replica or versions")
        if message.cluster_id is not None and not 0 < len(message.cluster_id.encode()) < 256:
            raise DecodeError("a cluster id that is empty or longer than 255 bytes")
        identity = Identity(
            key=key,
            cluster_id=message.cluster_id,
            incarnation=message.incarnation,
            peer_endpoint=_endpoint(message.peer_endpoint),
            api_endpoint=_endpoint(message.api_endpoint),
        )
        return Hello(identity, _key(message.wants), *message.versions)
    except (ValueError, msgspec.MsgspecError) as error:
        raise DecodeError(f"not a hello: {error}") from error


def _optional_text(value: ReplicaKey | Endpoint | None) -> str | None:
    return None if value is None else str(value)


def _key(text: str | None) -> ReplicaKey | None:
    if text is None:
        return None
    key = ReplicaKey.parse(text)
    if key.node_id > 2**31 - 1 or key.directory_id == uuid.UUID(int=0):
        raise ValueError(f"not a replica: {text!r}")
    return key


def _endpoint(text: str | None) -> Endpoint | None:
    if text is None:
        return None
    endpoint = Endpoint.parse(text)
    if len(endpoint.host.encode()) > 255:
        raise ValueError(f"a host of {len(endpoint.host)} characters")
    return endpoint
