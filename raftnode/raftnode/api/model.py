"""The JSON models of the HTTP API, for the server, the client and the reference page.

A replica is `node_id` and `directory_id`, the latter in Kafka's 22 characters. Times are in
milliseconds; the answering node measures ages.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from raftnode.core.events import Target
from raftnode.core.types import (
    Endpoint,
    NodeId,
    ReplicaKey,
    Voter,
    format_directory_id,
    parse_directory_id,
)


def _directory_id(text: str) -> str:
    directory_id = parse_directory_id(text)
    if not directory_id.int:
        raise ValueError(
            "a directory id of zeros is reserved for none; give the replica's directory id"
        )
    return format_directory_id(directory_id)


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        msg = "not base64; expected the standard alphabet with padding"
        raise ValueError(msg) from None
    return text


_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
"""A DNS name or an IPv4 address."""


def _endpoint(text: str) -> str:
    endpoint = Endpoint.parse(text)
    if not _NAME.fullmatch(endpoint.host) and not _is_ipv6(endpoint.host):
        msg = f"not a host: {endpoint.host!r}; expected a DNS name, an IPv4 address or [IPv6]"
        raise ValueError(msg)
    return str(endpoint)


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


DirectoryIdText = Annotated[str, Field(max_length=36), AfterValidator(_directory_id)]
EndpointText = Annotated[str, Field(max_length=260), AfterValidator(_endpoint)]
NodeIdNumber = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Kafka's int32."""
ClusterIdText = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
"""Without characters that have a meaning in `meta.properties` or in a file name."""
Base64Text = Annotated[str, AfterValidator(_base64)]
TIMEOUT_MS_MAX = 600_000
"""The longest that a request may wait for its outcome."""
TimeoutMs = Annotated[int, Field(ge=1, le=TIMEOUT_MS_MAX)]
RaftVersionNumber = Annotated[int, Field(ge=0, le=2)]

Role = Literal[
    "blank",
    "observer",
    "unattached",
    "prospective",
    "candidate",
    "follower",
    "leader",
    "resigned",
]


class ApiModel(BaseModel):
    """An unknown field in a request is an error; the client skips those in an answer."""

    # A node holds the validators of those models alone that it uses.
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True
    )


class Replica(ApiModel):
    """A replica: a node id and a directory id, the UUID of its storage."""

    node_id: NodeIdNumber
    directory_id: DirectoryIdText

    @classmethod
    def of(cls, key: ReplicaKey) -> Replica:
        """Return a replica's key as the API shows it."""
        return cls(node_id=key.node_id, directory_id=format_directory_id(key.directory_id))

    @property
    def key(self) -> ReplicaKey:
        """Return the replica key."""
        return ReplicaKey(NodeId(self.node_id), parse_directory_id(self.directory_id))


class VoterSpec(Replica):
    """A replica to form a quorum with or to add, and the address on which it listens for peers."""

    endpoint: EndpointText | None = None

    @property
    def voter(self) -> Voter:
        """Return the voter."""
        return Voter(self.key, Endpoint.parse(self.endpoint) if self.endpoint else None)


class VoterRecord(ApiModel):
    """The record that holds the voter set in force. A voter change is compared with it."""

    offset: int
    epoch: int


class StorageInfo(ApiModel):
    """The node's disk."""

    free_bytes: int | None = None
    """None: not checked yet, or a node of an earlier version."""
    size_bytes: int | None = None
    low: bool = False
    """Less than `disk_reserve_bytes` is free: a leader transfers leadership, or refuses writes."""
    damage: tuple[str, ...] = ()
    """The damage that the last scrub found, or a damaged snapshot since start-up. Replace the
    replica."""
    scrubbed_ms: int | None = None
    """Unix time at which the last scrub ended; None: none since start-up."""
    snapshot_room_missing_bytes: int = 0
    """Bytes that a due snapshot needs beyond the free ones. The log is not trimmed until they
    are free."""


class ListenerCertificate(ApiModel):
    """What a listener presents and trusts now. Fingerprints are SHA-256, times ISO 8601."""

    listener: Literal["peer", "api"]
    mode: Literal["permissive", "required"]
    """`permissive`: the listener also accepts plain connections."""
    sha256: str
    """The certificate's fingerprint."""
    serial: str
    not_before: str
    not_after: str
    uri_names: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    """The three are its subject alternative names."""
    trusted_ca_sha256: tuple[str, ...] = ()
    """The CAs of the other end; none: the listener asks for no certificate."""
    problem: str | None = None
    """Why newer files are not in force; None: the files are."""


