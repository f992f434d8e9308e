"""The recording rules, and how rules become the file that Prometheus and the chart read.

Every series is by `cluster`, `namespace` and `quorum`; those of nodes by `node_id`, too. The
operator's own have namespace and quorum, scraped nodes get `node_id`, too, from their pods' labels
(see the chart's PodMonitor and docs/operations/monitoring.md); `cluster` comes from outside, if at
all. A series of a quorum is aggregated over the nodes and operators that report it, so that an
alert does not begin again when another node leads or the operator moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import yaml

from kraftquorum_observability.alerts import ALERTS, Alert
from kraftquorum_observability.labels import (
    BY_NODE,
    BY_QUORUM,
    NODE_LABELS,
    ON_NODE,
    QUORUM_LABELS,
)

NOTICE = "# Made by `make dashboards` from kraftquorum_observability; do not edit.\n"


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that is computed once and asked for often.

    Attributes:
        record: its name: level, what, operation.
        expression: PromQL.
    """

    record: str
    expression: str


def quantile(share: float, metric: str, by: str, window: str = "5m") -> str:
    """A quantile of a histogram, by labels, over a window."""
    return f"histogram_quantile({share}, sum by ({by}, le) (rate({metric}_bucket[{window}])))"


SAFE, REDUCED, BRITTLE, STOPPED, LOST = 4, 3, 2, 1, 0
"""Levels of safety, best first."""

LEADS = 'raftnode_current_state{raftnode_current_state="leader"} == 1'

HAS_LEADER = f"""
  (
    max {BY_QUORUM} (kraftquorum_condition{{condition="Available"}}) == 1
    and
    time() - max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds) < 60
  )
or
  clamp_max(quorum:raftnode_leaders:sum, 1)
or
  max {BY_QUORUM} (kraftquorum_condition{{condition="Available"}}) == 0
"""
"""1 if a node or the operator knows a leader, 0 if one of them is asked and none does.

Neither is always right that there is none: the leader's scrape may fail, and the operator may not
reach the nodes, or wait with `Available` for a leader whose disk is full. What the operator knew a
minute ago counts no more: its gauges stay as they were while it cannot look.
"""

SAFETY = f"""
  (max {BY_QUORUM} (kraftquorum_quorum_lost) == 1) * 0
or
  (quorum:kraftquorum_has_leader:bool == 0) * 0 + {STOPPED}
or
  (max {BY_QUORUM} (raftnode_disk_low and {ON_NODE} {LEADS}) == 1) * 0 + {STOPPED}
or
  (quorum:raftnode_fault_tolerance:min <= 0 and quorum:kraftquorum_voters_wanted:max > 2) * 0
    + {BRITTLE}
or
  (quorum:raftnode_fault_tolerance:min
    < floor((quorum:kraftquorum_voters_wanted:max - 1) / 2)) * 0 + {REDUCED}
or
  (max {BY_QUORUM} (kraftquorum_voters_unlike_spec) > 0) * 0 + {REDUCED}
or
  quorum:raftnode_fault_tolerance:min * 0 + {SAFE}
"""
"""From the nodes, who know first, and from the operator for what only it knows."""

RECORDINGS: tuple[Recording, ...] = (
    Recording(
        "quorum:raftnode_leaders:sum",
        f'sum {BY_QUORUM} (raftnode_current_state{{raftnode_current_state="leader"}})',
    ),
    Recording("quorum:raftnode_epoch:max", f"max {BY_QUORUM} (raftnode_current_epoch)"),
    Recording("quorum:raftnode_high_watermark:max", f"max {BY_QUORUM} (raftnode_high_watermark)"),
    Recording(
        "quorum:raftnode_voter_record_offset:max",
        f"max {BY_QUORUM} (raftnode_voter_record_offset)",
    ),
    Recording("quorum:raftnode_voters:max", f"max {BY_QUORUM} (raftnode_voters)"),
    Recording(
        "quorum:kraftquorum_voters_wanted:max",
        f"max {BY_QUORUM} (kraftquorum_voters_wanted) or quorum:raftnode_voters:max",
    ),
    Recording("quorum:kraftquorum_has_leader:bool", HAS_LEADER),
    Recording("quorum:raftnode_fault_tolerance:min", f"min {BY_QUORUM} (raftnode_fault_tolerance)"),
    Recording(
        "quorum:raftnode_follower_lag_records:max",
        f'max {BY_QUORUM} (raftnode_peer_lag_records{{peer_role="voter"}})',
    ),
    Recording(
        "quorum:raftnode_follower_lag_seconds:max",
        f'max {BY_QUORUM} (raftnode_peer_lag_seconds{{peer_role="voter"}})',
    ),
    Recording(
        "quorum:raftnode_committed_records:rate1m",
        f"max {BY_QUORUM} (clamp_min(deriv(raftnode_high_watermark[1m]), 0) and {ON_NODE} {LEADS})",
    ),
    Recording(
        "quorum:raftnode_commit_latency_seconds:p99_5m",
        quantile(0.99, "raftnode_commit_latency_seconds", QUORUM_LABELS),
    ),
    Recording(
        "node:raftnode_fsync_seconds:p99_5m",
        quantile(0.99, "raftnode_fsync_seconds", NODE_LABELS),
    ),
    Recording(
        "node:raftnode_loop_lag_seconds:p99_5m",
        quantile(0.99, "raftnode_loop_lag_seconds", NODE_LABELS),
    ),
    Recording(
        "node:raftnode_start_timestamp_seconds:max",
        f'max {BY_NODE} (process_start_time_seconds{{quorum!="", node_id!=""}})',
    ),
    Recording(
        "node:raftnode_disk_free:ratio",
        f"min {BY_NODE} (raftnode_disk_free_bytes / (raftnode_disk_size_bytes > 0))",
    ),
    Recording("quorum:kraftquorum_safety:level", SAFETY),
)


def rule_groups() -> dict[str, Any]:
    """Both groups of rules, as Prometheus reads them."""
    return {
        "groups": [
            {
                "name": "kraftquorum.recording",
                "rules": [
                    {"record": recording.record, "expr": recording.expression.strip("\n")}
                    for recording in RECORDINGS
                ],
            },
            {"name": "kraftquorum.alerts", "rules": [_alert(alert) for alert in ALERTS]},
        ]
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression.strip("\n"),
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": alert.runbook_url,
        },
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def rules_file() -> str:
    """The rules, as the file that is committed."""
    return NOTICE + yaml.dump(rule_groups(), Dumper=_Dumper, sort_keys=False, width=100)
