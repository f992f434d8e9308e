"""Whether a quorum has a leader, commits, and may lose a voter."""

from __future__ import annotations

from kraftquorum_observability.labels import BY_QUORUM, ON_NODE, ON_QUORUM, QUORUM_LABELS

from .alert import WHICH, Alert

QUORUM: tuple[Alert, ...] = (
    Alert(
        "KraftquorumQuorumLost",
        "critical",
        f"max {BY_QUORUM} (kraftquorum_quorum_lost) == 1",
        "1m",
        f"{WHICH} has lost the storage of a majority of its voters",
        "The quorum commits no write, and the operator does nothing by itself. A person must "
        "decide from which replica the quorum continues.",
    ),
    Alert(
        "KraftquorumNoLeader",
        "critical",
        f"""
quorum:kraftquorum_has_leader:bool == 0
unless {ON_QUORUM}
  max {BY_QUORUM} (kraftquorum_operations{{operation="Formation"}})
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
        f"{WHICH} elects a leader again and again",
        "The quorum had {{ $value }} new epochs in a quarter of an hour, and each election delays "
        "writes. The usual causes are a slow disk, a busy CPU and a lossy network.",
    ),
    Alert(
        "KraftquorumNoFaultTolerance",
        "critical",
        f"""
min {BY_QUORUM} (
  quorum:raftnode_fault_tolerance:min or max {BY_QUORUM} (kraftquorum_fault_tolerance)
) <= 0
and {ON_QUORUM}
  quorum:kraftquorum_voters_wanted:max > 2
unless {ON_QUORUM}
  max {BY_QUORUM} (kraftquorum_operations{{operation="Formation"}})
""",
        "5m",
        f"{WHICH} stops at the next fault",
        "If one more voter fails, writes stop: so many voters are down that the rest is just a "
        "majority, or less.",
    ),
    Alert(
        "KraftquorumFaultToleranceReduced",
        "warning",
        f"""
clamp_min(
  quorum:raftnode_fault_tolerance:min or max {BY_QUORUM} (kraftquorum_fault_tolerance), 0
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
        "{{ $value }} voters are missing, not wanted, or listed twice. The operator should have "
        "changed the voters by now.",
    ),
    Alert(
        "KraftquorumReplacementWindowOpen",
        "critical",
        f"""
max {BY_QUORUM} (kraftquorum_replacements_open) > 0
or
max {BY_QUORUM} (
  count by ({QUORUM_LABELS}, node_id, peer_id) (raftnode_peer_caught_up{{peer_role="voter"}})
) > 1
""",
        "5m",
        f"{WHICH} has a lost voter and its replacement in the set at once",
        "Until the lost voter is removed, the permanent loss of the new disk loses the quorum, "
        "though all other voters are healthy. A replacement should take seconds.",
    ),
    Alert(
        "KraftquorumHighWatermarkStuck",
        "critical",
        f"""
(
  min_over_time(raftnode_appends_pending[2m]) > 0
and
  changes(raftnode_high_watermark[2m]) == 0
)
and {ON_NODE}
  raftnode_current_state{{raftnode_current_state="leader"}} == 1
""",
        "1m",
        f"{WHICH} commits nothing while writes wait",
        "{{ $value }} writes wait at node {{ $labels.node_id }}, which leads, and the high "
        "watermark does not move: no majority is fsyncing.",
    ),
    # Two fsyncs at the limit of KraftquorumFsyncSlow, and half of the default fetch timeout.
    Alert(
        "KraftquorumCommitSlow",
        "warning",
        "quorum:raftnode_commit_latency_seconds:p99_5m > 1",
        "10m",
        f"{WHICH} commits slowly",
        "One in a hundred batches waits {{ $value | humanizeDuration }} for its commit. Clients "
        "wait as long. The cause is a slow disk, network or CPU at a majority of the voters.",
    ),
    # Elections and restarts answer with 503 for seconds; twenty of a thousand are no accident.
    Alert(
        "KraftquorumApiErrors",
        "warning",
        f"""
sum {BY_QUORUM} (rate(raftnode_http_request_seconds_count{{path=~"/v1/.*", status=~"5.."}}[5m]))
  / sum {BY_QUORUM} (rate(raftnode_http_request_seconds_count{{path=~"/v1/.*"}}[5m])) > 0.02
and
sum {BY_QUORUM} (rate(raftnode_http_request_seconds_count{{path=~"/v1/.*", status=~"5.."}}[5m]))
  > 0.05
or
sum {BY_QUORUM} (rate(raftnode_session_operations_total{{outcome="unknown"}}[5m]))
  / sum {BY_QUORUM} (rate(raftnode_session_operations_total[5m])) > 0.02
and
sum {BY_QUORUM} (rate(raftnode_session_operations_total{{outcome="unknown"}}[5m])) > 0.05
""",
        "10m",
        f"{WHICH} answers requests with errors",
        "{{ $value | humanizePercentage }} of the requests to the API have failed with a status "
        "of 500 or above for ten minutes, or of the operations in sessions without a known "
        "outcome. An election takes seconds.",
    ),
    Alert(
        "KraftquorumApiThrottled",
        "warning",
        f"""
sum {BY_QUORUM} (rate(raftnode_http_request_seconds_count{{status="429"}}[5m]))
  / sum {BY_QUORUM} (rate(raftnode_http_request_seconds_count{{path=~"/v1/.*"}}[5m])) > 0.05
""",
        "10m",
        f"{WHICH} refuses writes because it is overloaded",
        "{{ $value | humanizePercentage }} of the requests to the API have got status 429 for ten "
        "minutes: clients write faster than a majority of the voters fsyncs.",
    ),
    # Such a voter counts as caught up in the nodes' own count of the faults that they tolerate.
    Alert(
        "KraftquorumVolumeFromCopy",
        "critical",
        f"""
max {BY_QUORUM} (kraftquorum_voters_on_copied_volumes) > 0
or
max {BY_QUORUM} (kraftquorum_condition{{condition="VolumeFromCopy"}}) == 1
""",
        "10m",
        f"{WHICH} has a voter on a volume that was restored from a copy",
        "Such a voter has forgotten votes and records that it acknowledged. The loss of another "
        "voter can now lose acknowledged writes. The operator has not replaced it in ten minutes.",
    ),
)
