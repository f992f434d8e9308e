"""One simulated quorum: what its replicas say of themselves, without a log and without peers.

A replica forms, joins, becomes a voter and is removed as a real one does, but at once. The records
that clients write are a number that grows with time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from kraftquorum_operator import names
from raftnode.api.model import (
    AddVoterRequest,
    FormRequest,
    NodeInfo,
    QuorumInfo,
    RemoveVoterRequest,
    Replica,
    ReplicaProgress,
    Role,
    StorageInfo,
    VoterChanged,
    VoterRecord,
)
from raftnode.core.types import format_directory_id

WRITES_PER_S = 100
"""Records that clients write to each quorum: a quorum at rest for the operator is not idle."""

FETCH_AGE_MAX_MS = 200
"""A follower's last Fetch is at most this old."""

Key = tuple[int, str]
"""Node id and directory id."""


class RefusedError(Exception):
    """A node refuses a request.

    Attributes:
        error: the name of the error, as in the API.
    """

    def __init__(self, error: str, message: str) -> None:
        self.error = error
        super().__init__(message)


def new_directory_id() -> str:
    """The directory id of a new storage."""
    return format_directory_id(uuid.uuid4())


@dataclass(slots=True)
class Disk:
    """The storage of a replica, which outlives its process."""

    directory_id: str = field(default_factory=new_directory_id)
    cluster_id: str | None = None
    starts: int = 0


