"""The alerts: what needs a person at once, or at least in the morning.

`critical`: writes have stopped, or one more fault stops them, or no operator runs. `warning`: the
operator is on it, or there is time. Each lasts long enough that what the operator repairs by
itself in its usual time fires no alert. Each has a runbook, named after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

RUNBOOKS = "https://github.com/kraftquorum/kraftquorum/blob/main/docs/operations/runbooks"
"""Where the runbooks are read; the chart can put another place here."""

WHICH = "Quorum {{ $labels.namespace }}/{{ $labels.quorum }}"
OF_QUORUM = "of quorum {{ $labels.namespace }}/{{ $labels.quorum }}"
NODE = f"Node {{{{ $labels.node_id }}}} {OF_QUORUM}"
PEER = f"Replica {{{{ $labels.peer_id }}}}-{{{{ $labels.peer_directory_id }}}} {OF_QUORUM}"
BY_QUORUM = "by (namespace, quorum)"
BY_PEER = "by (namespace, quorum, peer_id, peer_directory_id)"


def kebab(name: str) -> str:
    """An alert's name as its runbook's file name."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: in CamelCase.
        severity: who is called.
        expression: PromQL; it fires for each series that this has.
        lasts: for how long before it fires, in Prometheus' notation.
        summary: one line for the pager.
        description: what it means and what is known, with the value.
    """

    name: str
    severity: Literal["critical", "warning"]
    expression: str
    lasts: str
    summary: str
    description: str

    @property
    def runbook_url(self) -> str:
        """Where its runbook is read."""
        return f"{RUNBOOKS}/{kebab(self.name)}.md"


ALERTS: tuple[Alert, ...] = (
    Alert(
        "KraftquorumQuorumLost",
        "critical",
        f"max {BY_QUORUM} (kraftquorum_quorum_lost) == 1",
        "1m",
        f"{WHICH} has lost the storage of a majority of its voters",
        "Nothing commits and the operator does nothing by itself: a person must decide which "
        "replica goes on.",
    ),
    Alert(
        "KraftquorumNoLeader",
        "critical",
        """
quorum:kraftquorum_has_leader:bool == 0
unless on (namespace, quorum)
  max by (namespace, quorum) (kraftquorum_operations{operation="Formation"})
""",
        "1m",
        f"{WHICH} has no leader that a majority confirms",
        "Writes have stopped for a minute. An election takes seconds: a majority of the voters "
        "is down or cannot reach each other.",
    ),
    Alert(
        "KraftquorumLeaderFlapping",
        "warning",
        "changes(quorum:raftnode_epoch:max[15m]) >= 4",
        "1m",
        f"{WHICH} elects again and again",
        "{{ $value }} new epochs in a quarter of an hour; each election holds writes up. Mostly a "
        "slow disk, a busy CPU or a lossy network.",
    ),
    Alert(
        "KraftquorumNoFaultTolerance",
        "critical",
        """
min by (namespace, quorum) (
  quorum:raftnode_fault_tolerance:min or max by (namespace, quorum) (kraftquorum_fault_tolerance)
) <= 0
and on (namespace, quorum)
  quorum:kraftquorum_voters_wanted:max > 2
unless on (namespace, quorum)
  max by (namespace, quorum) (kraftquorum_operations{operation="Formation"})
""",
        "5m",
        f"{WHICH} stops at the next fault",
        "No further voter may fail: so many are down that the rest is just a majority, or less.",
    ),
    Alert(
        "KraftquorumFaultToleranceReduced",
        "warning",
        """
clamp_min(
  quorum:raftnode_fault_tolerance:min or max by (namespace, quorum) (kraftquorum_fault_tolerance), 0
) < floor((quorum:kraftquorum_voters_wanted:max - 1) / 2)
""",
        "10m",
        f"{WHICH} tolerates fewer faults than its spec allows",
        "{{ $value }} more voters may fail. A voter is down or has not caught up for ten minutes.",
    ),
    Alert(
        "KraftquorumVotersUnlikeSpec",
        "warning",
        f"max {BY_QUORUM} (kraftquorum_voters_unlike_spec) > 0",
        "15m",
        f"{WHICH} has other voters than its spec wants",
        "{{ $value }} voters are missing, not wanted, or twice there. The operator should have "
        "changed that by now.",
    ),
    Alert(
        "KraftquorumVoterStale",
        "warning",
        f'min {BY_PEER} (raftnode_peer_fetch_age_seconds{{peer_role="voter"}}) > 60',
        "1m",
        f"{PEER} does not fetch",
        "The leader has not heard from this voter for {{ $value | humanizeDuration }}. Every "
        "other fault now counts double.",
    ),
    Alert(
        "KraftquorumReplacementWindowOpen",
        "critical",
        f"""
