"""Query parameters of the API: checked like bodies, shown in the reference like them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from raftnode.api.model import ApiModel, TimeoutMs

KEY_MAX_BYTES = 1024
"""The longest key in UTF-8: a key is a name, and every scan and log line carries it."""

Consistency = Literal["linearizable", "local"]


class TimeoutQuery(ApiModel):
    """Parameters of a request that waits."""

    timeout_ms: Annotated[
        TimeoutMs, Field(description="How long to wait before giving up; milliseconds.")
    ] = 10_000


class ReadLogQuery(ApiModel):
    """Parameters of `GET /v1/log`."""

    offset: int = Field(
        default=0, ge=0, le=2**63 - 1, description="The first record's offset; see `next_offset`."
    )
    max_bytes: int = Field(
        default=1 << 20,
        ge=1,
        le=16 << 20,
        description="How many bytes of records to bring, of which one answer has 1 MiB at most; at "
        "least one record comes in any case.",
    )
    max_wait_ms: int = Field(
        default=0,
        ge=0,
        le=60_000,
        description="How long to wait for a record when there is none; milliseconds.",
    )


class StateQuery(ApiModel):
    """Parameters of `GET /v1/node/state`."""

    known: str = Field(
        default="",
        max_length=4096,
        description="The state that the caller knows; the answer comes once it is another one.",
    )
    max_wait_ms: int = Field(
        default=0,
        ge=0,
        le=60_000,
        description="How long to wait while it is that one; milliseconds.",
    )


class QuorumQuery(TimeoutQuery):
    """Parameters of `GET /v1/quorum`."""

    confirmed: bool = Field(
        default=False,
        description="Answer only after a majority confirmed that this node still leads (S11).",
    )


class ReadKeyQuery(TimeoutQuery):
    """Parameters of `GET /v1/kv/{key}`."""

    consistency: Consistency = Field(
        default="linearizable",
        description="`linearizable`: the leader, confirmed by a majority (or by its lease, where "
        "`read_lease_clock_drift_percent` is set). `local`: what the "
        "asked node has applied, perhaps old.",
    )


class ListKeysQuery(ReadKeyQuery):
    """Parameters of `GET /v1/kv`."""

    prefix: str = Field(
        default="", max_length=KEY_MAX_BYTES, description="Only keys that begin with it."
    )
    after: str | None = Field(
        default=None, max_length=KEY_MAX_BYTES, description="Only keys after it; from `next`."
    )
    limit: int = Field(default=100, ge=1, le=1000, description="How many entries at most.")
