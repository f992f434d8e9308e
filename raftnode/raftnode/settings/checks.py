"""The rules between settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raftnode.core.types import Endpoint
    from raftnode.settings.model import NodeSettings

WILDCARDS = frozenset({"0.0.0.0", "::"})
"""Hosts to listen on, which nobody can connect to."""

STALL_TIMEOUT_MIN_MS = 5_000
"""A disk of a cloud that works pauses for a second or two, and a garbage collector or a busy
machine holds an event loop for as long: a shorter limit would end healthy nodes."""

STALL_TIMEOUT_ENOUGH_MS = 30_000
"""No disk that works keeps one call for so long, however long the quorum's time-outs are."""


def cross_checks(settings: NodeSettings) -> Iterable[tuple[bool, str]]:
    """Every rule between settings, with what to say when it is broken."""
    yield (
        settings.election_timeout_ms >= 2 * settings.retry_backoff_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) is shorter than a request's "
            "round trip with one retry: at least twice retry_backoff_ms "
            f"({settings.retry_backoff_ms})"
        ),
    )
    yield (
        2 * settings.election_timeout_ms >= settings.request_timeout_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) is shorter than requests may "
            f"take: at least half of request_timeout_ms ({settings.request_timeout_ms}), or no "
            "vote may come in time and elections never end"
        ),
    )
    yield (
        settings.election_timeout_ms <= settings.fetch_timeout_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) exceeds fetch_timeout_ms "
            f"({settings.fetch_timeout_ms}): an election that outlasts the followers' patience "
            "makes them stand as well"
        ),
    )
    yield (
        settings.fetch_timeout_ms >= 2 * settings.fetch_max_wait_ms,
        (
            f"fetch_timeout_ms ({settings.fetch_timeout_ms}) must be at least twice "
            f"fetch_max_wait_ms ({settings.fetch_max_wait_ms}): an idle leader answers only "
            "that often"
        ),
    )
    yield (
        settings.fetch_max_wait_ms < settings.election_timeout_ms,
        (
            f"fetch_max_wait_ms ({settings.fetch_max_wait_ms}) must be less than "
            f"election_timeout_ms ({settings.election_timeout_ms}): an idle Fetch waits so long, "
            "and a replica whose catch-up round takes an election time-out is never caught up"
        ),
    )
    leader_timeout_ms = settings.fetch_timeout_ms * 3 // 2
    stall_min_ms = min(max(STALL_TIMEOUT_MIN_MS, leader_timeout_ms + 1), STALL_TIMEOUT_ENOUGH_MS)
    yield (
        settings.stall_timeout_ms == 0 or settings.stall_timeout_ms >= stall_min_ms,
        (
            f"stall_timeout_ms ({settings.stall_timeout_ms}) is too short: a disk that works may "
            "pause for seconds, and a leader must have time to hand over first "
            f"({leader_timeout_ms} ms, 1.5 times fetch_timeout_ms). Set at least {stall_min_ms}, "
            "or 0: never end the node for a stall"
        ),
    )
    yield (
        settings.retry_backoff_ms <= settings.retry_backoff_max_ms,
        (
            f"retry_backoff_ms ({settings.retry_backoff_ms}) exceeds retry_backoff_max_ms "
            f"({settings.retry_backoff_max_ms})"
        ),
    )
    for name in ("peer", "api"):
        advertised: Endpoint | None = getattr(settings, f"{name}_advertised")
        yield (
            advertised is None or advertised.host not in WILDCARDS,
            (
                f"{name}_advertised ({advertised}) is an address to listen on, not one to connect "
                "to; name the host that others reach this node by"
            ),
        )
    peer, api = settings.peer_listen, settings.api_listen
    yield (
        peer.port != api.port
        or peer.port == 0
        or (peer.host != api.host and not {peer.host, api.host} & WILDCARDS),
        f"peer_listen and api_listen are the same address ({peer})",
    )
    for small, large in (
        ("record_max_bytes", "max_batch_bytes"),
        ("max_batch_bytes", "append_queue_bytes"),
        ("max_batch_bytes", "max_uncommitted_bytes"),
        ("max_batch_bytes", "segment_bytes"),
    ):
        yield (
            getattr(settings, small) <= getattr(settings, large),
            f"{small} ({getattr(settings, small)}) exceeds {large} ({getattr(settings, large)})",
        )
