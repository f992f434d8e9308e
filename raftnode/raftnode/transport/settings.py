"""Limits and times of the transport."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """Every queue has a limit and every wait an end.

    Attributes:
        connect_timeout_ms: for one attempt: name, TCP, TLS, upgrade and hello together. Half of an
            election timeout, so that one address that never answers does not cost an election.
        hello_timeout_ms: how long a server waits for the dialler's hello.
        heartbeat_ms: silence after which a ping is sent; without a pong in half of this time the
            connection is dead. A cut is noticed within 1.5 times this. A single frame must
            cross the network in half of it: 1 MiB in 1 s needs 8 Mbit/s.
        backoff_initial_ms: pause after the first failed attempt; doubles, with jitter.
        backoff_quick_max_ms: longest pause at first, so that a restarted peer is found
            within this of listening.
        backoff_quick_ms: how long a peer must be gone before pauses grow further.
        backoff_max_ms: longest pause for a peer that has long been gone.
        outstanding_max: requests to one peer without an answer, and requests of one peer
            that this replica has not answered (the oldest is forgotten).
        outbox_bytes_max: bytes that wait for one peer to read; one frame always fits.
        request_bytes_max: largest frame that the server accepts: requests carry no records.
        greetings_max: connections that the server holds before their hello; a further connection
            displaces one of these.
        connections_max: connections of replicas whose hello was accepted. If there are more, the
            server closes those of strangers first, then those of observers.
        connections_per_replica_max: of these, by one replica; the oldest is closed.
        links_max: peers that the pool remembers.
        trust_grace_ms: after a change of the trusted CAs, how long the server keeps connections
            that the previous CAs verified; peers make theirs again meanwhile.
        close_timeout_ms: for the close handshake; after it the connection is cut.
    """

    connect_timeout_ms: int = 500
    hello_timeout_ms: int = 2000
    heartbeat_ms: int = 2000
    backoff_initial_ms: int = 20
    backoff_quick_max_ms: int = 80
    backoff_quick_ms: int = 15_000
    backoff_max_ms: int = 1000
    outstanding_max: int = 64
    outbox_bytes_max: int = 8 * 1024 * 1024
    request_bytes_max: int = 64 * 1024
    greetings_max: int = 64
    connections_max: int = 128
    connections_per_replica_max: int = 4
    links_max: int = 64
    trust_grace_ms: int = 30_000
    close_timeout_ms: int = 200
