"""The client's settings that most programs leave alone."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client asks the nodes within the time of a call.

    Attributes:
        attempt_timeout_ms: how long one node may take to answer a read, its asked-for
            wait not counted, before another is asked; a write has the whole deadline,
            since it must not be sent to another.
        connect_timeout_ms: how long a connection may take to come about.
        retry_backoff_ms: the first wait after no node could serve a call; it doubles.
        retry_backoff_max_ms: the longest such wait.
        keepalive: whether the system probes idle connections each second, so that a request
            that waits ends some 3 s after the node's machine or the network is cut off.
        rng: for the order of asking and the jitter of the waits; None: a random one.
    """

    attempt_timeout_ms: int = 2_000
    connect_timeout_ms: int = 1_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1_000
    keepalive: bool = False
    rng: random.Random | None = None
