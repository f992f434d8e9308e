"""Read requests strictly into the API's models, and write answers.

This module has all code that depends on aiohttp and on no route. Each fault of a request becomes
a `RequestError`, which names the field and what is allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from aiohttp import web
from pydantic import ValidationError

from raftnode.api.errors import refusal
from raftnode.api.media import JSON, TEXT
from raftnode.api.model import ApiError, ApiModel, Replica
from raftnode.api.needs import Need
from raftnode.errors import RequestError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ModelT = TypeVar("ModelT", bound=ApiModel)

_SHOWN_FAULTS_MAX = 5


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Sizes in bytes, which the server checks before it calls the node."""

    record_max_bytes: int = 1 << 20
    """Key and value of one record."""
    batch_max_bytes: int = 1 << 20
    """All records of one append."""

    @property
    def json_body_max_bytes(self) -> int:
        """A full batch in base64, with room for the JSON around each record."""
        return self.batch_max_bytes * 3 // 2 + (1 << 20)


class BodyLimits(Protocol):
    """Limits of the bodies that arrive; `raftnode.api.guard.Guard` implements it."""

    def next_body_timeout_s(self) -> float:
        """How long the next body may take."""
        ...

    def take_bytes(self, request: web.Request, size: int) -> None:
        """Count a part of a body until the request is answered.

        Raises:
            RequestError: TOO_MANY_REQUESTS.
        """
        ...

    def body_too_large(self, request: web.Request) -> None:
        """Note that a body was too large."""
        ...

    async def body_too_late(self, request: web.Request) -> None:
        """Note that a body came too late; return once it may be answered."""
        ...


class _NoBodyLimits:
    """For an application without a guard: a deadline alone."""

    def next_body_timeout_s(self) -> float:
        """Half a minute."""
        return 30.0

    def take_bytes(self, request: web.Request, size: int) -> None:
        """Count nothing."""

    def body_too_large(self, request: web.Request) -> None:
        """Note nothing."""

    async def body_too_late(self, request: web.Request) -> None:
        """Note nothing."""


BODY_LIMITS: web.AppKey[BodyLimits] = web.AppKey("body_limits", BodyLimits)
"""Where an application has the limits of its bodies."""

STILL_ALLOWED: web.RequestKey[Callable[[], None]] = web.RequestKey("still_allowed")
"""Where a request has what asks the access file again, once its body has arrived."""

_NO_BODY_LIMITS: BodyLimits = _NoBodyLimits()


@dataclass(frozen=True, slots=True)
class Route:
    """One operation of the API, with its texts for the reference."""

    method: str
    path: str
    """In OpenAPI's form: `/v1/kv/{key}`."""
    handler: Handler
    operation_id: str
    summary: str
    need: Need
    """What a client must be allowed to do."""
    query: type[ApiModel] | None = None
    json_body: type[ApiModel] | None = None
    binary_body: str | None = None
    """The meaning of a body of raw bytes; None: not accepted."""
    response: type[ApiModel] | str = TEXT
    """The model of the answer, or its content type."""
    status: int = 200
    """The status of an answer that is no error."""
    errors: tuple[str, ...] = ()
    """Error names besides those of every request."""
    headers: tuple[str, ...] = ()


def read_query(request: web.Request, model: type[ModelT]) -> ModelT:
    """Read the query string into a model.

    Raises:
        RequestError: INVALID_REQUEST, naming the parameter.
    """
    query = request.rel_url.query
    doubled = sorted({name for name in query if len(query.getall(name)) > 1})
    if doubled:
        raise refusal("INVALID_REQUEST", f"query: {doubled[0]} is given twice; give it once")
    try:
        return model.model_validate(dict(query))
    except ValidationError as error:
        raise refusal("INVALID_REQUEST", f"query: {describe_faults(error)}") from None


async def read_json(request: web.Request, model: type[ModelT], *, max_bytes: int) -> ModelT:
    """Read a JSON body into a model, without coercing types.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE, BODY_TOO_LARGE, INVALID_REQUEST.
    """
    require_content_type(request, JSON)
    body = await read_body(request, max_bytes=max_bytes)
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise refusal("INVALID_REQUEST", f"body: {describe_faults(error)}") from None


def require_content_type(request: web.Request, *allowed: str) -> None:
    """Refuse a body of another type than the allowed ones.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE, naming the allowed types.
    """
    if request.content_type not in allowed:
        raise refusal(
            "UNSUPPORTED_MEDIA_TYPE",
            f"Content-Type is {request.content_type!r}; expected {' or '.join(allowed)}",
        )


async def read_body(
    request: web.Request, *, max_bytes: int, error: str = "BODY_TOO_LARGE"
) -> bytes:
    """Read the whole body, never holding more than `max_bytes` of it.

    Raises:
        RequestError: `error` when it is larger, BODY_TIMEOUT when it does not arrive,
            TOO_MANY_REQUESTS when the bodies of all clients take too much memory; what
            `STILL_ALLOWED` raises when the client lost its permission meanwhile.
    """
    limits = request.app.get(BODY_LIMITS) or _NO_BODY_LIMITS
    too_large = refusal(
        error, f"the body is larger than {max_bytes} bytes, the most that the node accepts"
    )
    if (request.content_length or 0) > max_bytes:
        limits.body_too_large(request)
        raise too_large
    body, timeout_s = bytearray(), limits.next_body_timeout_s()
    try:
        async with asyncio.timeout(timeout_s):
            while chunk := await request.content.readany():
                limits.take_bytes(request, len(chunk))
                body += chunk
                if len(body) > max_bytes:
                    limits.body_too_large(request)
                    raise too_large
    except TimeoutError:
        await limits.body_too_late(request)
        raise refusal("BODY_TIMEOUT", f"the body did not arrive within {timeout_s:g} s") from None
    except web.RequestPayloadError:
        raise refusal("INVALID_REQUEST", "the body ended early, or its encoding is wrong") from None
    still_allowed = request.get(STILL_ALLOWED)
    if still_allowed is not None:
        still_allowed()
    return bytes(body)


def describe_faults(error: ValidationError) -> str:
    """Describe each fault on one line: its place and what is allowed there."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    texts: list[str] = []
    for fault in faults[:_SHOWN_FAULTS_MAX]:
        where = ".".join(str(part) for part in fault["loc"])
        what = fault["msg"].removeprefix("Value error, ")
        texts.append(f"{where}: {what}" if where else what)
    if len(faults) > _SHOWN_FAULTS_MAX:
        texts.append(f"and {len(faults) - _SHOWN_FAULTS_MAX} more")
    return "; ".join(texts)


def json_response(
    model: ApiModel, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Make a response from a model."""
    return web.Response(
        body=model.model_dump_json().encode(),
        status=status,
        headers=headers,
        content_type=JSON,
        charset="utf-8",
    )


def error_model(error: RequestError) -> ApiError:
    """Convert an error to the API's form."""
    return ApiError(
        error=error.error,
        message=str(error),
        leader=Replica.of(error.leader) if error.leader else None,
        leader_api=str(error.leader_api) if error.leader_api else None,
        outcome=error.outcome,
    )


def error_response(error: RequestError, headers: Mapping[str, str] | None = None) -> web.Response:
    """Make a response from an error."""
    return json_response(error_model(error), status=error.status, headers=headers)
