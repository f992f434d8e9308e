"""All settings of a node, each with its unit, its default and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError
from raftnode.settings.checks import cross_checks, reachable
from raftnode.settings.fields import (
    EndpointSetting,
    EndpointsSetting,
    ListenSetting,
    TlsMode,
    VotersSetting,
)

_DAY_MS = 86_400_000


class NodeSettings(BaseModel):
    """All settings of one node; `sources` collects their values."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, validate_default=True
    )

    # Who it is.
    node_id: int = Field(
        ge=0,
        le=2**31 - 1,
        description="The node's id. It must be the one that the directory was formatted with: "
        "an id names a node, the directory id its storage.",
    )
    log_dir: Path = Field(
        description="The data directory: log, vote, identity. It must exist. An empty one gets "
        "a new directory id, and the node waits for form or join.",
    )

    # Where it is.
    peer_listen: ListenSetting = Field(
        default=Endpoint("::", 9093),
        description="The address on which the node listens for peers. Port 0: any free port, which "
        "the node then advertises. `[::]`: every address of this machine, IPv4 and IPv6; "
        "`0.0.0.0`: every IPv4 address.",
    )
    peer_advertised: EndpointSetting | None = Field(
        default=None,
        description="The address that peers connect to. None: the host of `peer_listen`, or this "
        "machine's name when that is `[::]` or `0.0.0.0`.",
    )
    api_listen: ListenSetting = Field(
        default=Endpoint("::", 9080),
        description="The address on which the node listens for clients, probes and Prometheus. "
        "Port 0: any free port.",
    )
    api_advertised: EndpointSetting | None = Field(
        default=None,
        description="The address that clients connect to when this node is the leader. None: as "
        "for `peer_advertised`.",
    )
    metrics_listen: ListenSetting | None = Field(
        default=None,
        description="An address for metrics and probes alone. `api_listen` then refuses metrics "
        "and still answers probes. None: `api_listen` serves them.",
    )
    admin_listen: ListenSetting | None = Field(
        default=None,
        description="An address for administration: voters, form, join, resign and raft.version. "
        "`api_listen` then refuses it. Clients that change voters must know this address of each "
        "node, since nodes do not tell it to each other. None: `api_listen` serves it.",
    )
    access_file: Path | None = Field(
        default=None,
        description="The access file: which subjects there are and what each may do, in JSON or "
        "YAML. The node reads it again when it changes, and keeps the one before if the new one is "
        "wrong. With it, a request needs credentials, apart from health probes. None: every "
        "request is allowed.",
    )
    access_jwks_file: Path | None = Field(
        default=None,
        description="The public keys with which the Kubernetes cluster signs the tokens of "
        "ServiceAccounts, as `kubectl get --raw /openid/v1/jwks` prints them. With it, "
        "`service_accounts` of the access file are known by their tokens. The node reads the file "
        "again when it changes. None: no token of a ServiceAccount is accepted.",
    )
    access_token_audience: str = Field(
        default="kraftquorum",
        min_length=1,
        max_length=256,
        description="The audience that the token of a ServiceAccount must be for: `audience` of a "
        "projected volume. A token for the API server's audience is refused, so that a node never "
        "gets one that it could use there.",
    )
    access_token_issuer: str = Field(
        default="https://kubernetes.default.svc.cluster.local",
        min_length=1,
        max_length=2048,
        description="The issuer that the token of a ServiceAccount must have: `issuer` of "
        "`kubectl get --raw /.well-known/openid-configuration`. The default is that of kubeadm.",
    )
    audit_log: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Where the node writes a JSON line for each change of the quorum or of itself, "
        "and for refused requests and peers: `stderr`, `disabled`, or a path, to which it appends, "
        "also after a rotation. None: `stderr` with `access_file` or TLS, else `disabled`.",
    )
    bootstrap_servers: EndpointsSetting = Field(
        default=(),
        description="Peer addresses at which to look for the quorum, comma separated. The node "
        "uses them to connect, never to identify a peer. A node with an empty disk announces "
        "itself here, so that the leader lists it as an observer. Empty: only the addresses "
        "in the log and the latch.",
    )
    quorum_voters: VotersSetting = Field(
        default=(),
        description="The voters as `id@host:port`, comma separated, no id twice. As in Kafka with "
        "voters in its log, the node uses only the addresses, after those of "
        "`bootstrap_servers`. The log names the voters; before the log exists, the latch "
        "or `storage format` does.",
    )
    hosts_file: Path | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "hosts_file", "RAFTNODE_HOSTS_FILE", "KRAFTQUORUM_HOSTS_FILE"
        ),
        description="A file in the format of /etc/hosts. The node looks names up in it before DNS "
        "and reads it again when it changes. KRAFTQUORUM_HOSTS_FILE sets it too. None: "
        "DNS only.",
    )

    # The protocol's times.
    fetch_timeout_ms: int = Field(
        default=2000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds without a successful Fetch after which a voter starts an "
        "election. A leader that a majority does not fetch from resigns after 1.5 times "
        "this. Kafka's default.",
    )
    election_timeout_ms: int = Field(
        default=1000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds that one round of vote requests may take. It must leave room "
        "for a vote's round trip with its fsync, or elections never end: at least half of "
        "`request_timeout_ms`, at most `fetch_timeout_ms`. Kafka's default.",
    )
    election_backoff_max_ms: int = Field(
        default=1000,
        ge=1,
        le=_DAY_MS,
        description="The longest random wait after a lost election, in milliseconds. Kafka's "
        "default.",
    )
    fetch_max_wait_ms: int = Field(
        default=500,
        ge=0,
        le=_DAY_MS,
        description="Milliseconds for which the leader holds a Fetch when it has no new "
        "records. 0: it answers at once, and followers fetch without pause. Kafka's default.",
    )
    request_timeout_ms: int = Field(
        default=2000,
        ge=10,
        le=_DAY_MS,
        description="Milliseconds until a request to a peer counts as failed; the wait of a Fetch "
        "does not count. A vote request ends with its round, after "
        "`election_timeout_ms`. At most twice `election_timeout_ms`. Kafka's default.",
    )
    retry_backoff_ms: int = Field(
        default=20,
        ge=1,
        le=_DAY_MS,
        description="The first wait after a failed request to a peer, in milliseconds; it doubles "
        "with each failure. Kafka's default.",
    )
    retry_backoff_max_ms: int = Field(
        default=1000,
        ge=1,
        le=_DAY_MS,
        description="The longest wait after a failed request to a peer, in milliseconds. "
        "Default of Kafka's clients.",
    )

    # Sizes and batching.
    append_linger_ms: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Milliseconds for which the leader waits for more records before it writes a "
        "batch. 0: no wait; a batch fills while the one before it is fsynced. Kafka "
        "waits 25, which delays each lone write by that.",
    )
    max_batch_bytes: int = Field(
        default=1 << 20,
        ge=1024,
        le=8 << 20,
        description="The largest batch that the leader writes, in bytes of keys and values; "
        "also the largest append. With its overhead it must fit into a frame between peers, "
        "16 MiB.",
    )
    append_queue_bytes: int = Field(
        default=64 << 20,
        ge=1024,
        le=4 << 30,
        description="Bytes that may wait to be written. The leader refuses more with "
        "QUEUE_FULL, so that clients learn of it sooner than by a timeout.",
    )
    max_uncommitted_bytes: int = Field(
        default=64 << 20,
        ge=1024,
        le=4 << 30,
        description="Bytes of batches that the leader may have appended and not yet committed. It "
        "refuses writes beyond them with TOO_MUCH_UNCOMMITTED until the voters have "
        "caught up. It never refuses voter changes and other records that the quorum "
        "itself needs. If nothing is uncommitted, any batch is accepted.",
    )
    record_max_bytes: int = Field(
        default=1 << 20,
        ge=1,
        le=8 << 20,
        description="The largest record, in bytes of key and value. The leader refuses a larger "
        "one with RECORD_TOO_LARGE.",
    )
    segment_bytes: int = Field(
        default=64 << 20,
        ge=4096,
        le=2**31 - 1,
        description="Size in bytes at which the node starts a new segment file. Recovery after a "
        "crash reads the whole last segment, so a node with smaller segments starts "
        "faster.",
    )
    segment_ms: int = Field(
        default=604_800_000,
        ge=1,
        le=36_500 * 86_400_000,
        description="Milliseconds by which the timestamp of a batch may be later than that of the "
        "first batch in its segment; a later one starts a new segment. Kafka's default, "
        "7 days: the segments of a quiet log grow old too.",
    )

    fetches_in_flight_max: int = Field(
        default=1,
        ge=1,
        le=5,
        description="Number of Fetches that a follower may have in flight. 1: the next one leaves "
        "once the records of the last one are durable. More: it leaves at once, and a "
        "further one acknowledges what became durable meanwhile. That helps a few "
        "clients on a slow network; elsewhere it only costs messages.",
    )
    read_lease_clock_drift_percent: int = Field(
        default=0,
        ge=0,
        le=50,
        description="Percent by which a voter's clock may run faster than another's. If set, the "
        "leader answers linearizable reads alone for a while after a round. That assumes "
        "that no clock is faster by more, and that none stops, as in a suspended virtual "
        "machine; if the assumption is wrong, an answer may be stale. Only voters that "
        "have it set too count. Each of them grants no vote for `fetch_timeout_ms` after "
        "it heard from its leader or started, so some elections start later. 0: each "
        "read takes a round, and no read depends on a clock.",
    )
    log_preallocate: bool = Field(
        default=False,
        description="Whether a new segment reserves all its `segment_bytes` on the disk; the node "
        "gives back what is left over. It reserves only if twice `disk_reserve_bytes` "
        "stays free, and until space runs short. False, as in Kafka: reserving made no "
        "fsync faster, and the leader refuses writes before the disk is full in either "
        "case.",
    )
    recent_batches_bytes: int = Field(
        default=4 << 20,
        ge=0,
        le=1 << 30,
        description="Bytes of memory for the newest batches of the log. Fetches of followers that "
        "keep up, reads of the newest records and the key-value store take them from there, "
        "without reading the disk. More helps followers that are further behind. 0: every "
        "read is from the disk, or from the system's page cache.",
    )

    # Snapshots.
    max_record_bytes_between_snapshots: int = Field(
        default=20 << 20,
        ge=1,
        le=1 << 40,
        description="Bytes of log applied since the last snapshot after which the node makes the "
        "next one. If half the size of the last snapshot is more, that counts instead, "
        "so that a large state is not written over and over. Kafka's default, 20 MiB.",
    )
    max_snapshot_interval_ms: int = Field(
        default=3_600_000,
        ge=0,
        le=36_500 * _DAY_MS,
        description="Milliseconds after which the node makes a snapshot if there is anything "
        "new. 0: by bytes only. Kafka's default, an hour.",
    )
    snapshots_retained: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Number of snapshots that the node keeps. With 2, a node can still start from "
        "one if the newest is damaged.",
    )

    log_retention_bytes: int = Field(
        default=-1,
        ge=-1,
        le=1 << 40,
        description="Bytes at the log's end, in whole segments, that the node keeps even if "
        "snapshots cover them: slow followers and readers of the log can still fetch "
        "them. The node removes older segments once `snapshots_retained` snapshots cover "
        "them; a replica that needs them fetches a snapshot. 0: no more than the "
        "snapshots need. 104857600: Kafka's default. -1: the log is never trimmed, and "
        "every record stays readable, on new replicas too. A snapshot does not hold "
        "records without a key (`POST /v1/log`): with any value but -1 they are lost "
        "when the log is trimmed.",
    )

    # The disk.
    storage_check_interval_ms: int = Field(
        default=500,
        ge=10,
        le=60_000,
        description="Milliseconds between two checks that the data directory is still the one that "
        "the node opened. A node acknowledges writes to a lost disk for at most that "
        "long.",
    )

    disk_reserve_bytes: int = Field(
        default=64 << 20,
        ge=0,
        le=1 << 40,
        description="Free bytes on the disk below which a leader transfers leadership; if no voter "
        "can take it, the leader refuses writes with STORAGE_FULL. This ends once twice "
        "as much is free. Below a quarter, a follower accepts no more records until half "
        "is free. The reserve is room for votes, epochs and voter changes, which a node "
        "must still write. 0: no reserve.",
    )

    scrub_bytes_per_second: int = Field(
        default=8 << 20,
        ge=0,
        le=1 << 40,
        description="Bytes a second at which the scrub reads the log and its snapshots to find "
        "corruption, on average. 8 MiB: a log of 10 GB in twenty minutes, for a few "
        "hundredths of a disk's time. 0: never.",
    )
    scrub_interval_ms: int = Field(
        default=_DAY_MS,
        ge=100,
        le=36_500 * _DAY_MS,
        description="Milliseconds from the start of one scrub to the start of the next; the first "
        "starts a minute after start-up. With a day, corruption is found long before a "
        "second disk has the same.",
    )

    stall_timeout_ms: int = Field(
        default=30_000,
        ge=0,
        le=_DAY_MS,
        description="Milliseconds for which one disk call may take, or the event loop may not run, "
        "before the node exits with STORAGE_STALLED or LOOP_STALLED. After a third of "
        "it, `GET /healthz/live` fails and gives the reason. Only time in which the "
        "process ran counts. It is far more than any fsync of a working disk, and less "
        "than the patience of the liveness probe after that third. 0: never. Otherwise "
        "at least 5000, and more than 1.5 times `fetch_timeout_ms` (30000 is always "
        "enough): a working disk may pause for seconds, and a leader transfers "
        "leadership first.",
    )

    damage_report_ms: int = Field(
        default=3000,
        ge=0,
        le=600_000,
        description="Milliseconds for which a node with damaged storage answers its health "
        "endpoints (alive, not ready, and the reason) before it exits with STORAGE_CORRUPT. "
        "0: it exits at once.",
    )

    # The clients' limits.
    api_connections_max: int = Field(
        default=4096,
        ge=8,
        le=65_536,
        description="Connections of clients that the node keeps. For a further one it closes an "
        "idle one, of the address that has most. If none is idle, the new one may only ask for "
        "administration, health and metrics. The node also keeps 512 of the files that "
        "the system allows it for peers and the disk, and lowers this limit if it must.",
    )
    api_address_connections_max: int = Field(
        default=1024,
        ge=4,
        le=65_536,
        description="Connections of one address, of those in `api_connections_max`; an IPv6 subnet "
        "of 64 bits counts as one address. Raise it to `api_connections_max` if a proxy, a "
        "NAT or a service mesh hides the clients behind one address.",
    )
    api_requests_max: int = Field(
        default=2048,
        ge=8,
        le=65_536,
        description="Requests for records and keys in flight, long polls included. The node "
        "refuses more with TOO_MANY_REQUESTS. Probes, metrics and administration do not count.",
    )
    api_holder_requests_max: int = Field(
        default=512,
        ge=4,
        le=65_536,
        description="Requests in flight of one subject of the access file, or of one address if "
        "the node knows no subject, of those in `api_requests_max`.",
    )
    api_sessions_max: int = Field(
        default=2048,
        ge=1,
        le=65_536,
        description="Sessions that may be open; the node refuses more with TOO_MANY_SESSIONS.",
    )
    api_holder_sessions_max: int = Field(
        default=512,
        ge=1,
        le=65_536,
        description="Sessions of one subject of the access file, or of one address if the node "
        "knows no subject, of those in `api_sessions_max`. Below `api_address_connections_max`, so "
        "that the sessions of an address leave it room for other requests.",
    )
    api_bodies_max_bytes: int = Field(
        default=16 << 20,
        ge=1 << 20,
        le=4 << 30,
        description="Bytes of the requests in flight, in bodies and in operations of sessions; "
        "the node refuses more with TOO_MANY_REQUESTS. A subject of the access file, or an address "
        "if the node knows no subject, may have as many as are left, so that others always have "
        "room. A write waits for those before it, so the limit bounds that wait, too. The node "
        "raises it to four times the largest body, which is 1.5 times `max_batch_bytes` and 1 MiB.",
    )
    api_unread_max_bytes: int = Field(
        default=64 << 20,
        ge=1 << 20,
        le=4 << 30,
        description="Bytes of answers that wait for clients to read them. Beyond it the node cuts "
        "off clients that have read nothing for a second, first of the address that "
        "has most.",
    )
    api_head_timeout_ms: int = Field(
        default=10_000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds in which the head of a request must arrive, from the "
        "connection's begin or the head's first byte.",
    )
    api_body_timeout_ms: int = Field(
        default=30_000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds in which the body of a request must arrive; the node answers a "
        "later one with BODY_TIMEOUT. It waits up to a quarter longer, so that bodies which "
        "begin together do not end together.",
    )
    api_unread_timeout_ms: int = Field(
        default=30_000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds for which a client may read nothing of an answer before the node "
        "cuts it off.",
    )
    api_idle_timeout_ms: int = Field(
        default=120_000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds after which the node closes a connection without a request. "
        "More than the time between two scrapes or probes.",
    )

    # TLS.
    peer_tls: TlsMode = Field(
        default="disabled",
        description="TLS between nodes. `required`: peers must use it, with certificates on both "
        "sides. `permissive`: the listener also accepts plain connections, and the node dials "
        "in TLS first and plain if the other node does not speak it; a stage on the way to "
        "`required` and back, which does not stop an attacker. `disabled`: plain.",
    )
    peer_tls_certificate_file: Path | None = Field(
        default=None,
        description="PEM file with this node's certificate for its peers, which has the URI "
        "`spiffe://kraftquorum/cluster/<cluster id>/node/<node id>`, and the certificates "
        "between it and the CA. The node takes a changed file within seconds. None: only "
        "without `peer_tls`.",
    )
    peer_tls_key_file: Path | None = Field(
        default=None,
        description="PEM file with the key of `peer_tls_certificate_file`, without a password. "
        "None: only without `peer_tls`.",
    )
    peer_tls_ca_file: Path | None = Field(
        default=None,
        description="PEM file with the CAs of the peers' certificates; several while a CA is "
        "replaced. None: only without `peer_tls`.",
    )
    api_tls: TlsMode = Field(
        default="disabled",
        description="TLS for clients, probes and Prometheus. `required`: the listener closes plain "
        "connections. `permissive`: it accepts both on the same port. `disabled`: plain.",
    )
    api_tls_certificate_file: Path | None = Field(
        default=None,
        description="PEM file with this node's certificate for clients, which has the host names "
        "that clients use, and the certificates between it and the CA. The node takes a "
        "changed file within seconds. None: only without `api_tls`.",
    )
    api_tls_key_file: Path | None = Field(
        default=None,
        description="PEM file with the key of `api_tls_certificate_file`, without a password. "
        "None: only without `api_tls`.",
    )
    api_tls_ca_file: Path | None = Field(
        default=None,
        description="PEM file with the CAs of client certificates. If one is removed, connections "
        "that it verified end after the request in flight. None: no client is asked for one.",
    )
    api_tls_client_certificates: Literal["optional", "required"] = Field(
        default="optional",
        description="Whether a client must have a certificate of `api_tls_ca_file`. With "
        "`required` a kubelet cannot probe the node over TLS. It needs `api_tls_ca_file` and "
        "`access_file`. Without `api_tls_ca_file`, `optional` has no effect.",
    )
    tls_min_version: Literal["1.2", "1.3"] = Field(
        default="1.3",
        description="The lowest version of TLS on both listeners. 1.2: for clients that have no "
        "newer one.",
    )

    # The process.
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )
    log_format: Literal["json", "console"] = Field(
        default="json", description="`json` for machines, `console` for people."
    )
    core_dumps: Literal["disabled", "enabled"] = Field(
        default="disabled",
        description="`disabled`: the system writes no core dump of the node, which would hold keys "
        "of TLS, tokens and records. `enabled`: the limit of the system decides.",
    )
    shutdown_grace_ms: int = Field(
        default=5000,
        ge=0,
        le=600_000,
        description="Milliseconds that open requests and a leadership transfer may take after "
        "SIGTERM. 0: stop at once. Keep it below the pod's terminationGracePeriodSeconds.",
    )
    termination_log: Path | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "termination_log", "RAFTNODE_TERMINATION_LOG", "TERMINATION_LOG"
        ),
        description="File for the reason of the exit, as JSON, which Kubernetes shows. "
        "TERMINATION_LOG sets it too. None: /dev/termination-log if the node can write "
        "to it.",
    )

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other.

        Raises:
            ConfigurationError: naming the settings and what is allowed.
        """
        del context
        for ok, message in cross_checks(self):
            if not ok:
                raise ConfigurationError(message)

    @property
    def first_addresses(self) -> tuple[Endpoint, ...]:
        """Where to look for the quorum before another replica has reported its address."""
        return (*self.bootstrap_servers, *(voter.endpoint for voter in self.quorum_voters))

    @property
    def peer_endpoint(self) -> Endpoint:
        """The endpoint that peers get; its port is 0 until the listener has taken a free port."""
        return self.peer_advertised or reachable(self.peer_listen)

    @property
    def api_endpoint(self) -> Endpoint:
        """The endpoint that clients get; its port is 0 until the listener has taken a free port."""
        return self.api_advertised or reachable(self.api_listen)

    @property
    def termination_path(self) -> Path | None:
        """Where to write why the process ended; None: nowhere."""
        if self.termination_log is not None:
            return self.termination_log
        default = Path("/dev/termination-log")
        return default if default.is_file() and os.access(default, os.W_OK) else None
