"""From a message of the core to a frame and back: the only entry point of the wire.

This module has the table of APIs and the rules that hold for all of them. The module named after
a message has the form of that message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar, assert_never

from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.records import Batch
from raftnode.core.types import ReplicaKey
from raftnode.errors import DecodeError
from raftnode.wire import (
    begin_quorum_epoch,
    compact_fetch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    kafka,
    vote,
)
from raftnode.wire import extensions as ext
from raftnode.wire.envelope import Envelope, decode_envelope, encode_envelope
from raftnode.wire.errors import MessageError
from raftnode.wire.reader import Reader

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""Default limit of a frame; must exceed the largest record batch by some hundred bytes."""

ERROR_MESSAGE_BYTES_MAX = 512


class BatchDecoder(Protocol):
    """`raftnode.logformat.batch.decode_batches`, which the wire may not import."""

    def __call__(
        self, data: bytes | memoryview, *, allow_partial_tail: bool = False
    ) -> tuple[Batch, ...]:
        """Split `data` into batches; raises DecodeError."""
        ...


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """A request with its sender and receiver."""

    envelope: Envelope
    message: Request


@dataclass(frozen=True, slots=True)
class ResponseFrame:
    """A response with its sender."""

    envelope: Envelope
    message: Response


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """An answer without a message: the request was not understood, or had another receiver."""

    envelope: Envelope
    error: ErrorCode
    message: str


T = TypeVar("T")

Frame = RequestFrame | ResponseFrame | ErrorFrame

_VERSIONS = {
    vote.API_KEY: vote.VERSION,
    begin_quorum_epoch.API_KEY: begin_quorum_epoch.VERSION,
    end_quorum_epoch.API_KEY: end_quorum_epoch.VERSION,
    fetch.API_KEY: fetch.VERSION,
    fetch_snapshot.API_KEY: fetch_snapshot.VERSION,
    compact_fetch.API_KEY: compact_fetch.VERSION,
}

_REQUESTS: dict[int, Callable[[Envelope, Reader], Request]] = {
    vote.API_KEY: vote.decode_request,
    begin_quorum_epoch.API_KEY: begin_quorum_epoch.decode_request,
    end_quorum_epoch.API_KEY: end_quorum_epoch.decode_request,
    fetch.API_KEY: fetch.decode_request,
    fetch_snapshot.API_KEY: fetch_snapshot.decode_request,
    compact_fetch.API_KEY: compact_fetch.decode_request,
}

_FETCHES = frozenset({fetch.API_KEY, compact_fetch.API_KEY})
"""The two forms of Fetch, which alone may lack a cluster id (S5)."""

_RESPONSES: dict[int, Callable[[Envelope, Reader], Response]] = {
    vote.API_KEY: vote.decode_response,
    begin_quorum_epoch.API_KEY: begin_quorum_epoch.decode_response,
    end_quorum_epoch.API_KEY: end_quorum_epoch.decode_response,
    fetch_snapshot.API_KEY: fetch_snapshot.decode_response,
}