max {BY_QUORUM} (kraftquorum_replacements_open) > 0
or
max {BY_QUORUM} (
  count by (namespace, quorum, node_id, peer_id) (raftnode_peer_caught_up{{peer_role="voter"}})
) > 1
""",
        "5m",
        f"{WHICH} has a lost voter and its replacement in the set at once",
        "Until the lost voter is removed, the permanent loss of the new disk loses the quorum, "
        "though all other voters are healthy. A replacement should take seconds.",
    ),
    Alert(
        "KraftquorumReplicaNotCatchingUp",
        "warning",
        f"""
max {BY_PEER} (raftnode_peer_caught_up) == 0
and
min {BY_PEER} (raftnode_peer_fetch_age_seconds) < 30
""",
        "10m",
        f"{PEER} fetches but does not catch up",
        "The replica does not count towards a majority that would survive a failure. The usual "
        "causes are a slow disk or network, and more writes than the replica can take.",
    ),
    Alert(
        "KraftquorumHighWatermarkStuck",
        "critical",
        """
(
  min_over_time(raftnode_appends_pending[2m]) > 0
and
  changes(raftnode_high_watermark[2m]) == 0
)
and on (namespace, quorum, node_id)
  raftnode_current_state{raftnode_current_state="leader"} == 1
""",
        "1m",
        f"{WHICH} commits nothing while writes wait",
        "{{ $value }} writes wait at node {{ $labels.node_id }}, which leads, and the high "
        "watermark does not move: no majority is fsyncing.",
    ),
    Alert(
        "KraftquorumFsyncSlow",
        "warning",
        "node:raftnode_fsync_seconds:p99_5m > 0.5",
        "10m",
        f"{NODE} has a slow disk",
        "One in a hundred fsyncs takes {{ $value | humanizeDuration }}. Writes are as slow as the "
        "slower half of the voters.",
    ),
    Alert(
        "KraftquorumDiskNearlyFull",
        "warning",
        """
node:raftnode_disk_free:ratio < 0.15
or
min by (namespace, quorum, node_id) (raftnode_disk_free_bytes / raftnode_disk_reserve_bytes) < 4
  and node:raftnode_disk_free:ratio < 0.5
""",
        "5m",
        f"{NODE} runs out of disk",
        "Less than 15 % of the disk is free, or less than half of it and than four times the "
        "reserve. A leader "
        "without space hands over; when no voter has any, writes are refused.",
    ),
    Alert(
        "KraftquorumLogOutgrowsDisk",
        "warning",
        """
max by (namespace, quorum) (kraftquorum_condition{condition="LogOutgrowsDisk"}) == 1
and on (namespace, quorum)
  min by (namespace, quorum) (node:raftnode_disk_free:ratio) < 0.5
""",
        "15m",
        f"{WHICH} fills its disks and nothing stops it",
        "No setting keeps the log smaller than its volumes, and half of one is used. When they "
        "are full, writes are refused. spec.config.log_retention_bytes bounds the log.",
    ),
    Alert(
        "KraftquorumDiskFull",
        "critical",
        """
min by (namespace, quorum, node_id) (raftnode_disk_free_bytes and raftnode_disk_low == 1)
""",
        "1m",
        f"{NODE} has used up its disk",
        "{{ $value | humanize1024 }}B are free. Below the reserve a node takes no writes as "
        "leader, until twice the reserve is free. What is committed is safe.",
    ),
    Alert(
        "KraftquorumDiskFailing",
        "warning",
        f"""
max {BY_QUORUM} (kraftquorum_pods_storage_failing) > 0
or
max {BY_QUORUM} (kraftquorum_voters_storage_gone) > 0
""",
        "2m",
        f"{WHICH} has a replica whose disk fails or is gone",
        "A node ended because of its disk, or its storage is lost, and it is not replaced yet.",
    ),
    Alert(
        "KraftquorumScrubFoundRot",
        "warning",
        "max by (namespace, quorum, node_id) (raftnode_storage_damaged) > 0",
        "1m",
        f"{NODE} has rot on its disk",
        "The scrub read {{ $value }} damaged places in the log or a snapshot. Nothing that is "
        "committed is lost while a majority has it; this replica has to be replaced.",
    ),
    Alert(
        "KraftquorumSnapshotTooOld",
        "warning",
        """
