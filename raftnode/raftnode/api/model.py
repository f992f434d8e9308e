"""The JSON of the HTTP API: one place for the server, the client and the reference page.

Identities travel as text: a replica is `node_id` plus `directory_id` in Kafka's
22 characters. Times are milliseconds; ages are measured on the answering node.
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
"""No character that `meta.properties` or a file name would read otherwise."""
Base64Text = Annotated[str, AfterValidator(_base64)]
TimeoutMs = Annotated[int, Field(ge=1, le=600_000)]
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
    """Unknown fields in a request are an error; in an answer they are skipped by the client."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Replica(ApiModel):
    """One replica: a node id with the UUID of its storage."""

    node_id: NodeIdNumber
    directory_id: DirectoryIdText

    @classmethod
    def of(cls, key: ReplicaKey) -> Replica:
        """Write a replica's key as the API shows it."""
        return cls(node_id=key.node_id, directory_id=format_directory_id(key.directory_id))

    @property
    def key(self) -> ReplicaKey:
        """The key that this names."""
        return ReplicaKey(NodeId(self.node_id), parse_directory_id(self.directory_id))


class VoterSpec(Replica):
    """A replica to form a quorum with or to add, and where it listens for its peers."""

    endpoint: EndpointText | None = None

    @property
    def voter(self) -> Voter:
        """The voter that this names."""
        return Voter(self.key, Endpoint.parse(self.endpoint) if self.endpoint else None)


class VoterRecord(ApiModel):
    """The record that the voter set in force comes from: what a change is compared with (S11)."""

    offset: int
    epoch: int


class StorageInfo(ApiModel):
    """What a node knows of its disk."""

    free_bytes: int | None = None
    """None: not looked yet, or a node of an earlier version."""
    size_bytes: int | None = None
    low: bool = False
    """Less than `disk_reserve_bytes` is free: a leader hands over, or refuses writes (S30)."""
    damage: tuple[str, ...] = ()
    """What was found damaged: by the last scrub, or a snapshot since the start. Replace it."""
    scrubbed_ms: int | None = None
    """When the last scrub ended, Unix time; None: none has since the start."""
    snapshot_room_missing_bytes: int = 0
    """More than is free that a snapshot which is due needs; until then the log is not trimmed."""


class NodeInfo(ApiModel):
    """`GET /v1/node`: what this node knows of itself, with no other node asked."""

    node_id: int
    directory_id: DirectoryIdText
    incarnation: int
    """How many times this storage was started (S3)."""
    cluster_id: str | None
    """None: blank, waiting for `form` or `join`."""
    role: Role
    epoch: int
    leader: Replica | None
    leader_api: EndpointText | None = None
    """Where the leader answers this API, as far as known."""
    peer_endpoint: EndpointText
    api_endpoint: EndpointText
    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    voters: tuple[Replica, ...]
    """The set in force in this replica's own log; the leader's is in `/v1/quorum`."""
    caught_up: bool
    """Attached to a leader and at most a fetch time-out behind: what readiness means."""
    version: str
    storage: StorageInfo = StorageInfo()


class NodeState(ApiModel):
    """`GET /v1/node/state`: what to notice at once, without what counts up all the time."""

    state: str
    """Opaque: another text once the node's role, epoch, leader or readiness, the voters that a
    leader finds caught up, or what it found of its disk has changed."""


class ReplicaProgress(Replica):
    """What the leader knows of one voter or observer."""

    endpoint: EndpointText | None
    acknowledged_offset: int
    """-1: not heard from since this leader was elected."""
    lag: int
    last_fetch_age_ms: int | None
    last_caught_up_age_ms: int | None
    caught_up: bool
    """Fresh, and its last catch-up round was shorter than an election time-out (S13)."""
    fenced: bool
    """Fetched below what it had acknowledged (S3); not counted."""
    incarnation: int
    higher_epoch: int | None = None
    """An observer's epoch, being above the leader's: AddVoter first raises the quorum's epoch."""


