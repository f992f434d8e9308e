"""The hello: the first frame of both ends of a connection, or a refusal (S5, S6).

The dialler sends the first hello, with its identity and the wanted replica. The other end answers
with its own identity, or with a named refusal. A hello is JSON in one binary frame. A reader skips
unknown fields, so that later versions can add fields.
"""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass, field

import msgspec

from raftnode.core.replication.peer_memory import LINE_MAX, Start
from raftnode.core.types import FIRST_OFFSET, NO_EPOCH, Endpoint, Epoch, Offset, ReplicaKey
from raftnode.errors import DecodeError

VERSION_MIN = 1
VERSION_MAX = 2
"""The versions of hello and envelope together that this node speaks."""

COMPACT_FETCH_VERSION = 2
"""From this version on a node reads the compact form of Fetch."""

HELLO_BYTES_MAX = 4096

INCARNATION_MAX = 2**31 - 1

_NONCE = re.compile(r"[0-9a-f]{16}")


class RefusalReason(enum.StrEnum):
    """Why one end refuses the other."""

    WRONG_REPLICA = "wrong_replica"
    """Another (id, UUID) listens here: e.g. the wanted replica lost its disk (S6)."""
    WRONG_CLUSTER = "wrong_cluster"
    OWN_KEY = "own_key"
    """Caller and called are the same (id, UUID): own address dialled, or a disk copied."""
    STALE_STORAGE = "stale_storage"
    """The other end's storage has forgotten what this end has seen of it (S3)."""
    UNSUPPORTED_VERSION = "unsupported_version"
    BAD_HELLO = "bad_hello"
    WRONG_CERTIFICATE = "wrong_certificate"
    """The other end's certificate is not of the replica that its hello names."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that a replica reports.

    Attributes:
        key: (id, UUID); fixed for the life of the process.
        cluster_id: None until it is known from formation or the first Fetch.
        incarnation: how often its storage was started (S3).
        peer_endpoint: where peers reach it, as far as it knows: advice.
        api_endpoint: where clients reach it: advice.
        line: nonces of its storage's last starts, this one's first; none: an earlier program.
        log_end: where its log ended when it started, all of it durable.
        epoch: its epoch when it started.
    """

    key: ReplicaKey
    cluster_id: str | None
    incarnation: int
    peer_endpoint: Endpoint | None = None
    api_endpoint: Endpoint | None = None
    line: tuple[str, ...] = ()
    log_end: Offset = FIRST_OFFSET
    epoch: Epoch = NO_EPOCH
    start: Start = field(init=False, repr=False, compare=False)
    """The replica's present start of its storage; asked for at each frame."""

    def __post_init__(self) -> None:
        start = Start(self.incarnation, self.line, self.log_end, self.epoch)
        object.__setattr__(self, "start", start)

    def is_of_same_process(self, other: Identity) -> bool:
        """Whether both are of one process, whatever it has learned between them.

        A copy of its storage that another process runs has another address.
        """
        own = (self.key, self.incarnation, self.peer_endpoint, self.api_endpoint)
        return own == (other.key, other.incarnation, other.peer_endpoint, other.api_endpoint)


@dataclass(frozen=True, slots=True)
class Hello:
    """An identity, the versions that it speaks and, from the dialler, the wanted replica."""

    identity: Identity
    wants: ReplicaKey | None = None
    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a refused hello, by `replica` of `cluster_id`."""

    reason: RefusalReason
    detail: str
    replica: ReplicaKey | None = None
    cluster_id: str | None = None


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
    starts: list[str] = []
    start_end: int = 0
    start_epoch: int = -1


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Message)


def refusal_of(
    own: Identity, theirs: Hello, *, wanted: ReplicaKey | None, dialled: ReplicaKey
) -> Refusal | None:
    """Judge the other side's hello; None: it is accepted.

    Args:
        own: this replica's identity.
        theirs: the other side's hello.
        wanted: the replica that the dialler wants, if it knows.
        dialled: the dialled replica: `own` on the dialled side, the other on the dialler's.
    """
    key = theirs.identity.key
    if max(theirs.version_min, VERSION_MIN) > min(theirs.version_max, VERSION_MAX):
        detail = (
            f"the peer has versions {theirs.version_min} to {theirs.version_max}, this node "
            f"{VERSION_MIN} to {VERSION_MAX}"
        )
        return Refusal(RefusalReason.UNSUPPORTED_VERSION, detail, own.key)
    if key == own.key:
        return Refusal(RefusalReason.OWN_KEY, f"both ends are replica {key}", own.key)
    clusters = {own.cluster_id, theirs.identity.cluster_id} - {None}
    if len(clusters) == 2:
        detail = (
            f"the peer belongs to cluster {theirs.identity.cluster_id}, this node to "
            f"{own.cluster_id}"
        )
        return Refusal(RefusalReason.WRONG_CLUSTER, detail, own.key)
    if wanted is not None and wanted != dialled:
        detail = f"{dialled} listens here, not {wanted}"
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
            starts=list(identity.line),
            start_end=identity.log_end,
            start_epoch=identity.epoch,
        )
    )


def encode_refusal(refusal: Refusal) -> bytes:
    """Write a refusal."""
    return _encoder.encode(
        _Message(
            refused=refusal.reason,
            detail=refusal.detail[:512],
            replica=_optional_text(refusal.replica),
            cluster_id=refusal.cluster_id,
        )
    )


def decode_hello(data: bytes) -> Hello | Refusal:
    """Read the other side's first frame.

    Raises:
        DecodeError: neither a hello nor a refusal.
    """
    if len(data) > HELLO_BYTES_MAX:
        raise DecodeError(f"a hello of {len(data)} bytes; the limit is {HELLO_BYTES_MAX}")
    try:
        message = _decoder.decode(data)
        key = _key(message.replica)
        if message.refused is not None:
            reason = RefusalReason(message.refused)
            return Refusal(reason, message.detail, key, message.cluster_id)
        if key is None or message.versions is None:
            raise DecodeError("a hello without replica or versions")
        if message.cluster_id is not None and not 0 < len(message.cluster_id.encode()) < 256:
            raise DecodeError("a cluster id that is empty or longer than 255 bytes")
        _check_start(message)
        identity = Identity(
            key=key,
            cluster_id=message.cluster_id,
            incarnation=message.incarnation,
            peer_endpoint=_endpoint(message.peer_endpoint),
            api_endpoint=_endpoint(message.api_endpoint),
            line=tuple(message.starts),
            log_end=Offset(message.start_end),
            epoch=Epoch(message.start_epoch),
        )
        return Hello(identity, _key(message.wants), *message.versions)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise DecodeError(f"not a hello: {error}") from error


def _check_start(message: _Message) -> None:
    line = message.starts
    if len(line) > LINE_MAX or not all(_NONCE.fullmatch(nonce) for nonce in line):
        raise DecodeError(f"starts are not a list of at most {LINE_MAX} nonces")
    if not len(line) <= message.incarnation <= INCARNATION_MAX:
        raise DecodeError(f"incarnation {message.incarnation} with {len(line)} starts")
    if not 0 <= message.start_end < 2**63 or not -1 <= message.start_epoch < 2**31:
        raise DecodeError(f"a start at offset {message.start_end}, epoch {message.start_epoch}")


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
