"""Whether nodes run, answer, keep up and understand each other."""

from __future__ import annotations

from kraftquorum_observability.labels import (
    BY_NODE,
    BY_PEER,
    BY_QUORUM,
    NODE_LABELS,
    ON_QUORUM,
    QUORUM_LABELS,
)

from .alert import NODE, NODE_UP, OF_QUORUM, PEER, Alert

# A quorum may keep an older image, whose nodes know only when the certificate itself expires, and
# of all CAs the first that does.
ACCEPTED_UNTIL = (
    "raftnode_tls_certificate_accepted_until_timestamp_seconds"
    " or raftnode_tls_certificate_expiry_timestamp_seconds"
)

NODES: tuple[Alert, ...] = (
    Alert(
        "KraftquorumVoterStale",
        "warning",
        f'min {BY_PEER} (raftnode_peer_fetch_age_seconds{{peer_role="voter"}}) > 60',
        "1m",
        f"{PEER} does not fetch",
        "The leader has not heard from this voter for {{ $value | humanizeDuration }}. The quorum "
        "tolerates one failure less until the voter fetches again.",
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
    # Three scrapes at the longest interval that the rules allow for, and two minutes more.
    Alert(
        "KraftquorumTargetDown",
        "warning",
        f"""
max {BY_NODE} ({NODE_UP}) == 0
or
max {BY_QUORUM} (kraftquorum_voters_wanted)
  unless {ON_QUORUM} {NODE_UP}
  unless {ON_QUORUM} kraftquorum_operations{{operation="Formation"}}
""",
        "5m",
        "{{ with $labels.node_id }}Node {{ . }}{{ else }}Every node{{ end }} "
        f"{OF_QUORUM} gives Prometheus no metrics",
        "The pod runs and its metrics cannot be read, or Prometheus has no target for any node of "
        "the quorum. Alerts and dashboards do not see what happens there.",
    ),
    # A replaced disk restarts a node twice, an upgrade and a change of settings once each. A
    # container that fails at once is started more than ten times in an hour.
    Alert(
        "KraftquorumNodeRestarting",
        "warning",
        "changes(node:raftnode_start_timestamp_seconds:max[1h]) >= 5",
        "1m",
        f"{NODE} restarts again and again",
        "The node has started {{ $value }} times in an hour. The exit code of its last container "
        "and the last lines of its log have the reason.",
    ),
    # Six in a minute for ten minutes: no client that is only slow or unlucky.
    Alert(
        "KraftquorumClientsRefused",
        "warning",
        f"""
sum by ({NODE_LABELS}, limit) (rate(raftnode_client_refusals_total[5m])) > 0.1
""",
        "10m",
        f"{NODE} refuses clients by its limit {{{{ $labels.limit }}}}",
        "For ten minutes the node has refused or cut off {{ $value | humanize }} connections, "
        "requests or sessions a second. A client floods the node, or the limit is too low for the "
        "number of clients.",
    ),
    # A certificate that is renewed in time is renewed at two thirds of its life. A CA's end is
    # known for long, and its replacement takes several steps.
    Alert(
        "KraftquorumCertificateExpiring",
        "warning",
        f"""
(min by ({NODE_LABELS}, listener) ({ACCEPTED_UNTIL}) - time() > 0)
  < min by ({NODE_LABELS}, listener) (raftnode_tls_certificate_lifetime_seconds) / 10
or
(min by ({NODE_LABELS}, listener, ca) (raftnode_tls_ca_expiry_timestamp_seconds) - time() > 0)
  < 7 * 86400
""",
        "5m",
        f"{NODE} has a certificate on its listener {{{{ $labels.listener }}}} that expires soon",
        "{{ with $labels.ca }}The CA {{ . }}, which the listener trusts,{{ else }}The certificate "
        "that the listener presents, or the CA above it,{{ end }} expires in "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "KraftquorumCertificateExpired",
        "critical",
        f"""
min by ({NODE_LABELS}, listener) ({ACCEPTED_UNTIL}) - time() < 0
or
max by ({NODE_LABELS}, listener) (raftnode_tls_ca_expiry_timestamp_seconds{{ca!=""}}) - time() < 0
""",
        "1m",
        f"{NODE} has an expired certificate on its listener {{{{ $labels.listener }}}}",
        "The certificate that the listener presents, the CA above it, or every CA that the "
        "listener trusts has expired. New connections with a certificate fail. Connections that "
        "are open go on until one end closes them.",
    ),
    # Certificates of the CAs that are left work. An expired CA that signed the node's own
    # certificate fires the alert above, too.
    Alert(
        "KraftquorumCaExpired",
        "warning",
        f"""
min by ({NODE_LABELS}, listener, ca) (raftnode_tls_ca_expiry_timestamp_seconds) - time() < 0
and on ({NODE_LABELS}, listener)
  max by ({NODE_LABELS}, listener) (raftnode_tls_ca_expiry_timestamp_seconds) - time() > 0
""",
        "5m",
        f"{NODE} trusts an expired CA on its listener {{{{ $labels.listener }}}}",
        "The CA {{ $labels.ca }} has expired, and the listener trusts another one that is valid. "
        "Certificates of the expired CA are refused. Once it has signed no certificate in "
        "use, remove it from the CA file.",
    ),
    Alert(
        "KraftquorumCertificateRefused",
        "warning",
        f"""
max by ({NODE_LABELS}, listener) (raftnode_tls_files_refused) == 1
""",
        "5m",
        f"{NODE} cannot use the new files of its listener {{{{ $labels.listener }}}}",
        "The node presents the certificate that it read before, until that one expires. The log "
        "event certificate_refused and GET /v1/node have the reason.",
    ),
    Alert(
        "KraftquorumAccessFileStale",
        "warning",
        f"max by ({NODE_LABELS}, file) (raftnode_access_file_stale) > 0",
        "5m",
        f"{NODE} cannot use its {{{{ $labels.file }}}}",
        "For five minutes the file has been unreadable or wrong, and an earlier content of it is "
        "in force: a client that was added cannot connect yet, and a token that was withdrawn "
        "still works. The node does not start with such a file. The log event access_file_refused "
        "names the field.",
    ),
    # Each lost line counts: what it said is in no other record of the quorum.
    Alert(
        "KraftquorumAuditLinesLost",
        "warning",
        f"""
max {BY_NODE} (increase(raftnode_audit_lines_lost_total[15m])) > 0
or max {BY_NODE} (min_over_time(raftnode_audit_lines_waiting[5m])) > 0
""",
        "1m",
        f"{NODE} loses lines of its audit log",
        "Within a quarter of an hour the file of audit_log did not take all lines, or lines have "
        "waited for it for five minutes: it cannot be written, hangs, or is slower than the lines "
        "come. Lines that wait are lost if the node ends. Once 1,024 lines wait, the node refuses "
        "administration with AUDIT_LOG_FULL.",
    ),
    # Half of the default election timeout.
    Alert(
        "KraftquorumEventLoopSlow",
        "warning",
        "node:raftnode_loop_lag_seconds:p99_5m > 0.5",
        "10m",
        f"{NODE} handles its events late",
        "One in a hundred timers of the node's event loop is {{ $value | humanizeDuration }} late. "
        "At the fetch timeout, 2 s by default, the other voters consider the node dead.",
    ),
    # Thirty in five minutes. A restart causes more, but for less than the rate's five minutes and
    # the time after them; a peer that is down has alerts of its own.
    Alert(
        "KraftquorumPeerRequestsFailing",
        "warning",
        f"""
sum by ({NODE_LABELS}, peer_id, reason) (rate(raftnode_peer_request_failures_total[5m])) > 0.1
and on ({QUORUM_LABELS}, peer_id)
  label_replace(raftnode_current_epoch, "peer_id", "$1", "node_id", "(.+)")
""",
        "10m",
        f"{NODE} gets no answers from peer {{{{ $labels.peer_id }}}}",
        "{{ $value | humanize }} requests a second fail for the reason {{ $labels.reason }}, "
        "although the peer runs. The network between the two loses packets, or the two do not "
        "agree.",
    ),
)
