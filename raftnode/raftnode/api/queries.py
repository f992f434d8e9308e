"""Query parameters of the API; they are checked and documented like bodies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from raftnode.api.model import ApiModel, TimeoutMs

KEY_MAX_BYTES = 1024
"""The longest key in UTF-8. Every listing and log line contains keys, so they must be short."""

READ_BYTES_MAX = 16 << 20
"""How many bytes of records a read may ask for; one answer has at most 1 MiB."""

WAIT_MS_MAX = 60_000
"""The longest that a read may wait for what is not there yet."""

Consistency = Literal["linearizable", "local"]


class TimeoutQuery(ApiModel):
    """Parameters of a request that waits."""

    timeout_ms: Annotated[
        TimeoutMs, Field(description="Longest wait for an answer, in milliseconds.")
    ] = 10_000


class ReadLogQuery(ApiModel):
    """Parameters of `GET /v1/log`."""

    offset: int = Field(
        default=0, ge=0, le=2**63 - 1, description="The first record's offset; see `next_offset`."
    )
    max_bytes: int = Field(
        default=1 << 20,
        ge=1,
        le=READ_BYTES_MAX,
        description="Number of bytes of records to return. One answer has at most 1 MiB, and at "
        "least one record however large it is.",
    )
    max_wait_ms: int = Field(
        default=0,
        ge=0,
        le=WAIT_MS_MAX,
        description="Longest wait for a record if there is none yet, in milliseconds.",
    )


class StateQuery(ApiModel):
    """Parameters of `GET /v1/node/state`."""

    known: str = Field(
        default="",
        max_length=4096,
        description="The state that the caller knows. The node answers once its state is "
        "another one.",
    )
    max_wait_ms: int = Field(
        default=0,
        ge=0,
        le=WAIT_MS_MAX,
        description="Longest wait for another state, in milliseconds.",
    )


class QuorumQuery(TimeoutQuery):
    """Parameters of `GET /v1/quorum`."""

    confirmed: bool = Field(
        default=False,
        description="Answer only after a majority has confirmed that this node is still the "
        "leader.",
    )


class ReadKeyQuery(TimeoutQuery):
    """Parameters of `GET /v1/kv/{key}`."""

    consistency: Consistency = Field(
        default="linearizable",
        description="`linearizable`: the leader answers, confirmed by a majority, or by its "
        "lease if `read_lease_clock_drift_percent` is set. `local`: this node answers from "
        "what it has applied, which may be old.",
    )


class ListKeysQuery(ReadKeyQuery):
    """Parameters of `GET /v1/kv`."""

    prefix: str = Field(
        default="", max_length=KEY_MAX_BYTES, description="Only keys that begin with this prefix."
    )
    after: str | None = Field(
        default=None,
        max_length=KEY_MAX_BYTES,
        description="Only keys after this one; use `next` of the page before.",
    )
    limit: int = Field(
        default=100, ge=1, le=1000, description="Largest number of entries in an answer."
    )
