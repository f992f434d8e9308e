"""The limits of a client listener, and the names of what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Limit(StrEnum):
    """Why a node refused a client; the value is a metric's label."""

    CONNECTIONS = "connections"
    """More connections than the node keeps: an idle one was closed, or the new one restricted."""
    ADDRESS_CONNECTIONS = "address_connections"
    """The same for one address."""
    HEAD_TIME = "head_time"
    """The head of a request did not arrive in time."""
    HEAD_SIZE = "head_size"
    """A line of the head is too long, or there are too many headers."""
    BODY_TIME = "body_time"
    """A body did not arrive in time."""
    BODY_SIZE = "body_size"
    """A body is larger than its route accepts."""
    BODIES = "bodies"
    """The bodies of the requests in flight take too much memory together."""
    REQUESTS = "requests"
    """Too many requests are in flight."""
    HOLDER_REQUESTS = "holder_requests"
    """The same for one address or subject."""
    SESSIONS = "sessions"
    """Too many sessions are open."""
    HOLDER_SESSIONS = "holder_sessions"
    """The same for one address or subject."""
    SESSION_FAULT = "session_fault"
    """A session broke the rules of the protocol, for example by overdrawing its credits."""
    UNREAD = "unread"
    """A client does not read its answers."""


OnRefused = Callable[[Limit, str], None]
"""Is called for each refusal with the limit and the address."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of a client listener; the defaults are those of the settings.

    Attributes:
        connections_max: connections in total.
        address_connections_max: connections of one address.
        reserved_max: connections beyond these, for administration, health and metrics alone.
        requests_max: requests in flight in total, those of administration and probes not counted.
        holder_requests_max: requests in flight of one holder.
        sessions_max: sessions in total.
        holder_sessions_max: sessions of one holder.
        bodies_max_bytes: bytes of the requests in flight; a holder may have as many as are left.
        unread_max_bytes: bytes of answers that clients are slow to read.
        head_timeout_ms: from a connection's begin, or a head's first byte, to the whole head.
        body_timeout_ms: from the head to the whole body.
        unread_timeout_ms: how long a client may read nothing of an answer.
        idle_timeout_ms: how long a connection may be without a request.
    """

    connections_max: int = 4096
    address_connections_max: int = 1024
    reserved_max: int = 64
    requests_max: int = 2048
    holder_requests_max: int = 512
    sessions_max: int = 2048
    holder_sessions_max: int = 512
    bodies_max_bytes: int = 16 << 20
    unread_max_bytes: int = 64 << 20
    head_timeout_ms: int = 10_000
    body_timeout_ms: int = 30_000
    unread_timeout_ms: int = 30_000
    idle_timeout_ms: int = 120_000