@dataclass(slots=True)
class SimulatedQuorum:
    """The replicas of one quorum.

    Attributes:
        namespace: of the resource.
        name: of the resource.
        running: disk of each running node, by its id.
        voters: the voters in force, and since when each does not run (monotonic seconds).
        version: changes with everything that a node's state has.
        first_action_s: when a node first had a request to change something, on the monotonic clock,
            since `await_action`.
        undisturbed_since_s: since when nothing was lost; None: not formed yet.
    """

    namespace: str
    name: str
    running: dict[int, Disk] = field(default_factory=dict[int, Disk])
    voters: dict[Key, float | None] = field(default_factory=dict[Key, float | None])
    cluster_id: str | None = None
    leader: Key | None = None
    epoch: int = 0
    record: int = 1
    version: int = 0
    descriptions: int = 0
    """How often the leader described the quorum."""
    first_action_s: float | None = None
    undisturbed_since_s: float | None = None

    def start(self, node_id: int, disk: Disk) -> None:
        """A node starts on a disk."""
        disk.starts += 1
        self.running[node_id] = disk
        self._changed()

    def stop(self, node_id: int) -> None:
        """A node ends."""
        if self.running.pop(node_id, None) is not None:
            self._changed()

    def await_action(self) -> None:
        """Forget the first action, and note that the quorum is disturbed now."""
        self.first_action_s, self.undisturbed_since_s = None, None

    @property
    def healthy(self) -> bool:
        """Whether every voter runs, and nothing else does."""
        return self.leader is not None and set(self.voters) == set(self._live())

    def node(self, node_id: int) -> NodeInfo:
        """A node's description of itself."""
        disk = self.running[node_id]
        end = self._end()
        host = f"{names.pod(self.name, node_id)}.{names.domain(self.namespace, self.name)}"
        return NodeInfo(
            node_id=node_id,
            directory_id=disk.directory_id,
            incarnation=disk.starts,
            cluster_id=disk.cluster_id,
            role=self._role(node_id),
            epoch=self.epoch if disk.cluster_id else 0,
            leader=_replica(self.leader) if self.leader and disk.cluster_id else None,
            peer_endpoint=f"{host}:{names.PEER_PORT}",
            api_endpoint=f"{host}:{names.API_PORT}",
            log_start_offset=0,
            log_end_offset=end if disk.cluster_id else 0,
            durable_end_offset=end if disk.cluster_id else 0,
            high_watermark=end if disk.cluster_id else 0,
            voters=tuple(map(_replica, self.voters)) if disk.cluster_id else (),
            caught_up=self.is_ready(node_id),
            version="0.1.0",
            storage=StorageInfo(free_bytes=1 << 30, size_bytes=2 << 30),
        )

    def quorum(self, node_id: int) -> QuorumInfo:
        """The leader's description of the quorum.

        Raises:
            RefusedError: the node does not lead.
        """
        self._check_leads(node_id)
        assert self.leader is not None
        self.descriptions += 1
        end, live = self._end(), self._live()
        observers = [
            key for key in live if key not in self.voters and self.running[key[0]].cluster_id
        ]
        return QuorumInfo(
            cluster_id=self.cluster_id or "",
            leader=_replica(self.leader),
            epoch=self.epoch,
            high_watermark=end,
            log_end_offset=end,
            voters=tuple(self._progress(key, end) for key in self.voters),
            committed_voters=tuple(map(_replica, self.voters)),
            voter_record=self._record(),
            voter_record_committed=True,
            observers=tuple(self._progress(key, end) for key in observers),
            pending_change=None,
            formation_completed=True,
            epoch_committed=True,
            confirmed=True,
        )

    def is_ready(self, node_id: int) -> bool:
        """Whether a node's readiness probe holds."""
        disk = self.running.get(node_id)
        return disk is not None and disk.cluster_id is not None and self.leader is not None

    def state(self, node_id: int) -> str:
        """What a watcher of the node must notice at once."""
        return f"{self.version} {self.running[node_id].directory_id}"

    def form(self, node_id: int, request: FormRequest) -> NodeInfo:
        """Take the latch; the quorum is formed once a majority of its voters has it."""
        self._act()
        disk = self.running[node_id]
        if disk.cluster_id not in {None, request.cluster_id}:
            raise RefusedError("ALREADY_FORMED", f"the node is of {disk.cluster_id}")
        disk.cluster_id = self.cluster_id = request.cluster_id
        if not self.voters:
            self.voters = {(v.node_id, v.directory_id): None for v in request.voters}
        self._changed()
        return self.node(node_id)

    def join(self, node_id: int, cluster_id: str) -> NodeInfo:
        """Become an observer, which is caught up at once."""
        self._act()
        self.running[node_id].cluster_id = cluster_id
        self._changed()
        return self.node(node_id)

    def add_voter(self, node_id: int, request: AddVoterRequest) -> VoterChanged:
        """Commit an addition, and the removal of the voter that it replaces."""
        self._act()
        self._check_change(node_id, request.expected)
        self.voters[request.voter.node_id, request.voter.directory_id] = None
        self.record += 1
        if request.replaces is not None:
            self._remove((request.replaces.node_id, request.replaces.directory_id))
        self._changed()
        return self._voters_changed()

    def remove_voter(self, node_id: int, request: RemoveVoterRequest) -> VoterChanged:
        """Commit a removal."""
        self._act()
        self._check_change(node_id, request.expected)
        self._remove((request.voter.node_id, request.voter.directory_id))
        self._changed()
        return self._voters_changed()

    def resign(self, node_id: int, preferred: Replica | None) -> None:
        """Give the leadership to another voter that runs."""
        self._act()
        self._check_leads(node_id)
        others = [key for key in self._running_voters() if key[0] != node_id]
        wanted = None if preferred is None else (preferred.node_id, preferred.directory_id)
        self.leader = wanted if wanted in others else next(iter(others), self.leader)
        self.epoch += 1
        self._changed()

    def _act(self) -> None:
        if self.first_action_s is None:
            self.first_action_s = time.monotonic()

    def _check_leads(self, node_id: int) -> None:
        if self.leader is None or self._key(node_id) != self.leader:
            raise RefusedError("NOT_LEADER", f"node {node_id} does not lead")

    def _check_change(self, node_id: int, expected: VoterRecord) -> None:
        self._check_leads(node_id)
        if expected != self._record():
            raise RefusedError("STALE_VOTER_RECORD", f"the record is {self._record()}")

    def _remove(self, key: Key) -> None:
        self.voters.pop(key, None)
        self.record += 1

    def _changed(self) -> None:
        """Elect a leader if need be, and count a new version of the state."""
        self.version += 1
        now_s, live = time.monotonic(), set(self._live())
        for key, since_s in self.voters.items():
            self.voters[key] = None if key in live else since_s or now_s
        running = self._running_voters()
        if 2 * len(running) <= len(self.voters):
            self.leader = None
        elif self.leader not in running:
            self.leader, self.epoch = running[0], self.epoch + 1
        if not self.healthy:
            self.undisturbed_since_s = None
        elif self.undisturbed_since_s is None:
            self.undisturbed_since_s = now_s

    def _live(self) -> Iterator[Key]:
        return (self._key(node_id) for node_id in sorted(self.running))

    def _key(self, node_id: int) -> Key:
        disk = self.running.get(node_id)
        return (node_id, "" if disk is None else disk.directory_id)

    def _running_voters(self) -> list[Key]:
        return [key for key in self._live() if key in self.voters and self._has_cluster(key)]

    def _has_cluster(self, key: Key) -> bool:
        return self.running[key[0]].cluster_id is not None

    def _role(self, node_id: int) -> Role:
        key = self._key(node_id)
        if self.running[node_id].cluster_id is None:
            return "blank"
        if key not in self.voters:
            return "observer"
        if self.leader is None:
            return "unattached"
        return "leader" if key == self.leader else "follower"

    def _progress(self, key: Key, end: int) -> ReplicaProgress:
        silent_since_s = self.voters.get(key)
        now_s = time.monotonic()
        age_ms = int(now_s * 1000) % FETCH_AGE_MAX_MS
        if silent_since_s is not None:
            age_ms = int((now_s - silent_since_s) * 1000)
        leads, fresh = key == self.leader, silent_since_s is None
        return ReplicaProgress(
            node_id=key[0],
            directory_id=key[1],
            endpoint=None,
            acknowledged_offset=end,
            lag=0 if fresh else int((now_s - (silent_since_s or now_s)) * WRITES_PER_S),
            last_fetch_age_ms=None if leads else age_ms,
            last_caught_up_age_ms=None if leads else age_ms,
            caught_up=fresh,
            fenced=False,
            incarnation=1,
        )

    def _record(self) -> VoterRecord:
        return VoterRecord(offset=self.record, epoch=1)

    def _voters_changed(self) -> VoterChanged:
        return VoterChanged(voter_record=self._record(), voters=tuple(map(_replica, self.voters)))

    def _end(self) -> int:
        return self.record + int(time.monotonic() * WRITES_PER_S)


def _replica(key: Key) -> Replica:
    return Replica(node_id=key[0], directory_id=key[1])