class NodeInfo(ApiModel):
    """`GET /v1/node`: this node's own state; it asks no other node."""

    node_id: int
    directory_id: DirectoryIdText
    incarnation: int
    """Number of times that a node has started on this storage."""
    cluster_id: str | None
    """None: blank, waiting for `form` or `join`."""
    role: Role
    epoch: int
    leader: Replica | None
    leader_api: EndpointText | None = None
    """The leader's address for this API, if known."""
    peer_endpoint: EndpointText
    api_endpoint: EndpointText
    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    voters: tuple[Replica, ...]
    """The voter set in force in this replica's own log. The leader's is in `/v1/quorum`."""
    caught_up: bool
    """Attached to a leader and at most a fetch timeout behind, which is what readiness means."""
    version: str
    storage: StorageInfo = StorageInfo()
    certificates: tuple[ListenerCertificate, ...] = ()
    """Of each listener with TLS."""


class NodeState(ApiModel):
    """`GET /v1/node/state`: what a watcher must notice at once, without counters."""

    state: str
    """Opaque. It changes with the node's role, epoch, leader and readiness, with the voters that
    a leader finds caught up, and with the state of the disk."""


class ReplicaProgress(Replica):
    """A voter or an observer, as the leader sees it."""

    endpoint: EndpointText | None
    acknowledged_offset: int
    """-1: no Fetch since the election of this leader."""
    lag: int
    last_fetch_age_ms: int | None
    last_caught_up_age_ms: int | None
    caught_up: bool
    """It fetched lately, and its last catch-up round was shorter than an election timeout."""
    fenced: bool
    """It fetched below what it had acknowledged, so it does not count for a majority."""
    incarnation: int
    higher_epoch: int | None = None
    """Epoch of an observer if it is above the leader's. AddVoter then raises the quorum's epoch
    first."""
    blank: bool = False
    """An observer that belongs to no cluster yet. It has announced itself to the leader, and joins
    after a join request, or once an AddVoter names it."""
    could_be_voter: bool | None = None
    """Whether the leader would accept an AddVoter of this observer now. It would refuse a fenced
    replica and an id that raft.version rules out, and a silent replica cannot catch up. None: a
    node of an earlier version."""


class PendingChange(ApiModel):
    """A voter change that waits for its guards or for its commit."""

    kind: Literal["add", "remove"]
    replica: Replica
    appended_offset: int | None
    """None: not yet in the log, so the leader may still give it up."""
    waiting_for: str


class ReassignmentInfo(ApiModel):
    """A reassignment in progress: the leader changes the voters to `target_voters` step by step."""

    record: VoterRecord
    """The record that holds the target."""
    committed: bool
    """Whether the target is committed. It then holds until it is reached, replaced or cancelled."""
    waiting_for: str
    """The condition that the next step waits for; empty: none."""


class QuorumInfo(ApiModel):
    """`GET /v1/quorum`: DescribeQuorum; the leader answers it."""

    cluster_id: str
    leader: Replica
    epoch: int
    high_watermark: int
    log_start_offset: int = 0
    """First offset of the leader's log. The records below it are trimmed; a snapshot covers
    them."""
    log_end_offset: int
    voters: tuple[ReplicaProgress, ...]
    """The voter set in force: the last one appended, committed or not."""
    committed_voters: tuple[Replica, ...]
    voter_record: VoterRecord
    voter_record_committed: bool
    observers: tuple[ReplicaProgress, ...]
    pending_change: PendingChange | None
    target_voters: tuple[ReplicaProgress, ...] = ()
    """The target of a reassignment; empty: no reassignment."""
    reassignment: ReassignmentInfo | None = None
    assignment_record: VoterRecord | None = None
    """The newest record of voters or of a target: the `expected` of a reassignment."""
    raft_version: int = 2
    """The raft.version in force: 0 static voters, 1 fixed ids, 2 any voters."""
    raft_version_committed: bool = True
    """Whether raft.version is final: it is never lowered."""
    formation_completed: bool
    """Whether the quorum is formed; from then on the leader accepts client writes."""
    epoch_committed: bool
    """Whether the leader has committed the LeaderChange of its epoch. Voter changes need it."""
    confirmed: bool
    """A majority answered after the node received the request, so this was no stale leader."""


class FormRequest(ApiModel):
    """`POST /v1/form`: the latch, as read back from Kubernetes. Once, on a blank node."""

    cluster_id: ClusterIdText
    voters: tuple[VoterSpec, ...] = Field(min_length=1, max_length=9)
    raft_version: RaftVersionNumber = 2
    """raft.version of the new quorum: 0 static voters, 1 fixed ids, 2 any voters."""

    @field_validator("voters")
    @classmethod
    def _ids_differ(cls, voters: tuple[VoterSpec, ...]) -> tuple[VoterSpec, ...]:
        ids = [voter.node_id for voter in voters]
        if twice := sorted({node_id for node_id in ids if ids.count(node_id) > 1}):
            msg = f"node ids {twice} are listed twice; list one replica of each node id"
            raise ValueError(msg)
        return voters


class JoinRequest(ApiModel):
    """`POST /v1/join`: the cluster id for a blank node, which becomes an observer."""

    cluster_id: ClusterIdText


