"""The rules between settings."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING

from raftnode.core.types import Endpoint

if TYPE_CHECKING:
    from raftnode.settings.model import NodeSettings

WILDCARDS = frozenset({"0.0.0.0", "::"})
"""Hosts to listen on, to which no client can connect."""

STALL_TIMEOUT_MIN_MS = 5_000
"""A disk of a cloud that works pauses for a second or two, and a garbage collector or a busy
machine holds an event loop for as long: a shorter limit would end healthy nodes."""

STALL_TIMEOUT_ENOUGH_MS = 30_000
"""No disk that works keeps one call for so long, however long the quorum's timeouts are."""


def reachable(listen: Endpoint) -> Endpoint:
    """The endpoint that others get: this machine's name in the place of a host to listen on."""
    host = socket.gethostname() if listen.host in WILDCARDS else listen.host
    return Endpoint(host, listen.port)


def cross_checks(settings: NodeSettings) -> Iterable[tuple[bool, str]]:
    """Every rule between settings, with what to say when it is broken."""
    yield (
        settings.election_timeout_ms >= 2 * settings.retry_backoff_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) is too short for a "
            "request's round trip with one retry: set it to at least twice "
            f"retry_backoff_ms ({settings.retry_backoff_ms})"
        ),
    )
    yield (
        2 * settings.election_timeout_ms >= settings.request_timeout_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) is too short for a "
            "vote's request, so an election might never end: set it to at least half of "
            f"request_timeout_ms ({settings.request_timeout_ms})"
        ),
    )
    yield (
        settings.election_timeout_ms <= settings.fetch_timeout_ms,
        (
            f"election_timeout_ms ({settings.election_timeout_ms}) exceeds "
            f"fetch_timeout_ms ({settings.fetch_timeout_ms}), so followers would start "
            "elections of their own before one ends: lower election_timeout_ms or raise "
            "fetch_timeout_ms"
        ),
    )
    yield (
        settings.fetch_timeout_ms >= 2 * settings.fetch_max_wait_ms,
        (
            f"fetch_timeout_ms ({settings.fetch_timeout_ms}) must be at least twice "
            f"fetch_max_wait_ms ({settings.fetch_max_wait_ms}), because an idle leader "
            "answers a Fetch only after fetch_max_wait_ms"
        ),
    )
    yield (
        settings.fetch_max_wait_ms < settings.election_timeout_ms,
        (
            f"fetch_max_wait_ms ({settings.fetch_max_wait_ms}) must be less than "
            f"election_timeout_ms ({settings.election_timeout_ms}): an idle Fetch takes "
            "that long, and a replica is caught up only if a round takes less than an "
            "election timeout"
        ),
    )
    leader_timeout_ms = settings.fetch_timeout_ms * 3 // 2
    stall_min_ms = min(max(STALL_TIMEOUT_MIN_MS, leader_timeout_ms + 1), STALL_TIMEOUT_ENOUGH_MS)
    yield (
        settings.stall_timeout_ms == 0 or settings.stall_timeout_ms >= stall_min_ms,
        (
            f"stall_timeout_ms ({settings.stall_timeout_ms}) is too short: a working disk "
            "may pause for seconds, and a leader needs time to transfer leadership first "
            f"({leader_timeout_ms} ms, 1.5 times fetch_timeout_ms). Set at least "
            f"{stall_min_ms}, or 0 to never stop the node for a stall"
        ),
    )
    yield (
        settings.retry_backoff_ms <= settings.retry_backoff_max_ms,
        (
            f"retry_backoff_ms ({settings.retry_backoff_ms}) exceeds retry_backoff_max_ms "
            f"({settings.retry_backoff_max_ms}): lower the first or raise the second"
        ),
    )
    for name in ("peer", "api"):
        advertised: Endpoint | None = getattr(settings, f"{name}_advertised")
        yield (
            advertised is None or advertised.host not in WILDCARDS,
            (
                f"{name}_advertised ({advertised}) is an address to listen on, not one to "
                "connect to; give a host at which others reach this node"
            ),
        )
    listeners = ("peer_listen", "api_listen", "metrics_listen", "admin_listen")
    for first, second in combinations(listeners, 2):
        address: Endpoint | None = getattr(settings, first)
        other: Endpoint | None = getattr(settings, second)
        yield (
            address is None or other is None or not _collide(address, other),
            f"{first} and {second} are the same address ({address}); give each its own port",
        )
    yield from _tls_checks(settings)
    yield (
        settings.access_jwks_file is None or settings.access_file is not None,
        (
            "access_jwks_file is set without access_file, so every request is allowed anyway: set "
            "access_file too, which says what each ServiceAccount may do"
        ),
    )
    for small, large in (
        ("record_max_bytes", "max_batch_bytes"),
        ("api_address_connections_max", "api_connections_max"),
        ("api_holder_requests_max", "api_requests_max"),
        ("api_holder_sessions_max", "api_sessions_max"),
        ("max_batch_bytes", "append_queue_bytes"),
        ("max_batch_bytes", "max_uncommitted_bytes"),
        ("max_batch_bytes", "segment_bytes"),
    ):
        yield (
            getattr(settings, small) <= getattr(settings, large),
            (
                f"{small} ({getattr(settings, small)}) exceeds {large} "
                f"({getattr(settings, large)}): lower the first or raise the second"
            ),
        )


def _collide(address: Endpoint, other: Endpoint) -> bool:
    """Whether a process cannot listen on both."""
    same_host = address.host == other.host or bool({address.host, other.host} & WILDCARDS)
    return address.port == other.port != 0 and same_host


def _tls_checks(settings: NodeSettings) -> Iterable[tuple[bool, str]]:
    for listener, files in (
        ("peer", ("certificate_file", "key_file", "ca_file")),
        ("api", ("certificate_file", "key_file")),
    ):
        mode = getattr(settings, f"{listener}_tls")
        missing = [
            f"{listener}_tls_{file}"
            for file in files
            if getattr(settings, f"{listener}_tls_{file}") is None
        ]
        yield (
            mode == "disabled" or not missing,
            (
                f"{listener}_tls is {mode}, and {' and '.join(missing)} is not set: give a PEM "
                f"file for it, or set {listener}_tls to disabled"
            ),
        )
    yield (
        settings.api_tls_client_certificates != "required" or settings.api_tls_ca_file is not None,
        (
            "api_tls_client_certificates is required, and api_tls_ca_file is not set: give a PEM "
            "file with the CAs of the clients' certificates, or set it to optional"
        ),
    )
    yield (
        settings.api_tls_client_certificates != "required" or settings.access_file is not None,
        (
            "api_tls_client_certificates is required, and access_file is not set, so each client "
            "with a certificate might do everything: give an access file, which says what each "
            "client may do, or set it to optional, with which every client may do everything"
        ),
    )
