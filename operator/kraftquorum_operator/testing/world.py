"""A model of a cluster with a quorum on it: enough of both to drive `decide` to the end.

Kubernetes' side: a StatefulSet controller, claims that end with their pods,
pods with UIDs, preconditions. The quorum's side: voters by (id, UUID), commits
by majority, an election that picks the longest log, observers that catch up.
Time passes in `tick`. `act` carries an action out and asserts, against the
truth and not the observation, that it breaks no rule of safety.md.

Longer than most modules: it is one model, and its parts know each other's state.
"""

# ruff: noqa: S101 - assertions are what this model is for

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.snapshot import (
    Budget,
    Claim,
    ClaimRecord,
    Latch,
    LatchVoter,
    Node,
    PendingChange,
    Pod,
    Progress,
    Quorum,
    Replica,
    Snapshot,
    StatefulSet,
    VoterRecord,
    majority,
)
from kraftquorum_operator.plan import actions
from kraftquorum_operator.plan.actions import Decision, Done, Wait
from kraftquorum_operator.plan.decide import decide
from kraftquorum_operator.testing.parts import START_TICKS, Disk, Runner

TICK_MS = 500


@dataclass
class World:
    """The truth. `replicas` is None until the StatefulSet exists."""

    spec: QuorumSpec
    uid: str = "resource-1"
    replicas: int | None = None
    statefulset_uid: str = "sts"
    version: int = 1
    now_ms: int = 0
    disks: dict[int, Disk] = field(default_factory=dict[int, Disk])
    runners: dict[int, Runner] = field(default_factory=dict[int, Runner])
    latch: Latch | None = None
    clusters: set[str] = field(default_factory=set[str])
    voters: list[Replica] = field(default_factory=list[Replica])
    committed_voters: list[Replica] = field(default_factory=list[Replica])
    record: VoterRecord = field(default_factory=lambda: VoterRecord(-1, -1))
    record_end: int = 0
    """The voter record is committed once the high watermark is here."""
    replaces: Replica | None = None
    leader: Replica | None = None
    epoch: int = 0
    high_watermark: int = 0
    heard_ms: dict[Replica, int] = field(default_factory=dict[Replica, int])
    records: dict[int, ClaimRecord] = field(default_factory=dict[int, ClaimRecord])
    copied: set[Replica] = field(default_factory=set[Replica])
    """Replicas whose volume was put back from a copy: nothing may lean on them (S3)."""
    rotten: set[Replica] = field(default_factory=set[Replica])
    """Replicas whose scrub has found damage, while they go on."""
    revision: int = 1
    """Of the StatefulSet's template."""
    bad_revisions: set[int] = field(default_factory=set[int])
    """Templates whose image cannot be pulled."""
    budget_counted: int = 0
    """How many labelled pods the budget's controller has counted last."""
    budget_mark: str | None = None
    remembered_cluster_id: str | None = None
    """What the status told last."""
    changes: list[str] = field(default_factory=list[str])
    _serial: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # --- the truth, asked --------------------------------------------------------------------

    def disk_of(self, replica: Replica) -> Disk | None:
        """The disk that a replica's storage UUID is on, if it still is."""
        disk = self.disks.get(replica.node_id)
        return disk if disk is not None and disk.directory_id == replica.directory_id else None

    def is_alive(self, replica: Replica) -> bool:
        """Whether a replica runs, on its own storage, as a member of the quorum."""
        disk, runner = self.disk_of(replica), self.runners.get(replica.node_id)
        return bool(disk and disk.cluster_id and runner and runner.runs)

    def is_fresh(self, replica: Replica) -> bool:
        """Whether a replica is alive and has all that is committed."""
        disk = self.disk_of(replica)
        return self.is_alive(replica) and disk is not None and disk.log_end >= self.high_watermark

    def has_quorum(self) -> bool:
        """Whether a majority of the voters in force is alive."""
        alive = sum(1 for voter in self.voters if self.is_alive(voter))
        return bool(self.voters) and alive >= majority(len(self.voters))

    @property
    def distrusted(self) -> set[Replica]:
        """Replicas that no loss of another may lean on."""
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
        self._elect()
        self._replicate()

    def _control(self) -> None:
        """The kubelet, pvc-protection and the StatefulSet controller."""
        for ordinal in [n for n, runner in self.runners.items() if runner.terminating]:
            gone = self.runners.pop(ordinal)
            if gone.label:
                self.count_budget()
        for ordinal, disk in list(self.disks.items()):
            if disk.terminating and ordinal not in self.runners:
                del self.disks[ordinal]
        if self.replicas is None:
            return
        for ordinal in [n for n in self.runners if n >= self.replicas]:
            self.runners[ordinal].terminating = True
        for ordinal in range(self.replicas):
            disk = self.disks.get(ordinal)
            if disk is None:
                self.disks[ordinal] = Disk(self._uid("claim"), self.uid)
            elif disk.terminating and ordinal not in self.runners:
                continue
            if ordinal not in self.runners:
                self.runners[ordinal] = Runner(self._uid("pod"), revision=self.revision)

    def _labelled(self) -> int:
        return sum(runner.label for runner in self.runners.values())

    def count_budget(self) -> None:
        """The disruption controller; it does not notice a pod that leaves the selector."""
        self.budget_counted = self._labelled()

    def _run(self, ordinal: int, runner: Runner) -> None:
        if runner.held_ticks > 0:
            runner.held_ticks -= 1
            return
        if runner.terminating or runner.starts_in == 0:
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

    def _append(self, leader: Replica, records: int) -> None:
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
            if disk.directory_id and self.is_alive(Replica(ordinal, disk.directory_id)):
                replica = Replica(ordinal, disk.directory_id)
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

    def _change(self, voters: list[Replica]) -> None:
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

    # --- what the operator sees --------------------------------------------------------------

    def look(self) -> Snapshot:
        """An observation, true at this time."""
        return Snapshot(
            namespace="test",
            name="demo",
            uid=self.uid,
            statefulset=None
            if self.replicas is None
            else StatefulSet(
                self.statefulset_uid,
                str(self.version),
                self.replicas,
                revision=str(self.revision),
                owner_uid=self.uid,
                records=tuple(sorted(self.records.items(), key=lambda item: item[0])),
            ),
            pods=tuple(self._pod(n) for n in sorted(self.runners)),
            claims=tuple(self._claim(n) for n in sorted(self.disks)),
            nodes=tuple(node for n in sorted(self.runners) if (node := self._node(n))),
            quorum=self._quorum(),
            latch=self.latch,
            budget=Budget("pdb", self.budget_counted, self.budget_mark),
            remembered_cluster_id=self.remembered_cluster_id,
        )

    def _pod(self, ordinal: int) -> Pod:
        runner = self.runners[ordinal]
        return Pod(
            name=f"demo-{ordinal}",
            uid=runner.uid,
            ordinal=ordinal,
            phase="Running" if runner.runs else "Pending",
            ready=runner.runs,
            terminating=runner.terminating,
            address=f"10.0.0.{ordinal}",
            voter_label=runner.label,
            revision=str(runner.revision),
            running=runner.runs,
            version=f"{runner.uid}.{runner.version}",
            restarts=runner.restarts,
            exit_code=runner.exit_code,
            age_ms=60_000,
        )

    def _claim(self, ordinal: int) -> Claim:
        disk = self.disks[ordinal]
        return Claim(
            name=f"data-demo-{ordinal}",
            uid=disk.claim_uid,
            ordinal=ordinal,
            terminating=disk.terminating,
            owner_uid=disk.owner_uid,
            volume=disk.claim_uid,
            record=disk.record,
        )

    def _node(self, ordinal: int) -> Node | None:
        disk, runner = self.disks.get(ordinal), self.runners[ordinal]
        if disk is None or disk.directory_id is None or not runner.runs:
            return None
        replica = Replica(ordinal, disk.directory_id)
        return Node(
            replica=replica,
            incarnation=disk.incarnation,
            cluster_id=disk.cluster_id,
            role="leader" if replica == self.leader else "follower",
            epoch=self.epoch,
            log_end_offset=disk.log_end,
            durable_end_offset=disk.log_end,
            high_watermark=min(disk.log_end, self.high_watermark),
            voters=tuple(self.voters) if disk.log_end else disk.base,
            caught_up=self.is_fresh(replica),
            peer_endpoint=f"demo-{ordinal}:9093",
            damage=("a segment is rotten",) if replica in self.rotten else (),
        )

    def _progress(self, replica: Replica) -> Progress:
        heard = self.heard_ms.get(replica)
        return Progress(
            replica=replica,
            caught_up=self.is_fresh(replica) and (heard is not None or replica == self.leader),
            silent_since_ms=None if replica == self.leader else (heard or 0),
        )

    def _quorum(self) -> Quorum | None:
        if self.leader is None or not self.is_alive(self.leader) or not self.has_quorum():
            return None
        observers = [
            Replica(n, disk.directory_id)
            for n, disk in sorted(self.disks.items())
            if disk.directory_id and self.is_alive(Replica(n, disk.directory_id))
        ]
        cluster_id = self.disks[self.leader.node_id].cluster_id
        assert cluster_id is not None
        return Quorum(
            cluster_id=cluster_id,
            leader=self.leader,
            epoch=self.epoch,
            high_watermark=self.high_watermark,
            voters=tuple(self._progress(voter) for voter in self.voters),
            committed=tuple(self.committed_voters),
            record=self.record,
            record_committed=not self.is_changing,
            observers=tuple(self._progress(o) for o in observers if o not in self.voters),
            pending=PendingChange("remove", self.replaces, appended=False, waiting_for="commit")
            if self.replaces
            else None,
            formation_completed=self.high_watermark > 0,
            epoch_committed=self.high_watermark > 0,
            confirmed=True,
        )

    # --- what the operator does --------------------------------------------------------------

    def step(self) -> Decision:
        """Observe, decide and act once."""
        seen = self.look()
        decision = decide(self.spec, seen, self.now_ms)
        if seen.latch is not None:
            self.remembered_cluster_id = seen.latch.cluster_id
        if not isinstance(decision, Wait | Done):
            self.act(decision, late=False)
        return decision

    def act(self, action: actions.Action, *, late: bool) -> None:
        """Carry an action out, with its preconditions, and check it against the truth.

        Args:
            action: what was decided.
            late: decided on an older observation, by an operator that was stopped since.
        """
        self.changes.append(("late " if late else "") + actions.describe(action))
        match action:
            case actions.CreateStatefulSet(replicas):
                if self.replicas is None:
                    self.replicas, self.statefulset_uid = replicas, self._uid("sts")
            case actions.SetReplicas():
                self._set_replicas(action)
            case actions.CreateLatch(voters):
                self._create_latch(self._uid("cluster"), voters, adopted=False)
            case actions.AdoptQuorum(cluster_id, voters):
                self._create_latch(cluster_id, voters, adopted=True)
            case actions.SendLatch() | actions.JoinNode():
                self._enter(action)
            case actions.AddVoter() | actions.RemoveVoter():
                self._change_voters(action, late=late)
            case actions.MoveLeadership(leader, preferred):
                if self.leader == leader and self.is_fresh(preferred):
                    self.leader, self.epoch = preferred, self.epoch + 1
                    self._append(preferred, 1)
            case actions.SetVoterLabel(pod, uid, label):
                runner = self.runners.get(_ordinal(pod))
                if runner is not None and runner.uid == uid:
                    runner.label = label
                    runner.version += 1
                    if label:
                        self.count_budget()
            case actions.RecountBudget(_, mark):
                if mark != self.budget_mark:
                    self.budget_mark = mark
                    self.count_budget()
            case actions.DeleteClaim() | actions.DeletePod():
                self._delete(action, late=late)
            case actions.SetClaimOwner(claim, uid):
                disk = self.disks.get(_ordinal(claim))
                if disk is not None and disk.claim_uid == uid:
                    disk.owner_uid = self.uid
            case actions.RecordClaims():
                self._record(action)
            case actions.ApplyObjects() | actions.DeleteStatefulSet() | actions.DeleteLatch():
                raise AssertionError(f"nothing asked for {action}")

    def _set_replicas(self, action: actions.SetReplicas) -> None:
        if (action.uid, action.resource_version) != (self.statefulset_uid, str(self.version)):
            return
        highest = max((v.node_id for v in (*self.voters, *self.committed_voters)), default=-1)
        assert action.replicas > highest, "S25: a voter would lose its pod"
        self.replicas, self.version = action.replicas, self.version + 1

    def _create_latch(
        self, cluster_id: str, voters: tuple[LatchVoter, ...], *, adopted: bool
    ) -> None:
        if self.latch is not None:
            return  # create-once: the first one counts
        if not adopted:
            assert not self.clusters, "S18: a second quorum over an earlier one"
            self.clusters.add(cluster_id)
        self.latch = Latch(cluster_id, voters, adopted)

    def _enter(self, action: actions.SendLatch | actions.JoinNode) -> None:
        """A node takes a latch or a cluster id once, blank, and a latch only if listed."""
        disk, runner = self.disk_of(action.replica), self.runners.get(action.replica.node_id)
        if disk is None or runner is None or not runner.runs or disk.cluster_id is not None:
            return
        if isinstance(action, actions.SendLatch):
            if action.latch.lists(action.replica):
                disk.cluster_id = action.latch.cluster_id
                disk.base = tuple(voter.replica for voter in action.latch.voters)
        else:
            disk.cluster_id = action.cluster_id

    def _change_voters(self, action: actions.AddVoter | actions.RemoveVoter, *, late: bool) -> None:
        if self.leader is None or action.expected != self.record:
            assert late, "S11: a change was asked of another set than the one in force"
            return
        if self.is_changing or self.replaces:
            assert late, "P31: two voter changes at a time"
            return
        if isinstance(action, actions.AddVoter):
            if not self.is_fresh(action.replica):
                return  # the leader waits for an observer to catch up, then gives up
            alive = sum(1 for voter in self.voters if self.is_alive(voter)) + 1
            assert late or alive >= majority(len(self.voters) + 1), "an add that cannot commit"
            self._change([*self.voters, action.replica])
            self.replaces = action.replaces
            return
        assert late or self.budget_counted <= self._labelled(), "S22: a stale budget"
        survivors = [voter for voter in self.voters if voter != action.replica]
        fresh = sum(
            1 for voter in survivors if self.is_fresh(voter) and voter not in self.distrusted
        )
        assert late or fresh >= majority(len(survivors)), "S23: survivors are no majority"
        self._change(survivors)

    def _delete(self, action: actions.DeleteClaim | actions.DeletePod, *, late: bool) -> None:
        if isinstance(action, actions.DeletePod):
            runner = self.runners.get(_ordinal(action.pod))
            if runner is None or runner.uid != action.uid:
                return
            if action.version not in {None, f"{runner.uid}.{runner.version}"}:
                return  # conflict: it has started, or ended, since
            assert action.version is None or not runner.runs, "a pod that runs"
            self._check_loss(_ordinal(action.pod), late=late)
            self._check_roll(_ordinal(action.pod), runner, late=late)
            runner.terminating = True
            return
        ordinal = _ordinal(action.claim)
        disk = self.disks.get(ordinal)
        if disk is None or disk.claim_uid != action.uid:
            return
        replica = Replica(ordinal, disk.directory_id or "")
        if replica not in self.distrusted:
            fresh = replica in self.voters and self.is_fresh(replica)
            assert late or not fresh, "a well disk"
            returns = replica in self.voters and not disk.corrupt
            assert late or not returns, "a voter's disk that may return"
        disk.terminating = True

    def _record(self, action: actions.RecordClaims) -> None:
        for _, ordinal, record in action.claims:
            disk = self.disks.get(ordinal)
            if disk is None or disk.claim_uid != record.claim_uid:
                return  # conflict: the rest of the action is not done
            disk.record = record
            if action.statefulset_uid == self.statefulset_uid:
                self.records[ordinal] = record
            assert Replica(ordinal, record.directory_id) not in self.copied, "S3: a copy recorded"

    def _check_loss(self, ordinal: int, *, late: bool) -> None:
        """Ending a pod must leave a majority, if its replica counts now."""
        disk = self.disks.get(ordinal)
        replica = Replica(ordinal, disk.directory_id or "") if disk else None
        if late or replica is None or replica not in self.voters or not self.is_alive(replica):
            return
        runner = self.runners[ordinal]
        if runner.revision != self.revision and len(self.voters) < 3:
            return  # one or two voters cannot be rolled without a pause
        others = sum(
            1
            for voter in self.voters
            if voter != replica and voter not in self.distrusted and self.is_fresh(voter)
        )
        assert others >= majority(len(self.voters)), "no majority left"

    def _check_roll(self, ordinal: int, runner: Runner, *, late: bool) -> None:
        """A healthy pod is restarted for its template alone, while all others are well."""
        disk = self.disks.get(ordinal)
        replica = Replica(ordinal, disk.directory_id or "") if disk else None
        outdated = runner.revision != self.revision and disk is not None and not disk.terminating
        if late or not outdated or replica in self.distrusted or replica not in self.voters:
            return
        if self.is_fresh(replica):
            assert replica != self.leader or len(self.voters) == 1, "the leader was not moved"
            late_ones = [voter for voter in self.voters if not self.is_fresh(voter)]
            assert not late_ones, "two voters away for a new template"

    # --- what goes wrong ---------------------------------------------------------------------

    def crash(self, ordinal: int, ticks: int = 0) -> None:
        """The process ends, and cannot start for so long."""
        runner = self.runners.get(ordinal)
        if runner is not None:
            runner.starts_in, runner.held_ticks = START_TICKS, ticks
            runner.version += 1

    def delete_pod(self, ordinal: int) -> None:
        """Somebody deletes the pod."""
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
            )
            self.crash(ordinal)

    def put_back(self, ordinal: int, copy: Disk) -> None:
        """Somebody copies an earlier content onto the volume (S3); the process starts on it."""
        disk = self.disks[ordinal]
        self.disks[ordinal] = replace(
            copy, claim_uid=disk.claim_uid, owner_uid=disk.owner_uid, record=disk.record
        )
        self.copied.add(Replica(ordinal, copy.directory_id or ""))
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
            self.rotten.add(Replica(ordinal, disk.directory_id))

    def retemplate(self, *, bad: bool = False) -> None:
        """Somebody changes the pods' template, perhaps to one that cannot start."""
        self.revision, self.version = self.revision + 1, self.version + 1
        if bad:
            self.bad_revisions.add(self.revision)

    def delete_claim(self, ordinal: int) -> None:
        """Somebody deletes the claim."""
        disk = self.disks.get(ordinal)
        if disk is not None:
            disk.terminating = True


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