class Codec:
    """Encodes and decodes frames; holds no state, so one serves all connections."""

    def __init__(
        self, decode_batches: BatchDecoder, *, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self._decode_batches = decode_batches
        self.frame_bytes_max: Final = frame_bytes_max
        self._responses = _RESPONSES | {
            fetch.API_KEY: self._decode_fetch_response,
            compact_fetch.API_KEY: self._decode_compact_fetch_response,
        }

    def encode_request(
        self,
        request: Request,
        *,
        source: ReplicaKey,
        target: ReplicaKey | None,
        cluster_id: str | None,
        correlation_id: int,
        compact: bool = True,
    ) -> bytes:
        """Make a request's frame.

        `target` may be None, and so may `cluster_id`, in a fetch only (S5). `compact`: the
        receiver reads the compact form of Fetch.

        Raises:
            ValueError: the request is not one that `source` may send to `target`,
                or has a value that the frame cannot carry.
        """
        key, sender, receiver = _route(request, source, target, compact=compact)
        if sender != source or receiver != target:
            raise ValueError(f"{source} cannot send to {target} in place of {sender}: {request}")
        if cluster_id is None and key not in _FETCHES:
            raise ValueError(f"{type(request).__name__} needs a cluster id")
        body = _request_body(request, cluster_id, compact=compact)
        envelope = Envelope(
            api_key=key,
            api_version=_VERSIONS[key],
            correlation_id=correlation_id,
            source=source,
            target=target,
            cluster_id=cluster_id,
            extensions=body.extensions,
        )
        return self._frame(envelope, body.data)

    def encode_response(
        self,
        response: Response,
        *,
        source: ReplicaKey,
        target: ReplicaKey,
        cluster_id: str | None,
        correlation_id: int,
        compact: bool = True,
    ) -> bytes:
        """Make a response's frame; `target` sent the request, which had `correlation_id`.

        `compact`: the request was a Fetch of the compact form, which is answered in that form.

        Raises:
            ValueError: a value that the frame cannot carry, or too many bytes.
        """
        key, body = _response_body(response, compact=compact)
        fetched = isinstance(response, FetchResponse | FetchSnapshotResponse)
        endpoint = response.leader_endpoint if fetched else None
        envelope = Envelope(
            api_key=key,
            api_version=_VERSIONS[key],
            correlation_id=correlation_id,
            source=source,
            target=target,
            cluster_id=cluster_id,
            is_response=True,
            leader=response.leader,
            leader_epoch=response.epoch,
            leader_endpoint=endpoint,
            extensions=body.extensions,
        )
        return self._frame(envelope, body.data)

    def encode_error(
        self,
        request: Envelope,
        error: ErrorCode,
        message: str,
        *,
        source: ReplicaKey,
        cluster_id: str | None,
    ) -> bytes:
        """Make the answer to a request that could not be understood or was not for `source`."""
        text = message.encode()[:ERROR_MESSAGE_BYTES_MAX].decode(errors="ignore")
        envelope = replace(
            request,
            source=source,
            target=request.source,
            cluster_id=cluster_id,
            is_response=True,
            is_error=True,
            extensions={
                ext.ERROR_CODE: ext.int16(int(error)),
                ext.ERROR_MESSAGE: text.encode(),
            },
        )
        return encode_envelope(envelope)

    def decode(self, frame: bytes | memoryview) -> Frame:
        """Read a frame.

        Raises:
            MessageError: the envelope is fine, the message is not: answer it.
            DecodeError: these bytes are no frame: close the connection.
        """
        if len(frame) > self.frame_bytes_max:
            raise DecodeError(f"a frame of {len(frame)} bytes; the limit is {self.frame_bytes_max}")
        envelope, body = decode_envelope(frame)
        supported = _VERSIONS.get(envelope.api_key)
        if supported != envelope.api_version and not envelope.is_error:
            raise MessageError(
                envelope,
                ErrorCode.UNSUPPORTED_VERSION,
                f"api key {envelope.api_key} version {envelope.api_version} is not "
                f"supported; supported are {_VERSIONS}",
            )
        try:
            return self._decode_message(envelope, Reader(body))
        except DecodeError as error:
            raise MessageError(envelope, ErrorCode.INVALID_REQUEST, str(error)) from error

    def _decode_message(self, envelope: Envelope, reader: Reader) -> Frame:
        if envelope.is_error:
            reader.finish()
            return _decode_error(envelope)
        if envelope.is_response:
            response = self._responses[envelope.api_key](envelope, reader)
            reader.finish()
            return ResponseFrame(envelope, response)
        if envelope.cluster_id is None and envelope.api_key not in _FETCHES:
            raise DecodeError("a request between voters without a cluster id")
        request = _REQUESTS[envelope.api_key](envelope, reader)
        reader.finish()
        return RequestFrame(envelope, request)

    def _decode_fetch_response(self, envelope: Envelope, reader: Reader) -> FetchResponse:
        return fetch.decode_response(envelope, reader, self._decode_batches)

    def _decode_compact_fetch_response(self, envelope: Envelope, reader: Reader) -> FetchResponse:
        return compact_fetch.decode_response(envelope, reader, self._decode_batches)

    def _frame(self, envelope: Envelope, body: bytes) -> bytes:
        frame = encode_envelope(envelope) + body
        if len(frame) > self.frame_bytes_max:
            raise ValueError(f"a frame of {len(frame)} bytes; the limit is {self.frame_bytes_max}")
        return frame


def _decode_error(envelope: Envelope) -> ErrorFrame:
    error = kafka.decode_error(envelope)
    if error is ErrorCode.NONE:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    message = envelope.extensions.get(ext.ERROR_MESSAGE, b"").decode(errors="replace")
    return ErrorFrame(envelope, error, message)


def _route(
    request: Request, source: ReplicaKey, target: ReplicaKey | None, *, compact: bool
) -> tuple[int, ReplicaKey, ReplicaKey | None]:
    """Api key, sender and receiver by the request's own fields."""
    match request:
        case FetchRequest():
            key = compact_fetch.API_KEY if compact else fetch.API_KEY
            return key, request.replica, target
        case FetchSnapshotRequest():
            return fetch_snapshot.API_KEY, request.replica, target
        case VoteRequest():
            return vote.API_KEY, request.candidate, request.voter
        case BeginQuorumEpochRequest():
            return begin_quorum_epoch.API_KEY, request.leader, request.voter
        case EndQuorumEpochRequest():
            return end_quorum_epoch.API_KEY, request.leader or source, request.voter
        case _:
            assert_never(request)


def _request_body(request: Request, cluster_id: str | None, *, compact: bool) -> kafka.Body:
    if compact and isinstance(request, FetchRequest):
        return kafka.Body(
            compact_fetch.encode_request(request), compact_fetch.extensions_of(request)
        )
    return _carried(lambda: _kafka_request(request, cluster_id))


def _kafka_request(request: Request, cluster_id: str | None) -> kafka.Body:
    match request:
        case FetchRequest():
            return fetch.encode_request(request, cluster_id)
        case FetchSnapshotRequest():
            return fetch_snapshot.encode_request(request, cluster_id)
        case VoteRequest():
            return vote.encode_request(request, cluster_id)
        case BeginQuorumEpochRequest():
            return begin_quorum_epoch.encode_request(request, cluster_id)
        case EndQuorumEpochRequest():
            return end_quorum_epoch.encode_request(request, cluster_id)
        case _:
            assert_never(request)


def _response_body(response: Response, *, compact: bool) -> tuple[int, kafka.Body]:
    if compact and isinstance(response, FetchResponse):
        return compact_fetch.API_KEY, kafka.Body(compact_fetch.encode_response(response))
    return _carried(lambda: _kafka_response(response))


def _kafka_response(response: Response) -> tuple[int, kafka.Body]:
    match response:
        case FetchResponse():
            return fetch.API_KEY, fetch.encode_response(response)
        case FetchSnapshotResponse():
            return fetch_snapshot.API_KEY, fetch_snapshot.encode_response(response)
        case VoteResponse():
            return vote.API_KEY, vote.encode_response(response)
        case BeginQuorumEpochResponse():
            return begin_quorum_epoch.API_KEY, begin_quorum_epoch.encode_response(response)
        case EndQuorumEpochResponse():
            return end_quorum_epoch.API_KEY, end_quorum_epoch.encode_response(response)
        case _:
            assert_never(response)


def _carried(encode: Callable[[], T]) -> T:
    """Turn kio's TypeError for a number out of range into the ValueError that we promise."""
    try:
        return encode()
    except TypeError as error:
        raise ValueError(f"a value that Kafka's message cannot carry: {error}") from error
