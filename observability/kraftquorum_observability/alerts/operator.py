"""Whether the operator runs, reconciles, and finishes what it began."""

from __future__ import annotations

from kraftquorum_observability.labels import BY_QUORUM, ON_QUORUM, QUORUM_LABELS

from .alert import IN_CLUSTER, QUORUM_NAME, WHICH, Alert

UNHURRIED = "not_paused|volume_has_grown"
"""Guards that may block for hours: a pause, and a storage driver that expands large volumes."""

OPERATOR: tuple[Alert, ...] = (
    Alert(
        "KraftquorumOperatorDown",
        "critical",
        """
(
  group by (cluster) (kraftquorum_operator_active or quorum:raftnode_epoch:max)
  unless on (cluster)
  max by (cluster) (kraftquorum_operator_active) == 1
)
or
absent(kraftquorum_operator_active or quorum:raftnode_epoch:max)
""",
        "5m",
        f"No kraftquorum operator is active{IN_CLUSTER}",
        "Quorums continue to serve, but no operator replaces a lost disk. Or Prometheus cannot "
        "read the operator's metrics.",
    ),
    Alert(
        "KraftquorumOperatorNotReconciling",
        "warning",
        f"""
(
  time() - max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds) > 300
  unless {ON_QUORUM}
  time() - max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds)
    < on (cluster) group_left ()
      3 * max by (cluster) (kraftquorum_operator_reconcile_idle_seconds)
)
or
(
  quorum:raftnode_epoch:max * 0
  unless {ON_QUORUM}
  max {BY_QUORUM} (kraftquorum_last_reconcile_timestamp_seconds)
)
and on (cluster) max by (cluster) (kraftquorum_operator_active) == 1
""",
        "2m",
        f"No operator reconciles quorum {QUORUM_NAME}",
        "The active operator reconciles each quorum every ten seconds, even if nothing is left to "
        "do. It has not done so for minutes, or it does not watch this quorum's namespace.",
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
        f"The operator's requests for quorum {QUORUM_NAME} fail",
        "The API server or a node refuses a request of the operator, or does not answer it. The "
        "condition Failing says which request and why.",
    ),
    Alert(
        "KraftquorumCertificatesFailing",
        "warning",
        f"""
max {BY_QUORUM} (kraftquorum_condition{{condition="CertificatesFailing"}}) == 1
""",
        "5m",
        f"The certificates of quorum {QUORUM_NAME} cannot be used, or expire soon",
        "The operator refuses the Secret that spec.tls names, cannot read it, or has not renewed a "
        "certificate whose last sixth has begun, or the nodes trust a CA that has expired. Nodes "
        "refuse expired certificates of each other. The condition CertificatesFailing says which "
        "and why.",
    ),
    # As the alert of the Kubernetes mixin for clients, with more room for few requests.
    Alert(
        "KraftquorumKubernetesErrors",
        "warning",
        """
sum by (cluster) (
  rate(kraftquorum_api_requests_total{server="kubernetes", result=~"5xx|429|unreachable"}[5m])
)
  / sum by (cluster) (rate(kraftquorum_api_requests_total{server="kubernetes"}[5m])) > 0.05
""",
        "15m",
        f"The API server fails the kraftquorum operator{IN_CLUSTER}",
        "{{ $value | humanizePercentage }} of the operator's requests to the API server fail, get "
        "no answer or are refused with status 429. Repairs take longer or stop.",
    ),
    Alert(
        "KraftquorumOperationStuck",
        "warning",
        f"""
max by ({QUORUM_LABELS}, operation, step) (kraftquorum_operations) > 0
unless on ({QUORUM_LABELS}, operation, step)
  max by ({QUORUM_LABELS}, operation, step) (changes(kraftquorum_operations[5m])) > 0
unless {ON_QUORUM}
  max {BY_QUORUM} (kraftquorum_condition{{condition="Paused"}}) == 1
""",
        "30m",
        f"{WHICH}: {{{{ $labels.operation }}}} stays at step {{{{ $labels.step }}}}",
        "The operation has been at this step for half an hour. If a guard holds it back, "
        "status.waitingFor names that guard.",
    ),
    Alert(
        "KraftquorumGuardBlocking",
        "warning",
        f'max by ({QUORUM_LABELS}, guard) (kraftquorum_blocked{{guard!~"{UNHURRIED}"}}) == 1',
        "15m",
        f"{WHICH} waits for {{{{ $labels.guard }}}}",
        "A guard has held the operator back for a quarter of an hour. docs/reference/guards.md "
        "says what the guard needs.",
    ),
    Alert(
        "KraftquorumPaused",
        "warning",
        f'max {BY_QUORUM} (kraftquorum_condition{{condition="Paused"}}) == 1',
        "4h",
        f"{WHICH} is paused",
        "spec.pause has been set for four hours. The operator repairs nothing until you remove it.",
    ),
)
