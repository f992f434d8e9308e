"""Why a request got no response."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from raftnode.transport.hello import RefusalReason


class FailureReason(enum.StrEnum):
    """What happened to the request, as far as this side knows."""

    UNREACHABLE = "unreachable"
    """Never sent: no address, no listener there, or no name resolution."""
    REFUSED = "refused"
    """Never sent: the answering replica is not the wanted one, or refuses this one."""
    OVERLOADED = "overloaded"
    """Never sent: too many requests or bytes wait for this peer."""
    INVALID = "invalid"
    """Never sent: it cannot be encoded; a defect, or no cluster id yet."""
    TIMED_OUT = "timed_out"
    """Perhaps received: no response within the time given."""
    DISCONNECTED = "disconnected"
    """Perhaps received: the connection ended first."""
    REJECTED = "rejected"
    """Received and not understood: the peer answered with an error frame."""
    BAD_RESPONSE = "bad_response"
    """Received: the response is not one to this request."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a request without a response.

    Attributes:
        reason: stable name.
        detail: for people.
        refusal: the peer's own reason, when it refused the connection.
    """

    reason: FailureReason
    detail: str
    refusal: RefusalReason | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
