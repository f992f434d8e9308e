"""A load, and what came of it: the words that harness, generators and contenders share."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Operation = Literal["put", "get", "get_stale", "mixed", "append"]
Transport = Literal["sessions", "http", "etcd_json"]
KIB = 1024
KEYS = 1000
"""How many keys the loads of reads and writes go round."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Load(_Strict):
    """What clients do, each again as soon as it is answered."""

    operation: Operation
    clients: int = Field(ge=1, le=65_536)
    transport: Transport = "sessions"
    value_bytes: int = Field(default=KIB, ge=1, le=8 << 20)
    keys: int = Field(default=KEYS, ge=1)
    batch: int = Field(default=1, ge=1, le=10_000)
    """Records of each `append`; `batch` times `value_bytes` is at most the node's 1 MiB."""


class ClientSecurity(_Strict):
    """What the clients of a load present to a quorum with TLS, and the cluster that they mean."""

    ca_file: Path
    token_file: Path
    cluster_id: str


class Errand(_Strict):
    """What a load process is asked to do."""

    load: Load
    endpoints: tuple[str, ...] = Field(min_length=1)
    """`host:port`; the first is the leader's."""
    seconds: float = Field(gt=0, le=3600)
    total: int | None = None
    """Stop after so many operations, even before `seconds` are over: to fill a store."""
    attempt_timeout_ms: int = Field(default=30_000, ge=1)
    keeps_on: bool = False
    """Whether a client counts an error and goes on, as under a fault; else it ends the run."""
    timeline: bool = False
    """Whether the result lists when each operation was answered."""
    security: ClientSecurity | None = None
    """None: plain connections, without a token. Sessions alone have it."""


class LoadResult(_Strict):
    """What a load process reports."""

    operations: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float
    client_cpu_us: float
    """Processor time of the load process, all clients together."""
    answered_at_s: tuple[float, ...] = ()
    """By the machine's monotonic clock, in order; empty without `timeline`."""


class Sample(_Strict):
    """One measurement of a contender: figures by name, such as `per_s` or `leader_us`."""

    figures: dict[str, float]

    def __getitem__(self, name: str) -> float:
        """A figure.

        Raises:
            KeyError: this contender does not measure it.
        """
        return self.figures[name]