class AddVoterRequest(ApiModel):
    """`POST /v1/quorum/voters`: AddVoter with compare-and-set and a deadline."""

    voter: VoterSpec
    expected: VoterRecord
    replaces: Replica | None = None
    """A voter to remove: the leader appends its RemoveVoterRecord once the addition is
    committed."""
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterIdText | None = None
    """The cluster that is meant; a node of another one refuses the request. None: any."""


class RemoveVoterRequest(ApiModel):
    """`POST /v1/quorum/voters/remove`: RemoveVoter with compare-and-set and a deadline."""

    voter: Replica
    expected: VoterRecord
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterIdText | None = None
    """The cluster that is meant; a node of another one refuses the request. None: any."""


class VoterChanged(ApiModel):
    """A committed voter change, with its record."""

    voter_record: VoterRecord
    voters: tuple[Replica, ...]


class TargetSpec(ApiModel):
    """A replica of a reassignment's target."""

    node_id: NodeIdNumber
    directory_id: DirectoryIdText | None = None
    """None: the only replica of that id that votes or fetches. The leader resolves it at once."""
    endpoint: EndpointText | None = None
    """The address on which the replica listens for peers; None: the one that it reported."""

    @property
    def target(self) -> Target:
        """Return the target."""
        return Target(
            NodeId(self.node_id),
            parse_directory_id(self.directory_id) if self.directory_id else None,
            Endpoint.parse(self.endpoint) if self.endpoint else None,
        )


class ReassignRequest(ApiModel):
    """`POST /v1/quorum/reassignment`: set the target voters, by compare-and-set."""

    targets: tuple[TargetSpec, ...] = Field(min_length=1, max_length=9)
    expected: VoterRecord
    """`assignment_record` of the quorum at the time of the decision."""
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterIdText | None = None
    """The cluster that is meant; a node of another one refuses the request. None: any."""


class CancelReassignmentRequest(ApiModel):
    """`POST /v1/quorum/reassignment/cancel`: cancel it; the voters stay as they are now."""

    expected: VoterRecord | None = None
    """None: cancel any target."""
    timeout_ms: TimeoutMs = 10_000
    cluster_id: ClusterIdText | None = None
    """The cluster that is meant; a node of another one refuses the request. None: any."""


class ReassignmentAccepted(ApiModel):
    """The target is committed, and the leader changes the voters. Watch `target_voters`."""

    target_voters: tuple[Replica, ...]
    """With their directory ids; empty: reached already, or cancelled."""


class UpgradeRequest(ApiModel):
    """`POST /v1/quorum/raft-version`: raise raft.version once all replicas know the new one."""

    raft_version: RaftVersionNumber
    timeout_ms: TimeoutMs = 10_000


class RaftVersionInfo(ApiModel):
    """The raft.version in force now."""

    raft_version: int


class ResignRequest(ApiModel):
    """`POST /v1/quorum/resign`: transfer leadership, to `preferred` if it can take it."""

    preferred: Replica | None = None


class NewRecordIn(ApiModel):
    """A record to append: raw bytes, without a key."""

    value: Base64Text

    @property
    def data(self) -> bytes:
        """Return the bytes to append."""
        return base64.b64decode(self.value)


RECORDS_MAX = 10_000
"""How many records one append may have."""


class AppendRequest(ApiModel):
    """`POST /v1/log`: records to append together, in this order, or not at all."""

    records: tuple[NewRecordIn, ...] = Field(min_length=1, max_length=RECORDS_MAX)


class Appended(ApiModel):
    """A committed write: fsynced on a majority."""

    base_offset: int
    last_offset: int
    epoch: int


class RecordOut(ApiModel):
    """A committed record of `GET /v1/log`; key and value are base64."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: str | None = None
    """Kind of a control record, e.g. `AddVoter`; its fields are in `fields`."""
    fields: dict[str, object] | None = None
    key: str | None = None
    value: str | None = None


class ReadResult(ApiModel):
    """`GET /v1/log`: committed records from an offset on, and the offset to read next."""

    records: tuple[RecordOut, ...]
    next_offset: int
    high_watermark: int
    log_start_offset: int


class KeyValue(ApiModel):
    """An entry of the key-value store: the key as text, the value in base64."""

    key: str
    value: str
    offset: int
    """Offset of the record that wrote it: its version."""


class KeyList(ApiModel):
    """`GET /v1/kv?prefix=…`: entries in key order; continue after `next`."""

    entries: tuple[KeyValue, ...]
    next: str | None


class HealthInfo(ApiModel):
    """`GET /healthz/live` and `GET /healthz/ready` if the node is alive or ready."""

    status: Literal["alive", "ready"]
    reason: str


class ApiError(ApiModel):
    """Every answer that is not 2xx."""

    error: str
    """A stable name, e.g. `NOT_LEADER`, `STALE_VOTER_RECORD`, `WAITING`."""
    message: str
    """What was wrong, with which value, and what to do."""
    leader: Replica | None = None
    leader_api: EndpointText | None = None
    outcome: Literal["not_done", "unknown"]
    """`unknown`: the request may have been done, or still may be. The field has no default: an
    error of this shape from a proxy, which lacks the field, promises nothing."""