class PendingChange(ApiModel):
    """A voter change that waits for its guards or for its commit."""

    kind: Literal["add", "remove"]
    replica: Replica
    appended_offset: int | None
    """None: not yet in the log, so it may still be given up."""
    waiting_for: str


class ReassignmentInfo(ApiModel):
    """A reassignment under way: the leader goes towards `target_voters` step by step (P34)."""

    record: VoterRecord
    """The record that the target comes from."""
    committed: bool
    """Whether the target is for good, until it is reached, replaced or taken back."""
    waiting_for: str
    """What the next step waits for; empty: nothing."""


class QuorumInfo(ApiModel):
    """`GET /v1/quorum`: DescribeQuorum, answered by the leader (P26, S11)."""

    cluster_id: str
    leader: Replica
    epoch: int
    high_watermark: int
    log_start_offset: int = 0
    """Of the leader's log: what is below was trimmed, and stands in its snapshot."""
    log_end_offset: int
    voters: tuple[ReplicaProgress, ...]
    """The set in force: as appended, perhaps not yet committed."""
    committed_voters: tuple[Replica, ...]
    voter_record: VoterRecord
    voter_record_committed: bool
    observers: tuple[ReplicaProgress, ...]
    pending_change: PendingChange | None
    target_voters: tuple[ReplicaProgress, ...] = ()
    """What a reassignment is to lead to; empty: there is none (P34)."""
    reassignment: ReassignmentInfo | None = None
    assignment_record: VoterRecord | None = None
    """The newest record of who votes or is to vote: a reassignment's `expected`."""
    raft_version: int = 2
    """The version in force: 0 static voters, 1 fixed ids, 2 any voters (P54)."""
    raft_version_committed: bool = True
    """Whether it is final: never lowered again."""
    formation_completed: bool
    """Client writes are accepted from here on (P52)."""
    epoch_committed: bool
    """The leader's own LeaderChange is committed: voter changes are possible (P28)."""
    confirmed: bool
    """A majority answered after the request was received, so this was no stale leader."""


class FormRequest(ApiModel):
    """`POST /v1/form`: the latch, as read back from the API server (S18). Once, on a blank node."""

    cluster_id: ClusterIdText
    voters: tuple[VoterSpec, ...] = Field(min_length=1, max_length=9)
    raft_version: RaftVersionNumber = 2
    """What the quorum begins at; 0: static voters, 1: fixed ids, 2: any voters (P54)."""

    @field_validator("voters")
    @classmethod
    def _ids_differ(cls, voters: tuple[VoterSpec, ...]) -> tuple[VoterSpec, ...]:
        ids = [voter.node_id for voter in voters]
        if twice := sorted({node_id for node_id in ids if ids.count(node_id) > 1}):
            msg = f"node ids {twice} are listed twice; list one replica of each node id"
            raise ValueError(msg)
        return voters


class JoinRequest(ApiModel):
    """`POST /v1/join`: the cluster id for a blank node that is to observe (S5)."""

    cluster_id: ClusterIdText


class AddVoterRequest(ApiModel):
    """`POST /v1/quorum/voters`: AddVoter with compare-and-set and a deadline (S11)."""

    voter: VoterSpec
    expected: VoterRecord
    replaces: Replica | None = None
    """Once the add commits the leader appends this one's RemoveVoterRecord itself (S23)."""
    timeout_ms: TimeoutMs = 10_000


class RemoveVoterRequest(ApiModel):
    """`POST /v1/quorum/voters/remove`: RemoveVoter with compare-and-set and a deadline (S11)."""

    voter: Replica
    expected: VoterRecord
    timeout_ms: TimeoutMs = 10_000


class VoterChanged(ApiModel):
    """A voter change is committed; the record that made it."""

    voter_record: VoterRecord
    voters: tuple[Replica, ...]


