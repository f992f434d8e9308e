"""One request to one node, and certainty about whether anything of it was sent.

aiohttp repeats a GET, PUT or DELETE by itself when a kept connection turns out to be
dead, although the first copy may have arrived. For a write that would break the rule of
this package, so the trace hooks here let a request have one connection and no second.
"""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import aiohttp
from pydantic import ValidationError

from raftnode.api.model import TIMEOUT_MS_MAX, ApiError, ApiModel
from raftnode.client.credential_files import PLAIN, LoadedCredentials, SecretHeaders
from raftnode.client.tls_failures import describe_tls_failure, is_refused_certificate
from raftnode.core.types import Endpoint
from raftnode.session import answers
from raftnode.session.answers import Greeting
from raftnode.session.operations import Kind, append_body

ModelT = TypeVar("ModelT", bound=ApiModel)

_BYTES_BODY_MAX = 1 << 20

_ANSWER_SHARE = 0.9
"""The node gets this share of the time left, so that its own answer comes before the cut."""


@dataclass(frozen=True, slots=True)
class Call:
    """What to ask, of any node."""

    method: str
    path: str
    """Percent-encoded, query included."""
    body: bytes | None = None
    content_type: str = "application/json"
    write: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class OperationCall:
    """What to ask through a session, of any node."""

    kind: Kind
    body: bytes
    over_http: Callable[[int], Call]
    """Makes the same call over HTTP, for a node without sessions; gets the node's timeout."""

    @property
    def write(self) -> bool:
        """Whether it changes anything."""
        return self.kind in WRITES

    def for_session(self, _greeting: Greeting) -> tuple[Kind, bytes]:
        """The operation's kind and body, the same for each node."""
        return self.kind, self.body

    def __str__(self) -> str:
        return str(self.over_http(1))


@functools.cache
def _batch_encoder() -> Callable[[Sequence[bytes], int], bytes] | None:
    """What finishes a batch; None: crc32c is not installed, as in the operator's image."""
    try:
        from raftnode.logformat.keyless import encode_keyless_batch  # noqa: PLC0415
    except ImportError:
        return None
    return encode_keyless_batch


WRITES = frozenset({Kind.PUT, Kind.DELETE})


@dataclass(frozen=True, slots=True)
class AppendCall:
    """Records to append through a session with any node, in the form that the node takes."""

    values: Sequence[bytes]
    over_http: Callable[[int], Call]
    """As that of `OperationCall`."""

    @property
    def write(self) -> bool:
        """Whether it changes anything."""
        return True

    def for_session(self, greeting: Greeting) -> tuple[Kind, bytes]:
        """The operation's kind and body: a finished batch, if the node takes one of that size."""
        smallest, encode = greeting.batch_min_bytes, _batch_encoder()
        if encode is not None and smallest and sum(map(len, self.values)) >= smallest:
            return Kind.APPEND_BATCH, encode(self.values, 0)
        return Kind.APPEND, append_body(self.values)

    def __str__(self) -> str:
        return str(self.over_http(1))


SessionCall = OperationCall | AppendCall


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node answered."""

    endpoint: Endpoint
    status: int
    headers: dict[str, str]
    body: bytes
    result: answers.Answer | None = None
    """What a session brought instead of a body; None: the answer came over HTTP, or is an error."""
    credentials: int = 0
    """The version of the credentials that the request went out with."""

    @property
    def ok(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.status < 300

    def decode(self, model: type[ModelT]) -> ModelT:
        """Read the body, skipping fields that only newer nodes send.

        Raises:
            ValidationError: it is not that model.
        """
        return model.model_validate_json(self.body, extra="ignore")

    def decode_error(self) -> ApiError | None:
        """Read an error; None when it was not one of our nodes that answered."""
        try:
            return self.decode(ApiError)
        except ValidationError:
            return None


class AttemptError(Exception):
    """A request to one node that brought no answer.

    Attributes:
        timed_out: whether its time was over, which says little if that was short.
    """

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class NotSentError(AttemptError):
    """No connection came about: the node certainly did not see the request."""


class CutError(AttemptError):
    """The request was sent, at least in part, and no whole answer came."""


class SendOnceError(aiohttp.ClientConnectionError):
    """aiohttp was about to send a write a second time."""


@dataclass(slots=True)
class _Progress:
    write: bool
    connected: bool = False
    reused: bool = False


def send_once_trace() -> aiohttp.TraceConfig:
    """Make the hooks that a session needs for `exchange` to keep its promise."""
    trace = aiohttp.TraceConfig()
    trace.on_connection_create_start.append(_before_connection)
    trace.on_connection_create_end.append(_after_connection)
    trace.on_connection_reuseconn.append(_before_connection)
    trace.on_connection_reuseconn.append(_after_connection)
    trace.on_connection_reuseconn.append(_note_reuse)
    return trace


async def exchange(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    call: Call,
    *,
    timeout_s: float,
    connect_timeout_s: float,
    loaded: LoadedCredentials = PLAIN,
) -> Answer:
    """Send a request to one node and read its whole answer; follow no redirect.

    The session must have been made with `send_once_trace`.

    Raises:
        NotSentError: it is certain that nothing was sent.
        CutError: something may have been sent.
    """
    progress = _Progress(call.write)
    data = call.body
    headers = SecretHeaders(loaded.headers)
    if data is not None:
        headers["Content-Type"] = call.content_type
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.request(
                call.method,
                loaded.url(endpoint, call.path),
                data=io.BytesIO(data) if data and len(data) > _BYTES_BODY_MAX else data,
                headers=headers,
                ssl=loaded.ssl,
                server_hostname=loaded.server_name,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s),
                trace_request_ctx=progress,
            ) as response,
        ):
            body = await response.read()
            return Answer(
                endpoint,
                response.status,
                dict(response.headers),
                body,
                credentials=loaded.version,
            )
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        # A connection that was in use before has shown what TLS it wants.
        at = None if progress.reused else endpoint
        reason = describe_failure(error, timeout_s, at, loaded)
        not_seen = not progress.reused and is_refused_certificate(error)
        kind = CutError if progress.connected and not not_seen else NotSentError
        failure = kind(reason, timed_out=isinstance(error, TimeoutError))
    # Not from the error, which may hold the request's headers.
    raise failure


async def _before_connection(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any
) -> None:
    progress: _Progress = context.trace_request_ctx
    if progress.connected and progress.write:
        raise SendOnceError("the connection was lost after the request was sent")


async def _after_connection(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any
) -> None:
    context.trace_request_ctx.connected = True


async def _note_reuse(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any
) -> None:
    context.trace_request_ctx.reused = True


def describe_failure(
    error: BaseException,
    timeout_s: float,
    endpoint: Endpoint | None = None,
    loaded: LoadedCredentials = PLAIN,
) -> str:
    """Say why a request or a connection failed; with the node's endpoint, what TLS it may want."""
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
        return f"no answer within {timeout_s * 1000:.0f} ms"
    if endpoint is not None:
        reason = describe_tls_failure(error, endpoint, loaded)
        if reason is not None:
            return reason
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or str(error.os_error)
    return str(error) or type(error).__name__


def answer_within_ms(left_ms: int) -> int:
    """The timeout to give to the node, when that much is left for the whole call."""
    return min(TIMEOUT_MS_MAX, max(1, int(left_ms * _ANSWER_SHARE)))