time() - max by (namespace, quorum, node_id) (
  raftnode_snapshot_made_timestamp_seconds > 0 or process_start_time_seconds{quorum!=""}
) > 4 * 3600
and on (namespace, quorum, node_id)
max by (namespace, quorum, node_id) (
  raftnode_high_watermark - raftnode_snapshot_end_offset > 1000
)
""",
        "10m",
        f"{NODE} has not made a snapshot for {{{{ $value | humanizeDuration }}}}",
        "Starts get longer and the log cannot be trimmed. One is due every hour by default; it "
        "is left out when the disk has no room for it.",
    ),
    Alert(
        "KraftquorumSnapshotHasNoRoom",
        "warning",
        "max by (namespace, quorum, node_id) (raftnode_snapshot_room_missing_bytes) > 0",
        "15m",
        f"{NODE} has no room for a snapshot",
        "A snapshot is due and lacks {{ $value | humanize1024 }}B. Until there is room none is "
        "made, starts get longer, and no log is trimmed behind one.",
    ),
    Alert(
        "KraftquorumOperatorDown",
        "critical",
        "absent(kraftquorum_operator_active == 1)",
        "5m",
        "No kraftquorum operator is active",
        "Quorums go on serving, but no operator replaces a lost disk. Or Prometheus does not reach "
        "the operator's metrics.",
    ),
    Alert(
        "KraftquorumOperatorNotLooking",
        "warning",
        f"""
(
  time() - max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds) > 300
  unless on (namespace, quorum)
  time() - max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds)
    < on () group_left () 3 * max(kraftquorum_operator_reconcile_idle_seconds)
)
or
(
  quorum:raftnode_epoch:max * 0
  unless on (namespace, quorum)
  max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds)
)
and on () max(kraftquorum_operator_active) == 1
""",
        "2m",
        f"{WHICH} is not looked at by any operator",
        "The active operator looks every ten seconds even when nothing is to be done. It has not "
        "for minutes, or it does not look after this quorum's namespace.",
    ),
    Alert(
        "KraftquorumReconcileFailing",
        "warning",
        f"""
max {BY_QUORUM} (kraftquorum_condition{{condition="Failing"}}) == 1
or
sum {BY_QUORUM} (rate(kraftquorum_reconciles_total{{result="error"}}[5m]))
  > 0.5 * sum {BY_QUORUM} (rate(kraftquorum_reconciles_total{{result!="standby"}}[5m]))
""",
        "10m",
        f"{WHICH} cannot be managed: what the operator asks for fails",
        "The API server or a node refuses it, or does not answer. The condition Failing says "
        "which request and why.",
    ),
    Alert(
        "KraftquorumOperationStuck",
        "warning",
        """
max by (namespace, quorum, operation, step) (kraftquorum_operations) > 0
unless on (namespace, quorum, operation, step)
  max by (namespace, quorum, operation, step) (changes(kraftquorum_operations[5m])) > 0
unless on (namespace, quorum)
  max by (namespace, quorum) (kraftquorum_condition{condition="Paused"}) == 1
""",
        "30m",
        f"{WHICH}: {{{{ $labels.operation }}}} stands at step {{{{ $labels.step }}}}",
        "Half an hour at one step. status.waitingFor names the guard that holds it back, if one "
        "does.",
    ),
    Alert(
        "KraftquorumGuardBlocking",
        "warning",
        'max by (namespace, quorum, guard) (kraftquorum_blocked{guard!="not_paused"}) == 1',
        "15m",
        f"{WHICH} waits for {{{{ $labels.guard }}}}",
        "A guard has held the operator back for a quarter of an hour; docs/reference/guards.md "
        "says what it asks for.",
    ),
    Alert(
        "KraftquorumPaused",
        "warning",
        f'max {BY_QUORUM} (kraftquorum_condition{{condition="Paused"}}) == 1',
        "4h",
        f"{WHICH} is paused",
        "spec.pause has been set for four hours: nothing is repaired until it is taken off.",
    ),
)
