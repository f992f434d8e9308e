"""The true state of the modelled cluster: disks, pods, voters and time.

Kubernetes' side: a StatefulSet controller, claims that end with their pods, pods with UIDs. The
quorum's side: voters by (id, UUID), commits by majority, an election that picks the longest log,
observers that catch up. Time passes in `tick`; the last section is what goes wrong.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from kraftquorum_operator.model.engine import RAFTNODE, Engine
from kraftquorum_operator.model.observation import (
    ClaimRecord,
    Deferral,
    Latch,
    Quorum,
    ReplicaId,
    VoterRecord,
    majority,
)
from kraftquorum_operator.model.spec import QuorumSpec
from proofkit.operatorworld.parts import START_TICKS, Disk, Runner

TICK_MS = 500


@dataclass
class Truth:
    """The truth. `replicas` is None until the StatefulSet exists."""

    spec: QuorumSpec
    engine: Engine = RAFTNODE
    """What its replicas run. A leader that checks no change confirms no answer at once either."""
    uid: str = "resource-1"
    replicas: int | None = None
    statefulset_uid: str = "sts"
    version: int = 1
    seen_version: int = 1
    """The one that the StatefulSet controller has seen: it knows the template's revision then."""
    next_seen_version: int = 1
    now_ms: int = 0
    disks: dict[int, Disk] = field(default_factory=dict[int, Disk])
    runners: dict[int, Runner] = field(default_factory=dict[int, Runner])
    latch: Latch | None = None
    clusters: set[str] = field(default_factory=set[str])
    voters: list[ReplicaId] = field(default_factory=list[ReplicaId])
    committed_voters: list[ReplicaId] = field(default_factory=list[ReplicaId])
    record: VoterRecord = field(default_factory=lambda: VoterRecord(-1, -1))
    record_end: int = 0
    """The voter record is committed once the high watermark is here."""
    replaces: ReplicaId | None = None
    leader: ReplicaId | None = None
    epoch: int = 0
    high_watermark: int = 0
    heard_ms: dict[ReplicaId, int] = field(default_factory=dict[ReplicaId, int])
    records: dict[int, ClaimRecord] = field(default_factory=dict[int, ClaimRecord])
    given_up: dict[int, list[tuple[int, str, bool]]] = field(
        default_factory=dict[int, list[tuple[int, str, bool]]]
    )
    """By ordinal: when a claim was given up, its UID, and whether it never was a voter's."""
    copied: set[ReplicaId] = field(default_factory=set[ReplicaId])
    """Replicas whose volume was put back from a copy: nothing may lean on them (S3)."""
    rotten: set[ReplicaId] = field(default_factory=set[ReplicaId])
    """Replicas whose scrub has found damage, while they go on."""
    revision: int = 1
    """Of the StatefulSet's template."""
    bad_revisions: set[int] = field(default_factory=set[int])
    """Templates whose image cannot be pulled."""
    places: int | None = None
    """How many pods the machines have room for; None: for all."""
    deferral: Deferral | None = None
    """As recorded on the StatefulSet."""
    template_gib: int = 1
    """The size of the claims that the StatefulSet controller makes."""
    class_expands: bool = True
    """Whether the storage class lets claims grow."""
    refused_growths: dict[str, str] = field(default_factory=dict[str, str])
    """By UID of the claim: why the API server refused to let it grow; the operator retries none."""
    driver_expands: bool = True
    """Whether the storage driver does what a claim asks for, or fails each time."""
    budget_grows: bool = True
    """Whether the disruption budget keeps a majority of the wanted voters, if they are more."""
    budget_pods: set[int] = field(default_factory=set[int])
    """Ordinals of the pods that the disruption budget selects."""
    budget_version: int = 1
    """Another one once it selects other pods or was counted."""
    budget_counted: int = 0
    """How many pods the budget's controller has counted last."""
    budget_lacks: int = 0
    """How many healthy pods its controller missed when it counted another budget instead."""
    budget_mark: str | None = None
    remembered_cluster_id: str | None = None
    """What the status told last."""
    cut_off_until_ms: int = 0
    last_answer: Quorum | None = None
    """Of a leader that is cut off: the operator gets it until then, whatever happens meanwhile."""
    changes: list[str] = field(default_factory=list[str])
    _serial: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # --- the truth, asked --------------------------------------------------------------------

    def disk_of(self, replica: ReplicaId) -> Disk | None:
        """The disk that a replica's storage UUID is on, if it still is."""
        disk = self.disks.get(replica.node_id)
        return disk if disk is not None and disk.directory_id == replica.directory_id else None

    def is_alive(self, replica: ReplicaId) -> bool:
        """Whether a replica runs, on its own storage, as a member of the quorum."""
        disk, runner = self.disk_of(replica), self.runners.get(replica.node_id)
        return bool(disk and disk.cluster_id and runner and runner.runs)

    def is_fresh(self, replica: ReplicaId) -> bool:
        """Whether a replica is alive and has all that is committed."""
        disk = self.disk_of(replica)
        return self.is_alive(replica) and disk is not None and disk.log_end >= self.high_watermark

    def has_quorum(self) -> bool:
        """Whether a majority of the voters in force is alive."""
        alive = sum(1 for voter in self.voters if self.is_alive(voter))
        return bool(self.voters) and alive >= majority(len(self.voters))

    @property
    def distrusted(self) -> set[ReplicaId]:
        """Replicas that do not count as survivors of another replica's loss."""
        return self.copied | self.rotten

    @property
    def is_changing(self) -> bool:
        """Whether a voter record is not committed yet."""
        return bool(self.voters) and self.high_watermark < self.record_end

    # --- time --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let half a second pass."""
        self.now_ms += TICK_MS
        self._control()
        for ordinal, runner in self.runners.items():
            self._run(ordinal, runner)
        self._expand()
        self._elect()
        self._replicate()

    def _control(self) -> None:
        """The kubelet, pvc-protection and the StatefulSet controller."""
        for ordinal in [n for n, runner in self.runners.items() if runner.terminating]:
            del self.runners[ordinal]
            if ordinal in self.budget_pods:
                self.count_budget()
        for ordinal, disk in list(self.disks.items()):
            if disk.terminating and ordinal not in self.runners:
                del self.disks[ordinal]
        if self.replicas is None:
            return
        self.seen_version, self.next_seen_version = self.next_seen_version, self.version
        for ordinal in [n for n in self.runners if n >= self.replicas]:
            self.runners[ordinal].terminating = True
        for ordinal in range(self.replicas):
            disk = self.disks.get(ordinal)
            if disk is None:
                size = self.template_gib
                self.disks[ordinal] = Disk(
                    self._uid("claim"), self.uid, requested_gib=size, capacity_gib=size
                )
            elif disk.terminating and ordinal not in self.runners:
                continue
            if ordinal not in self.runners:
                self.runners[ordinal] = Runner(self._uid("pod"), revision=self.revision)
                if ordinal in self.budget_pods:
                    self.count_budget()
        self._place()

    def _expand(self) -> None:
        """The storage driver and the kubelet: the file system of a running pod grows online."""
        for ordinal, disk in self.disks.items():
            runner = self.runners.get(ordinal)
            mounted = runner is not None and runner.placed
            if self.driver_expands and mounted and disk.capacity_gib < disk.requested_gib:
                disk.capacity_gib, disk.version = disk.requested_gib, disk.version + 1

    def _place(self) -> None:
        """The scheduler: it gives a place that is free to the pod that has waited the longest."""
        waiting = [runner for runner in self.runners.values() if not runner.placed]
        waiting.sort(key=lambda runner: -runner.unready_ticks)
        taken = len(self.runners) - len(waiting)
        free = len(waiting) if self.places is None else max(0, self.places - taken)
        for runner in waiting[:free]:
            runner.placed = True

    def _selected(self) -> int:
        return sum(ordinal in self.budget_pods for ordinal in self.runners)

    def is_ready(self, ordinal: int) -> bool:
        """Whether the pod's probe passes: that of a blank node does not."""
        runner, disk = self.runners[ordinal], self.disks.get(ordinal)
        return runner.runs and disk is not None and disk.cluster_id is not None

    @property
    def budget_healthy(self) -> int:
        """How many healthy pods the disruption budget counts now."""
        healthy = sum(n in self.budget_pods and self.is_ready(n) for n in self.runners)
        return max(0, healthy - self.budget_lacks)

    @property
    def evictions_allowed(self) -> int:
        """How many voters' pods the disruption budget lets go now."""
        return max(0, self.budget_healthy - self.least(grows=self.budget_grows))

    def least(self, *, grows: bool) -> int:
        """How many pods the disruption budget keeps, if the quorum may grow now or not."""
        return majority(max(len(self.voters), self.spec.voters if grows else 0))

    def may_evict(self, ordinal: int) -> bool:
        """Whether the API server grants the eviction of a pod: always, if no budget counts it."""
        counted = ordinal in self.budget_pods
        return ordinal in self.runners and (not counted or self.evictions_allowed > 0)

    def count_budget(self) -> None:
        """The disruption controller, after a change of the budget or of a pod that it selects."""
        self.budget_counted, self.budget_lacks = self._selected(), 0
        self.budget_version += 1

    def _run(self, ordinal: int, runner: Runner) -> None:
        runner.unready_ticks = 0 if runner.runs else runner.unready_ticks + 1
        if runner.held_ticks > 0:
            runner.held_ticks -= 1
            return
        if not runner.placed or runner.terminating or runner.starts_in == 0:
            return
        if runner.revision in self.bad_revisions:
            return
        runner.starts_in -= 1
        disk = self.disks[ordinal]
        if runner.starts_in > 0:
            return
        if disk.corrupt:
            runner.exit_code, runner.starts_in = 12, START_TICKS
            runner.restarts += 1
            return
        disk.directory_id = disk.directory_id or self._uid(f"dir{ordinal}-")
        disk.incarnation += 1
        runner.version += 1

    def _elect(self) -> None:
        if not self.voters:
            self._form()
        if self.leader is not None and self.is_alive(self.leader) and self.has_quorum():
            return
        self.leader = None
        if not self.has_quorum():
            return
        alive = [voter for voter in self.voters if self.is_alive(voter)]
        ends = {voter: disk.log_end for voter in alive if (disk := self.disk_of(voter))}
        self.leader = max(alive, key=lambda voter: (ends[voter], voter))
        self.epoch += 1
        assert ends[self.leader] >= self.high_watermark, "a committed record is lost"
        self.heard_ms.clear()
        self._append(self.leader, 1)

    def _form(self) -> None:
        """The latched set elects its first leader once a majority has the latch."""
        bases = {disk.base for disk in self.disks.values() if disk.base}
        if not bases:
            return
        assert len(bases) == 1, "two voter sets were formed"
        base = list(bases.pop())
        if sum(1 for voter in base if self.is_alive(voter)) >= majority(len(base)):
            self.voters, self.committed_voters = list(base), list(base)
            self.record, self.record_end = VoterRecord(0, 1), 1

    def _append(self, leader: ReplicaId, records: int) -> None:
        disk = self.disk_of(leader)
        assert disk is not None
        disk.log_end += records

    def _replicate(self) -> None:
        if self.leader is None:
            return
        self._append(self.leader, 1)
        led = self.disk_of(self.leader)
        assert led is not None
        for ordinal, disk in self.disks.items():
            if disk.directory_id and self.is_alive(ReplicaId(ordinal, disk.directory_id)):
                replica = ReplicaId(ordinal, disk.directory_id)
                disk.log_end = max(disk.log_end, led.log_end - (replica not in self.heard_ms))
                self.heard_ms[replica] = self.now_ms
        ends = sorted(
            (d.log_end if (d := self.disk_of(v)) and self.is_alive(v) else 0 for v in self.voters),
            reverse=True,
        )
        self.high_watermark = max(self.high_watermark, ends[majority(len(ends)) - 1])
        if self.high_watermark >= self.record_end:
            self.committed_voters = list(self.voters)
            if self.replaces is not None and self.replaces in self.voters:
                self._change([v for v in self.voters if v != self.replaces])
            self.replaces = None

    def _change(self, voters: list[ReplicaId]) -> None:
        assert self.leader is not None
        assert abs(len(voters) - len(self.voters)) == 1, "more than one voter changed"
        self.voters = sorted(voters)
        self._append(self.leader, 1)
        disk = self.disk_of(self.leader)
        assert disk is not None
        self.record, self.record_end = VoterRecord(disk.log_end - 1, self.epoch), disk.log_end
        if self.leader not in self.voters:
            self.leader = None

    def _uid(self, kind: str) -> str:
        return f"{kind}{next(self._serial)}"

    # --- what goes wrong ---------------------------------------------------------------------

    def crash(self, ordinal: int, ticks: int = 0) -> None:
        """The process ends, and cannot start for so long."""
        runner = self.runners.get(ordinal)
        if runner is not None:
            runner.starts_in, runner.held_ticks = START_TICKS, ticks
            runner.version += 1

    def delete_pod(self, ordinal: int) -> None:
        """A user deletes the pod."""
        if ordinal in self.runners:
            self.runners[ordinal].terminating = True

    def wipe(self, ordinal: int) -> None:
        """The volume is emptied under the running process."""
        disk = self.disks.get(ordinal)
        if disk is not None:
            self.disks[ordinal] = replace(
                Disk(disk.claim_uid, disk.owner_uid),
                terminating=disk.terminating,
                record=disk.record,
                requested_gib=disk.requested_gib,
                capacity_gib=disk.capacity_gib,
                version=disk.version,
            )
            self.crash(ordinal)

    def put_back(self, ordinal: int, copy: Disk) -> None:
        """A user restores an earlier content of the volume (S3); the process starts on it."""
        disk = self.disks[ordinal]
        self.disks[ordinal] = replace(
            copy,
            claim_uid=disk.claim_uid,
            owner_uid=disk.owner_uid,
            record=disk.record,
            requested_gib=disk.requested_gib,
            capacity_gib=disk.capacity_gib,
            version=disk.version,
        )
        self.copied.add(ReplicaId(ordinal, copy.directory_id or ""))
        self.crash(ordinal)

    def corrupt(self, ordinal: int) -> None:
        """The log is damaged, so that the node refuses to start."""
        disk = self.disks.get(ordinal)
        if disk is not None:
            disk.corrupt = True
            self.crash(ordinal)

    def rot(self, ordinal: int) -> None:
        """The scrub finds damage; the process goes on."""
        disk = self.disks.get(ordinal)
        if disk is not None and disk.directory_id is not None:
            self.rotten.add(ReplicaId(ordinal, disk.directory_id))

    def retemplate(self, *, bad: bool = False) -> None:
        """A user changes the pods' template, perhaps to one that cannot start."""
        self.revision, self.version = self.revision + 1, self.version + 1
        if bad:
            self.bad_revisions.add(self.revision)

    def delete_claim(self, ordinal: int) -> None:
        """A user deletes the claim."""
        disk = self.disks.get(ordinal)
        if disk is not None:
            disk.terminating = True
