"""All settings of a node, each with its unit, its default and what is allowed."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError
from raftnode.settings.checks import WILDCARDS, cross_checks
from raftnode.settings.names import ENV_PREFIX
from raftnode.settings.values import VoterAddress, each_once

_DAY_MS = 86_400_000


def _endpoint(value: object) -> object:
    return Endpoint.parse(value) if isinstance(value, str) else value


def _listen(value: object) -> object:
    if isinstance(value, str) and value.endswith(":0"):
        return Endpoint(Endpoint.parse(f"{value[:-1]}1").host, 0)
    return _endpoint(value)


def _endpoints(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(Endpoint.parse(part.strip()) for part in value.split(",") if part.strip())


def _voters(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = (part.strip() for part in value.split(","))
    return each_once(VoterAddress.parse(part) for part in parts if part)


EndpointSetting = Annotated[Endpoint, BeforeValidator(_endpoint)]
ListenSetting = Annotated[Endpoint, BeforeValidator(_listen)]
EndpointsSetting = Annotated[tuple[Endpoint, ...], NoDecode, BeforeValidator(_endpoints)]
VotersSetting = Annotated[tuple[VoterAddress, ...], NoDecode, BeforeValidator(_voters)]


class NodeSettings(BaseSettings):
    """All settings of one node."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        enable_decoding=False,
    )

    # Who it is.
    node_id: int = Field(
        ge=0,
        le=2**31 - 1,
        description="The node's id. Must be the one that the directory was formatted with: an id "
        "names a node, the storage UUID its disk.",
    )
    log_dir: Path = Field(
        description="The data directory: log, vote, identity. Must exist; an empty one is given "
        "a fresh storage UUID and waits for form or join.",
    )

    # Where it is.
    peer_listen: ListenSetting = Field(
        default=Endpoint("::", 9093),
        description="Where peers connect to. Port 0: a free one, which is then advertised. "
        "`[::]`: every address of this machine, IPv4 and IPv6; `0.0.0.0`: every IPv4 address.",
    )
    peer_advertised: EndpointSetting | None = Field(
        default=None,
        description="The address that peers connect to. None: the host of `peer_listen`, or this "
        "machine's name when that is `[::]` or `0.0.0.0`.",
    )
    api_listen: ListenSetting = Field(
        default=Endpoint("::", 9080),
        description="Where clients, probes and Prometheus connect to. Port 0: a free one.",
    )
    api_advertised: EndpointSetting | None = Field(
        default=None,
        description="The address that clients connect to when this node leads. None: as for "
        "`peer_advertised`.",
    )
    bootstrap_servers: EndpointsSetting = Field(
        default=(),
        description="Peer endpoints to find the quorum by, comma separated; advice, never "
        "identity. Empty: only those that the log and the latch name.",
    )
    quorum_voters: VotersSetting = Field(
        default=(),
        description="The voters as `id@host:port`, comma separated, no id twice. As in Kafka with "
        "voters in its log, only the addresses are used, after those of `bootstrap_servers`: who "
        "votes stands in the log, and before that in the latch or in `storage format`.",
    )
    hosts_file: Path | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "hosts_file", "RAFTNODE_HOSTS_FILE", "KRAFTQUORUM_HOSTS_FILE"
        ),
        description="Names in the form of /etc/hosts, asked before DNS and read again when "
        "changed. Also taken from KRAFTQUORUM_HOSTS_FILE. None: DNS only.",
    )

    # The protocol's times.
    fetch_timeout_ms: int = Field(
        default=2000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds without a good Fetch after which a voter stands for election; a "
        "leader without a majority's Fetches resigns after 1.5 times this. Kafka's default.",
    )
    election_timeout_ms: int = Field(
        default=1000,
        ge=50,
        le=_DAY_MS,
        description="Milliseconds that one round of asking for votes may take. Must leave room "
        "for a vote's round trip with its fsync, else elections never end: at least half of "
        "`request_timeout_ms`, at most `fetch_timeout_ms`. Kafka's default.",
    )
    election_backoff_max_ms: int = Field(
        default=1000,
        ge=1,
        le=_DAY_MS,
        description="The longest random wait after a lost election, milliseconds. Kafka's default.",
    )
    fetch_max_wait_ms: int = Field(
        default=500,
        ge=0,
        le=_DAY_MS,
        description="Milliseconds that the leader holds a Fetch that has nothing to bring. 0: "
        "answer at once, and keep followers busy asking. Kafka's default.",
    )
    request_timeout_ms: int = Field(
        default=2000,
        ge=10,
        le=_DAY_MS,
        description="Milliseconds until a request to a peer counts as failed, a Fetch's wait not "
        "counted; one for a vote ends with its round, after `election_timeout_ms`. At most twice "
        "that. Kafka's default.",
    )
    retry_backoff_ms: int = Field(
        default=20,
        ge=1,
        le=_DAY_MS,
        description="The first wait after a failed request to a peer, milliseconds; doubles. "
        "Kafka's default.",
    )
    retry_backoff_max_ms: int = Field(
        default=1000,
        ge=1,
        le=_DAY_MS,
        description="The longest such wait, milliseconds. Kafka's client default.",
    )

    # Sizes and batching.
    append_linger_ms: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Milliseconds that the leader waits for more records before it writes a "
        "batch. 0: never; batches fill by themselves while the last one is fsynced. Kafka waits "
        "25, which costs each lone write that long.",
    )
    max_batch_bytes: int = Field(
        default=1 << 20,
        ge=1024,
        le=8 << 20,
        description="The largest batch that the leader writes, bytes of keys and values; also "
        "the largest append. With all overhead it must fit into a frame between peers, 16 MiB.",
    )
    append_queue_bytes: int = Field(
        default=64 << 20,
        ge=1024,
        le=4 << 30,
        description="How many bytes may wait to be written; one more is refused with QUEUE_FULL, "
        "which tells clients sooner than a time-out.",
    )
    max_uncommitted_bytes: int = Field(
        default=64 << 20,
        ge=1024,
        le=4 << 30,
        description="How many bytes of batches the leader appends ahead of what is committed. "
        "Beyond them writes are refused with TOO_MUCH_UNCOMMITTED until the voters have caught up; "
        "voter changes and whatever else keeps the quorum going never are. A batch always fits "
        "when nothing waits.",
    )
    record_max_bytes: int = Field(
        default=1 << 20,
        ge=1,
        le=8 << 20,
        description="The largest record, bytes of key and value; larger ones are refused with "
        "RECORD_TOO_LARGE.",
    )
    segment_bytes: int = Field(
        default=64 << 20,
        ge=4096,
        le=2**31 - 1,
        description="Size at which a new segment file is begun, bytes. Recovery after a crash "
        "reads the last segment whole, so smaller ones start faster.",
    )
    segment_ms: int = Field(
        default=604_800_000,
        ge=1,
        le=36_500 * 86_400_000,
        description="How much later than the first batch of a segment, by their timestamps, a "
        "batch may be to be written there, milliseconds; one that is later begins a new segment. "
        "Kafka's default, 7 days: a quiet log too is made of files that grow old.",
    )

    fetches_in_flight_max: int = Field(
        default=1,
        ge=1,
        le=5,
        description="How many Fetches a follower has under way. 1: the next leaves once what the "
        "last one brought is durable. More: it leaves at once, and one more acknowledges what "
        "became durable meanwhile. It helps few clients on a slow network; elsewhere it costs "
        "messages.",
    )
    read_lease_clock_drift_percent: int = Field(
        default=0,
        ge=0,
        le=50,
        description="Lets the leader answer linearizable reads alone for a while after a round, "
        "on the assumption that no voter's clock runs faster than another's by more than so many "
        "percent, and that none stands still (a virtual machine that is suspended). An answer may "
        "be stale where that is wrong. Counted are only voters that have it set too; each then "
        "grants no vote for `fetch_timeout_ms` after it heard from its leader or started, so "
        "some elections begin later. 0: each read takes a round, and nothing rests on a clock.",
    )
    log_preallocate: bool = Field(
        default=False,
        description="Whether the whole `segment_bytes` are reserved on the disk when a segment is "
        "begun, for its records to come; what is left over is given back. Only where that leaves "
        "twice `disk_reserve_bytes` free, and until room runs short. False, as in Kafka: no sync "
        "was faster with it, and the reserve refuses writes before a disk is full anyway.",
    )

    # Snapshots.
    max_record_bytes_between_snapshots: int = Field(
        default=20 << 20,
        ge=1,
        le=1 << 40,
        description="Bytes of the log applied since the last snapshot after which the next one is "
        "made; half the size of the last snapshot if that is more, so that a large state is not "
        "written over and over. Kafka's default, 20 MiB.",
    )
    max_snapshot_interval_ms: int = Field(
        default=3_600_000,
        ge=0,
        le=36_500 * _DAY_MS,
        description="Milliseconds after which a snapshot is made of anything that is new. 0: by "
        "bytes only. Kafka's default, an hour.",
    )
    snapshots_retained: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="How many snapshots are kept. 2: a start still has one if the newest turns "
        "out damaged.",
    )

    log_retention_bytes: int = Field(
        default=-1,
        ge=-1,
        le=1 << 40,
        description="How much of the log's end is kept though snapshots cover it, bytes, in whole "
        "segments: what slow followers and readers of the log still find. Behind it the log is "
        "removed once `snapshots_retained` snapshots cover it; a replica that needs more gets a "
        "snapshot. 0: no more than that. 104857600: Kafka's default. -1: the log is never trimmed, "
        "and every record stays to be read, on new replicas too. Records without a key "
        "(`POST /v1/log`) are in no snapshot: anything but -1 lets go of them.",
    )

    # The disk.
    storage_check_interval_ms: int = Field(
        default=500,
        ge=10,
        le=60_000,
        description="Milliseconds between looks at whether the directory under the open files is "
        "still the same one: the longest that a node acknowledges into a disk that is gone.",
    )

    disk_reserve_bytes: int = Field(
        default=64 << 20,
        ge=0,
        le=1 << 40,
        description="Free bytes on the disk below which a leader hands leadership over and, where "
        "it cannot, refuses writes with STORAGE_FULL; twice as much ends that. Below a quarter a "
        "follower takes no more records, until half is free. Room for the votes, epochs and voter "
        "changes that must still be written. 0: never.",
    )

    scrub_bytes_per_second: int = Field(
        default=8 << 20,
        ge=0,
        le=1 << 40,
        description="How fast the log and its snapshots are read again to find rot, bytes a second "
        "on average. 8 MiB: a log of 10 GB in twenty minutes, a few hundredths of a disk's time. "
        "0: never.",
    )
    scrub_interval_ms: int = Field(
        default=_DAY_MS,
        ge=100,
        le=36_500 * _DAY_MS,
        description="Milliseconds from the begin of one such reading to the next; the first begins "
        "a minute after the start. A day: rot is found long before a second disk has the same.",
    )

    stall_timeout_ms: int = Field(
        default=30_000,
        ge=0,
        le=_DAY_MS,
        description="Milliseconds for which one call to the disk may not return, or the event loop "
        "not turn, until the node ends with STORAGE_STALLED or LOOP_STALLED. After a third of it "
        "`GET /healthz/live` fails and says why. Only time counts in which the process ran. Far "
        "more than any sync of a disk that works, and less than the liveness probe's patience "
        "after that third. 0: never. Else at least 5000, and more than 1.5 times "
        "`fetch_timeout_ms` (30000 is always enough): a disk that works may pause for seconds, and "
        "a leader hands over first.",
    )

    damage_told_ms: int = Field(
        default=3000,
        ge=0,
        le=600_000,
        description="Milliseconds for which a node whose storage is damaged answers its health "
        "endpoints before it ends with STORAGE_CORRUPT: alive, not ready, and why. 0: it ends at "
        "once.",
    )

    # The process.
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe level that is logged."
    )
    log_format: Literal["json", "console"] = Field(
        default="json", description="`json` for machines, `console` for people."
    )
    shutdown_grace_ms: int = Field(
        default=5000,
        ge=0,
        le=600_000,
        description="Milliseconds that requests and the hand-over of leadership may take after "
        "SIGTERM. 0: stop at once. Keep it below the pod's terminationGracePeriodSeconds.",
    )
    termination_log: Path | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "termination_log", "RAFTNODE_TERMINATION_LOG", "TERMINATION_LOG"
        ),
        description="File for the reason of the end, as JSON, which Kubernetes shows. Also taken "
        "from TERMINATION_LOG. None: /dev/termination-log if it can be written to.",
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
        """Where to look for the quorum before anybody has said where it is."""
        return (*self.bootstrap_servers, *(voter.endpoint for voter in self.quorum_voters))

    @property
    def peer_endpoint(self) -> Endpoint:
        """What peers are told; its port is 0 while a free one is still to be taken."""
        return self.peer_advertised or _reachable(self.peer_listen)

    @property
    def api_endpoint(self) -> Endpoint:
        """What clients are told; its port is 0 while a free one is still to be taken."""
        return self.api_advertised or _reachable(self.api_listen)

    @property
    def termination_path(self) -> Path | None:
        """Where to write why the process ended; None: nowhere."""
        if self.termination_log is not None:
            return self.termination_log
        default = Path("/dev/termination-log")
        return default if default.is_file() and os.access(default, os.W_OK) else None


def _reachable(listen: Endpoint) -> Endpoint:
    host = socket.gethostname() if listen.host in WILDCARDS else listen.host
    return Endpoint(host, listen.port)