class TargetSpec(ApiModel):
    """A replica of a reassignment's target."""

    node_id: NodeIdNumber
    directory_id: DirectoryIdText | None = None
    """None: the only replica of that id that votes or fetches; it is pinned at once (S15)."""
    endpoint: EndpointText | None = None
    """Where it listens for its peers; None: as it said."""

    @property
    def target(self) -> Target:
        """The target that this names."""
        return Target(
            NodeId(self.node_id),
            parse_directory_id(self.directory_id) if self.directory_id else None,
            Endpoint.parse(self.endpoint) if self.endpoint else None,
        )


class ReassignRequest(ApiModel):
    """`POST /v1/quorum/reassignment`: the voters that are to be (P33), by compare-and-set (S11)."""

    targets: tuple[TargetSpec, ...] = Field(min_length=1, max_length=9)
    expected: VoterRecord
    """`assignment_record` of the quorum as it was when the target was decided on."""
    timeout_ms: TimeoutMs = 10_000


class CancelReassignmentRequest(ApiModel):
    """`POST /v1/quorum/reassignment/cancel`: leave the voters as they are now (P35)."""

    expected: VoterRecord | None = None
    """None: whatever the target is."""
    timeout_ms: TimeoutMs = 10_000


class ReassignmentAccepted(ApiModel):
    """The target is committed; the leader goes on in the background. Watch `target_voters`."""

    target_voters: tuple[Replica, ...]
    """With their UUIDs; empty: reached already, or taken back."""


class UpgradeRequest(ApiModel):
    """`POST /v1/quorum/raft-version`: finalise a version, once all replicas know it (P56)."""

    raft_version: RaftVersionNumber
    timeout_ms: TimeoutMs = 10_000


class RaftVersionInfo(ApiModel):
    """The raft.version that is final now."""

    raft_version: int


class ResignRequest(ApiModel):
    """`POST /v1/quorum/resign`: hand leadership over, to `preferred` if it can take it."""

    preferred: Replica | None = None


class NewRecordIn(ApiModel):
    """One record to append: raw bytes, without a key."""

    value: Base64Text

    @property
    def data(self) -> bytes:
        """The bytes to append."""
        return base64.b64decode(self.value)


class AppendRequest(ApiModel):
    """`POST /v1/log`: records that are appended together, in this order, or not at all."""

    records: tuple[NewRecordIn, ...] = Field(min_length=1, max_length=10_000)


class Appended(ApiModel):
    """A write is committed: fsynced on a majority."""

    base_offset: int
    last_offset: int
    epoch: int


class RecordOut(ApiModel):
    """One committed record of `GET /v1/log`; key and value are base64."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: str | None = None
    """Kind of a control record, e.g. `AddVoter`; its fields are in `fields`."""
    fields: dict[str, object] | None = None
    key: str | None = None
    value: str | None = None


class ReadResult(ApiModel):
    """`GET /v1/log`: committed records from an offset on, and where to read next."""

    records: tuple[RecordOut, ...]
    next_offset: int
    high_watermark: int
    log_start_offset: int


class KeyValue(ApiModel):
    """One entry of the key-value store; key as text, value base64."""

    key: str
    value: str
    offset: int
    """The offset that wrote it: its version."""


class KeyList(ApiModel):
    """`GET /v1/kv?prefix=…`: entries in key order, `next` to go on from."""

    entries: tuple[KeyValue, ...]
    next: str | None


class HealthInfo(ApiModel):
    """`GET /healthz/live` and `GET /healthz/ready` when all is well."""

    status: Literal["alive", "ready"]
    reason: str


class ApiError(ApiModel):
    """Every answer that is not 2xx."""

    error: str
    """A stable name, e.g. `NOT_LEADER`, `STALE_VOTER_RECORD`, `WAITING`."""
    message: str
    """What was wrong, where, and what to do."""
    leader: Replica | None = None
    leader_api: EndpointText | None = None
    outcome: Literal["not_done", "unknown"]
    """`unknown`: the request may have been carried out or still may be. Without a default: an
    error in the same shape from something between, which does not say so, promises nothing."""
