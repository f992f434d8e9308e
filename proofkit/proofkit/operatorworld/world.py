"""A model of a cluster with a quorum on it: enough of both to drive `decide` to the end.

`Truth` is the true state. This module makes the operator's observation of it and carries out the
operator's actions: `act` asserts, against the truth and not the observation, that an action
breaks no rule of safety.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kraftquorum_operator.judge.scale_up import why_deferred
from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.observation import (
    Basis,
    Budget,
    Claim,
    DescribedVoters,
    GivenUp,
    Latch,
    LatchVoter,
    Node,
    Observation,
    PendingChange,
    Pod,
    Progress,
    Quorum,
    ReplicaId,
    StatefulSet,
    Trouble,
    majority,
)
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.plan import actions
from kraftquorum_operator.plan.actions import Decision, Done, Wait
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.parts import Disk, Runner
from proofkit.operatorworld.truth import TICK_MS, Truth


@dataclass
class World(Truth):
    """The truth, with the operator's observations and actions."""

    # --- what the operator sees --------------------------------------------------------------

    def look(self) -> Observation:
        """Return an observation that is true now."""
        observation = self._look()
        grows = why_deferred(observation, self.spec.voters) is None
        current = self.least(grows=self.budget_grows)
        if observation.quorum is None or self.least(grows=grows) == current:
            return observation
        return replace(observation, outdated=(ObjectRef("PodDisruptionBudget", "demo"),))

    def _look(self) -> Observation:
        return Observation(
            namespace="test",
            name="demo",
            uid=self.uid,
            engine=self.engine,
            statefulset=None
            if self.replicas is None
            else StatefulSet(
                self.statefulset_uid,
                str(self.version),
                self.replicas,
                revision=str(self.revision) if self.seen_version == self.version else None,
                owner_uid=self.uid,
                records=tuple(sorted(self.records.items(), key=lambda item: item[0])),
                given_up=tuple(
                    (n, tuple(GivenUp(uid, self.now_ms - at, unused) for at, uid, unused in notes))
                    for n, notes in sorted(self.given_up.items())
                ),
                deferral=self.deferral,
            ),
            pods=tuple(self._pod(n) for n in sorted(self.runners)),
            claims=tuple(self._claim(n) for n in sorted(self.disks)),
            nodes=tuple(node for n in sorted(self.runners) if (node := self._node(n))),
            quorum=self._answer(),
            latch=self.latch,
            budget=Budget(
                "pdb",
                self.budget_counted,
                self.budget_mark,
                self.evictions_allowed,
                self.budget_healthy,
                tuple(f"demo-{n}" for n in sorted(self.budget_pods)),
                str(self.budget_version),
            ),
            remembered_cluster_id=self.remembered_cluster_id,
            refused_growths=tuple(sorted(self.refused_growths.items())),
            troubles=tuple(
                self._trouble(n) for n, runner in sorted(self.runners.items()) if not runner.placed
            ),
        )

    def _trouble(self, ordinal: int) -> Trouble:
        waits_ms = self.runners[ordinal].unready_ticks * TICK_MS
        return Trouble(ordinal, f"pod demo-{ordinal}", "Unschedulable", "no machine", waits_ms)

    def _pod(self, ordinal: int) -> Pod:
        runner = self.runners[ordinal]
        return Pod(
            name=f"demo-{ordinal}",
            uid=runner.uid,
            ordinal=ordinal,
            phase="Running" if runner.runs else "Pending",
            ready=self.is_ready(ordinal),
            terminating=runner.terminating,
            address=f"10.0.0.{ordinal}",
            counted=ordinal in self.budget_pods,
            revision=str(runner.revision),
            running=runner.runs,
            version=f"{runner.uid}.{runner.version}",
            restarts=runner.restarts,
            exit_code=runner.exit_code,
            age_ms=60_000,
            unready_ms=runner.unready_ticks * TICK_MS,
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
            version=str(disk.version),
            requested_bytes=disk.requested_gib << 30,
            capacity_bytes=disk.capacity_gib << 30,
            resize="" if self.driver_expands else "ControllerResizeError: the driver fails",
        )

    def _node(self, ordinal: int) -> Node | None:
        disk, runner = self.disks.get(ordinal), self.runners[ordinal]
        if disk is None or disk.directory_id is None or not runner.runs:
            return None
        replica = ReplicaId(ordinal, disk.directory_id)
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

    def _progress(self, replica: ReplicaId) -> Progress:
        heard = self.heard_ms.get(replica)
        return Progress(
            replica=replica,
            caught_up=self.is_fresh(replica) and (heard is not None or replica == self.leader),
            silent_since_ms=None if replica == self.leader else (heard or 0),
        )

    def _answer(self) -> Quorum | None:
        """What the leader answers, or one that is cut off and does not know it."""
        return self.last_answer if self.now_ms < self.cut_off_until_ms else self._quorum()

    def cut_off(self, ticks: int) -> None:
        """The leader is cut off from the other replicas, and not from the operator.

        Our own node answers nothing then: it has a majority confirm each answer.
        """
        answer = self._quorum()
        if answer is not None and not self.engine.leader_checks_changes:
            self.last_answer = replace(answer, confirmed=False)
            self.cut_off_until_ms = self.now_ms + ticks * TICK_MS

    def _quorum(self) -> Quorum | None:
        if self.leader is None or not self.is_alive(self.leader) or not self.has_quorum():
            return None
        observers = [
            ReplicaId(n, disk.directory_id)
            for n, disk in sorted(self.disks.items())
            if disk.directory_id and self.is_alive(ReplicaId(n, disk.directory_id))
        ]
        cluster_id = self.disks[self.leader.node_id].cluster_id
        assert cluster_id is not None
        # Two answers of Kafka's confirm that the voter set of both is committed, and nothing else
        # does. It reports neither the record nor a change under way.
        names_record = self.engine.leader_checks_changes
        return Quorum(
            cluster_id=cluster_id,
            leader=self.leader,
            epoch=self.epoch,
            high_watermark=self.high_watermark,
            voters=tuple(self._progress(voter) for voter in self.voters),
            committed=tuple(self.committed_voters if names_record else self.voters),
            basis=self._basis(),
            record_committed=not self.is_changing,
            observers=tuple(self._progress(o) for o in observers if o not in self.voters),
            pending=PendingChange("remove", self.replaces, appended=False, waiting_for="commit")
            if self.replaces
            else None,
            formation_completed=self.high_watermark > 0,
            epoch_committed=self.high_watermark > 0,
            confirmed=names_record or not self.is_changing,
        )

    def _basis(self) -> Basis:
        """What the engine checks a voter change by."""
        if self.engine.leader_checks_changes:
            return self.record
        assert self.leader is not None
        return DescribedVoters(self.leader, self.epoch, tuple(self.voters))

    # --- what the operator does --------------------------------------------------------------

    def step(self) -> Decision:
        """Observe, decide and act once."""
        observation = self.look()
        decision = decide(self.spec, observation, self.now_ms)
        if observation.latch is not None:
            self.remembered_cluster_id = observation.latch.cluster_id
        if not isinstance(decision, Wait | Done):
            self.act(decision, stale=False)
        return decision

    def act(self, action: actions.Action, *, stale: bool) -> None:
        """Carry an action out, with its preconditions, and check it against the truth.

        Args:
            action: what was decided.
            stale: decided on an older observation, by an operator that was stopped since.
        """
        self.changes.append(("late " if stale else "") + actions.describe(action))
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
                self._change_voters(action, stale=stale)
            case actions.MoveLeadership(leader, preferred):
                assert self.engine.moves_leadership, "no such request"
                if self.leader == leader and self.is_fresh(preferred):
                    self.leader, self.epoch = preferred, self.epoch + 1
                    self._append(preferred, 1)
            case actions.CountPod(pod, voter, version):
                if version == str(self.budget_version):
                    change = self.budget_pods.add if voter else self.budget_pods.discard
                    change(_ordinal(pod))
                    self.count_budget()
            case actions.RecountBudget(_, mark):
                if mark != self.budget_mark:
                    self.budget_mark = mark
                    self.count_budget()
            case actions.DeleteClaim() | actions.DeletePod():
                self._delete(action, stale=stale)
            case actions.EvictPod(pod, uid):
                ordinal = _ordinal(pod)
                runner = self.runners.get(ordinal)
                if runner is not None and runner.uid == uid and self.may_evict(ordinal):
                    self._check_loss(ordinal, stale=stale)
                    self._check_roll(ordinal, runner, stale=stale)
                    runner.terminating = True
            case actions.SetClaimOwner(claim, uid):
                disk = self.disks.get(_ordinal(claim))
                if disk is not None and disk.claim_uid == uid:
                    disk.owner_uid = self.uid
            case actions.RecordClaims():
                self._record(action)
            case actions.GrowClaim():
                self._grow(action, stale=stale)
            case actions.ApplyObjects():
                self.budget_grows = why_deferred(self.look(), self.spec.voters) is None
                self.count_budget()
            case (
                actions.DeleteStatefulSet()
                | actions.DeleteLatch()
                | actions.CreateAuthority()
                | actions.DeleteIssued()
                | actions.ChangeAuthority()
                | actions.IssueCertificates()
                | actions.DeleteAuthority()
            ):
                raise AssertionError(f"nothing asked for {action}")

    def _set_replicas(self, action: actions.SetReplicas) -> None:
        if (action.uid, action.resource_version) != (self.statefulset_uid, str(self.version)):
            return
        highest = max((v.node_id for v in (*self.voters, *self.committed_voters)), default=-1)
        assert action.replicas > highest, "S25: a voter would lose its pod"
        self.replicas, self.version = action.replicas, self.version + 1
        self.deferral = action.deferral

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

    def _change_voters(
        self, action: actions.AddVoter | actions.RemoveVoter, *, stale: bool
    ) -> None:
        checks = self.engine.leader_checks_changes
        if not checks:
            # The operator does it instead, however late it is (`execute/voters.py`).
            if decide(self.spec, self.look(), self.now_ms) != action:
                return
            stale = False
        if self.leader is None or action.basis != self._basis():
            assert stale, "S11: a change was asked of another set than the one in force"
            return
        if self.is_changing or self.replaces:
            assert stale, "P31: two voter changes at a time"
            return
        if isinstance(action, actions.AddVoter):
            if not self.is_fresh(action.replica):
                assert checks, "a replica that lags becomes a voter"
                return  # the leader waits for an observer to catch up, then gives up
            if self.engine.one_voter_per_id and any(
                voter.node_id == action.replica.node_id for voter in self.voters
            ):
                return  # DUPLICATE_VOTER
            alive = sum(1 for voter in self.voters if self.is_alive(voter)) + 1
            assert stale or alive >= majority(len(self.voters) + 1), "an add that cannot commit"
            self._change([*self.voters, action.replica])
            self.replaces = action.replaces
            return
        assert stale or self.budget_counted <= self._selected(), "S22: a stale budget"
        survivors = [voter for voter in self.voters if voter != action.replica]
        fresh = sum(
            1 for voter in survivors if self.is_fresh(voter) and voter not in self.distrusted
        )
        assert stale or fresh >= majority(len(survivors)), "S23: survivors are no majority"
        if checks and fresh < majority(len(survivors)):
            return  # the leader waits for them, then gives up
        self._change(survivors)

    def _delete(self, action: actions.DeleteClaim | actions.DeletePod, *, stale: bool) -> None:
        if isinstance(action, actions.DeletePod):
            runner = self.runners.get(_ordinal(action.pod))
            if runner is None or runner.uid != action.uid:
                return
            if action.version not in {None, f"{runner.uid}.{runner.version}"}:
                return  # conflict: it has started, or ended, since
            ready = self.is_ready(_ordinal(action.pod))
            assert action.version is None or not ready, "a pod that is ready"
            self._check_loss(_ordinal(action.pod), stale=stale)
            self._check_roll(_ordinal(action.pod), runner, stale=stale)
            runner.terminating = True
            return
        ordinal = _ordinal(action.claim)
        disk = self.disks.get(ordinal)
        if disk is None or disk.claim_uid != action.uid:
            return
        replica = ReplicaId(ordinal, disk.directory_id or "")
        if replica not in self.distrusted:
            fresh = replica in self.voters and self.is_fresh(replica)
            assert stale or not fresh, "a well disk"
            returns = replica in self.voters and not disk.corrupt
            assert stale or not returns, "a voter's disk that may return"
        if action.gives_up is not None:
            noted = (self.now_ms, disk.claim_uid, disk.record is None)
            self.given_up.setdefault(ordinal, []).append(noted)
        disk.terminating = True

    def _record(self, action: actions.RecordClaims) -> None:
        for _, ordinal, record in action.claims:
            disk = self.disks.get(ordinal)
            if disk is None or disk.claim_uid != record.claim_uid:
                return  # conflict: the rest of the action is not done
            disk.record = record
            if action.statefulset_uid == self.statefulset_uid:
                self.records[ordinal] = record
            assert ReplicaId(ordinal, record.directory_id) not in self.copied, "S3: a copy recorded"

    def _grow(self, action: actions.GrowClaim, *, stale: bool) -> None:
        disk = self.disks.get(_ordinal(action.claim))
        if disk is None or (disk.claim_uid, str(disk.version)) != (action.uid, action.version):
            return  # conflict
        if not self.class_expands:
            self.refused_growths[disk.claim_uid] = "the class does not allow it"
            return
        wanted_gib = size_bytes(action.size) >> 30
        assert wanted_gib > disk.requested_gib, "a claim that does not grow"
        assert disk.owner_uid == self.uid or stale, "a claim of another owner"
        growing = [d for d in self.disks.values() if d.capacity_gib < d.requested_gib]
        well = [d for n, d in self.disks.items() if self._is_well(n)]
        others = [d for d in self._in_use(growing) if d in well]
        assert stale or disk not in well or not others, "two voters' volumes that grow at a time"
        disk.requested_gib, disk.version = wanted_gib, disk.version + 1

    def _is_well(self, ordinal: int) -> bool:
        """Whether the quorum stands on it: a caught-up voter; without a leader, a ready one."""
        replica = ReplicaId(ordinal, self.disks[ordinal].directory_id or "")
        if self.leader is None:
            return ordinal in self.runners and self.is_ready(ordinal)
        return replica in self.voters and self.is_fresh(replica)

    def _in_use(self, disks: list[Disk]) -> list[Disk]:
        ours = [self.disks[n] for n in range(self.replicas or 0) if n in self.disks]
        return [d for d in disks if d in ours and d.owner_uid == self.uid and not d.terminating]

    def _check_loss(self, ordinal: int, *, stale: bool) -> None:
        """Ending a pod must leave a majority, if its replica counts now."""
        disk = self.disks.get(ordinal)
        replica = ReplicaId(ordinal, disk.directory_id or "") if disk else None
        if stale or replica is None or replica not in self.voters or not self.is_alive(replica):
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

    def _check_roll(self, ordinal: int, runner: Runner, *, stale: bool) -> None:
        """A healthy pod is restarted for its template alone, while all others are well."""
        disk = self.disks.get(ordinal)
        replica = ReplicaId(ordinal, disk.directory_id or "") if disk else None
        outdated = runner.revision != self.revision and disk is not None and not disk.terminating
        if stale or not outdated or replica in self.distrusted or replica not in self.voters:
            return
        if self.is_fresh(replica):
            if self.engine.moves_leadership:
                assert replica != self.leader or len(self.voters) == 1, "the leader was not moved"
            late_ones = [voter for voter in self.voters if not self.is_fresh(voter)]
            assert not late_ones, "two voters away for a new template"
            waiting = [other for other in self.runners.values() if not other.placed]
            assert not waiting, "a pod that waits for room would take the voter's"


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])
