"""One node, or the nodes of one quorum side by side: is it the machine, the disk, the network?"""

from __future__ import annotations

from .parts import (
    BLUE,
    GREEN,
    NODES,
    ONE_QUORUM,
    RED,
    THIS_NODE,
    YELLOW,
    Annotation,
    Dashboard,
    Means,
    Panel,
    Query,
    quantiles,
)

N = THIS_NODE


def _by_node(metric: str, legend: str = "node {{node_id}}") -> Query:
    return Query(f"max by (node_id) ({metric}{{{N}}})", legend)


def _rate(metric: str, by: str, legend: str, extra: str = "") -> Query:
    selector = f"{N}{extra}"
    return Query(f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))", legend)


STATE = (
    Panel(
        "lanes",
        "Attached and caught up",
        "What readiness means, by the node's own word. Normal: green; a gap is a node that does "
        "not run.",
        (_by_node("raftnode_caught_up"),),
        width=16,
        height=6,
        values={1: Means("caught up", GREEN), 0: Means("not caught up", RED)},
    ),
    Panel(
        "table",
        "Storage and version",
        "The directory id and the program's version of each node. Normal: one version; another "
        "UUID means another disk.",
        (
            Query(f"max by (node_id, directory_id, version) (raftnode_replica_info{{{N}}})"),
            Query(f"max by (node_id) (raftnode_incarnation{{{N}}})"),
        ),
        width=8,
        height=6,
        columns={
            "node_id": "Node",
            "directory_id": "Storage UUID",
            "version": "Version",
            "B": "Starts",
        },
        sort="Node",
    ),
    Panel(
        "table",
        "Epoch, leader and vote",
        "What each node says itself; -1: none. Normal: one epoch and one leader. The votes of an "
        "epoch are for the leader, or for a candidate that lost.",
        (
            _by_node("raftnode_current_epoch"),
            _by_node("raftnode_current_leader"),
            _by_node("raftnode_current_vote"),
            Query(f"max by (node_id, directory_id) (raftnode_current_vote_directory_info{{{N}}})"),
            _by_node("raftnode_log_end_epoch"),
        ),
        width=24,
        height=5,
        columns={
            "node_id": "Node",
            "A": "Epoch",
            "B": "Leader",
            "C": "Vote",
            "directory_id": "Storage UUID of the vote",
            "E": "Epoch of the last record",
        },
        sort="Node",
    ),
)

LOOP = (
    Panel(
        "lines",
        "Event loop's lag, 99th percentile",
        "How late timers are. Normal: below 10 ms. Above an election timeout's share the node "
        "is taken for dead: look for a busy CPU.",
        (
            Query(
                "histogram_quantile(0.99, sum by (node_id, le) "
                f"(rate(raftnode_loop_lag_seconds_bucket{{{N}}}[$__rate_interval])))",
                "node {{node_id}}",
            ),
        ),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Event loop's idle share",
        "Share of the time in which the loop waited for work. Normal: above 0.5; near 0 it is the "
        "bottleneck.",
        (_by_node("raftnode_poll_idle_ratio"),),
        width=8,
        unit="percentunit",
    ),
    Panel(
        "lines",
        "Queues",
        "Events that wait for the core, and writes without an outcome. Normal: a few; above 4096 "
        "events peers' requests are dropped.",
        (
            _by_node("raftnode_event_queue", "events, node {{node_id}}"),
            _by_node("raftnode_appends_pending", "writes, node {{node_id}}"),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Bytes that wait",
        "At the leader: to be written, and appended but not committed. Normal: some KiB under "
        "writes; at append_queue_bytes and max_uncommitted_bytes clients get 429.",
        (
            _by_node("raftnode_append_queue_bytes", "to be written, node {{node_id}}"),
            _by_node("raftnode_uncommitted_bytes", "uncommitted, node {{node_id}}"),
        ),
        width=12,
        unit="bytes",
    ),
    Panel(
        "lines",
        "Oldest disk call, and the watchdog's limit",
        "How long the oldest call to the disk has not returned. Normal: below 10 ms; at the limit "
        "the watchdog stops the node.",
        (
            _by_node("raftnode_storage_operation_in_flight_seconds"),
            Query(f"max(raftnode_stall_timeout_seconds{{{N}}})", "limit"),
        ),
        width=12,
        unit="s",
    ),
)

API = (
    Panel(
        "lines",
        "Requests per second",
        "Of the HTTP API, by route. Normal: as clients ask; probes and scrapes are a few a minute.",
        (_rate("raftnode_http_request_seconds_count", "path", "{{path}}"),),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Refusals and errors per second",
        "Answers that are not 2xx, by status. Normal: some 421 (not the leader) when leadership "
        "moves; 429 and 503 ask clients to wait; 5xx else are faults.",
        (
            _rate(
                "raftnode_http_request_seconds_count",
                "status",
                "{{status}}",
                ', status!~"2.."',
            ),
        ),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Time of writes over HTTP",
        "From a request's head to its answer, of writes outside of sessions. Normal: the commit "
        "latency and a little more.",
        quantiles("raftnode_http_request_seconds", f'{N}, method=~"PUT|POST|DELETE"', "", ""),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Operations in sessions per second",
        "By outcome. Normal: ok; not_done for keys that are not there and when leadership moves; "
        "unknown in elections only.",
        (_rate("raftnode_session_operations_total", "outcome", "{{outcome}}"),),
        width=12,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Sessions",
        "Open sessions of clients. Normal: a few for each client, most of them at the leader.",
        (_by_node("raftnode_sessions"),),
        width=12,
    ),
    Panel(
        "lines",
        "Connections of clients",
        "Open connections of clients. Normal: far below api_connections_max.",
        (
            Query(
                f"max by (node_id, listener) (raftnode_client_connections{{{N}}})",
                "node {{node_id}}, {{listener}}",
            ),
        ),
        width=12,
    ),
    Panel(
        "lines",
        "Clients refused",
        "Connections, requests and sessions that a limit refused or cut off. Normal: none.",
        (_rate("raftnode_client_refusals_total", "limit", "{{limit}}"),),
        width=12,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Validity of certificates",
        "Time until the certificate of each listener and each CA that it trusts expires. `Refused` "
        "is when other ends refuse it, earlier if a CA above it expires. Normal: it rises before "
        "a tenth of its life is left, and no CA is below 0. Empty without TLS.",
        (
            Query(
                "min by (node_id, listener) "
                f"(raftnode_tls_certificate_expiry_timestamp_seconds{{{N}}} - time())",
                "{{listener}} of node {{node_id}}",
            ),
            Query(
                "min by (node_id, listener) "
                f"(raftnode_tls_certificate_accepted_until_timestamp_seconds{{{N}}} - time())",
                "Refused: {{listener}} of node {{node_id}}",
            ),
            Query(
                f"min by (listener, ca) (raftnode_tls_ca_expiry_timestamp_seconds{{{N}}} - time())",
                "CA {{ca}}, {{listener}}",
            ),
        ),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "TLS connections that did not come about",
        "Connections without a finished handshake, by listener and reason. Normal: none. Empty "
        "without TLS.",
        (
            _rate(
                "raftnode_tls_handshake_failures_total",
                "listener, reason",
                "{{listener}}: {{reason}}",
            ),
        ),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Certificate files read again",
        "Changed files of the listeners, by outcome. Normal: `taken` at each rotation, and never "
        "`refused`. Empty without TLS.",
        (_rate("raftnode_tls_reloads_total", "listener, outcome", "{{listener}}: {{outcome}}"),),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Access refused",
        "Requests that were refused for their credentials, their permissions or their cluster id. "
        "Normal: none, or a few after a token was replaced.",
        (_rate("raftnode_access_refusals_total", "reason", "{{reason}}"),),
        width=12,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Access files and audit log",
        "Refused contents of the access file, 1 while an earlier content is in force, and lines of "
        "the audit log that could not be written, or that wait for its file. Normal: none.",
        (
            _rate("raftnode_access_file_refusals_total", "file", "{{file}} refused"),
            _by_node("raftnode_access_file_stale"),
            _rate("raftnode_audit_lines_lost_total", "node_id", "audit lines lost, {{node_id}}"),
            _by_node("raftnode_audit_lines_waiting", "audit lines waiting, {{node_id}}"),
        ),
        width=12,
    ),
)

PEERS = (
    Panel(
        "lines",
        "Fetches per second, by peer",
        "Fetches that reached this node: only a leader gets many. Normal: each follower fetches "
        "some ten times a second, more under writes.",
        (_rate("raftnode_peer_fetches_total", "node_id, peer_id", "{{peer_id}} at {{node_id}}"),),
        width=8,
        unit="reqps",
    ),
    Panel(
        "lines",
        "Records appended and fetched per second",
        "What the leader appends, and what followers and observers take in. Normal: the same.",
        (
            _rate("raftnode_appended_records_total", "node_id", "appended, node {{node_id}}"),
            _rate("raftnode_fetched_records_total", "node_id", "fetched, node {{node_id}}"),
        ),
        width=8,
        unit="rec/s",
    ),
    Panel(
        "lines",
        "Requests to peers without an answer",
        "By why. Normal: none. `unreachable`: it does not listen; `timed_out`: a slow or cut "
        "network.",
        (
            _rate(
                "raftnode_peer_request_failures_total",
                "peer_id, reason",
                "{{reason}}, to {{peer_id}}",
            ),
        ),
        width=8,
        unit="reqps",
    ),
)

DISK = (
    Panel(
        "lines",
        "Fsync",
        "How long the log's fdatasync takes, over the nodes chosen. Normal: below 10 ms on an SSD.",
        quantiles("raftnode_fsync_seconds", N, "", ""),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Log start, end, durable end, high watermark",
        "Offsets. Normal: the ends are close together; a durable end that stays behind is a disk "
        "that does not fsync. The start moves when the log is trimmed.",
        (
            _by_node("raftnode_log_start_offset", "start, node {{node_id}}"),
            _by_node("raftnode_log_end_offset", "end, node {{node_id}}"),
            _by_node("raftnode_durable_end_offset", "durable, node {{node_id}}"),
            _by_node("raftnode_high_watermark", "committed, node {{node_id}}"),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Free disk and the reserve",
        "Bytes. Below the reserve a leader transfers leadership or refuses writes. Normal: far "
        "above.",
        (
            _by_node("raftnode_disk_free_bytes", "free, node {{node_id}}"),
            Query(f"max(raftnode_disk_reserve_bytes{{{N}}})", "reserve"),
        ),
        width=8,
        unit="bytes",
    ),
    Panel(
        "lines",
        "Records since the snapshot",
        "What a start has to read again. Normal: a saw-tooth; it falls at each snapshot.",
        (
            Query(
                f"max by (node_id) (raftnode_high_watermark{{{N}}} - "
                f"raftnode_snapshot_end_offset{{{N}}})",
                "node {{node_id}}",
            ),
        ),
        width=8,
    ),
    Panel(
        "table",
        "Snapshots",
        "The newest one: its end, its bytes; and how many the node made since its start, in how "
        "many seconds together. Normal: one an hour, seconds for each GB of state.",
        (
            _by_node("raftnode_snapshot_end_offset"),
            _by_node("raftnode_snapshot_size_bytes"),
            _by_node("raftnode_snapshot_seconds_count"),
            _by_node("raftnode_snapshot_seconds_sum"),
        ),
        width=16,
        columns={
            "node_id": "Node",
            "A": "Ends at offset",
            "B": "Bytes",
            "C": "Made",
            "D": "In seconds",
        },
        sort="Node",
    ),
    Panel(
        "lines",
        "Log size",
        "Bytes of the segments. Normal: grows with writes until the log is trimmed.",
        (_by_node("raftnode_log_size_bytes"),),
        width=8,
        unit="bytes",
    ),
    Panel(
        "lines",
        "Segments",
        "Files of the log. Normal: one more for each segment_bytes; fewer when it is trimmed.",
        (_by_node("raftnode_log_segments"),),
        width=8,
    ),
    Panel(
        "lines",
        "Snapshots: bytes sent and fetched",
        "By the leader to a replica that is behind its log. Normal: 0, but for a new replica.",
        (_rate("raftnode_snapshot_piece_bytes_total", "direction", "{{direction}}"),),
        width=8,
        unit="Bps",
    ),
    Panel(
        "lines",
        "Scrub: read, and damaged",
        "How much of the log and its snapshots the scrub's pass has read (1: all), and damaged "
        "places that it found. Normal: nothing damaged; one pass a day.",
        (
            _by_node("raftnode_scrub_progress_ratio", "read, node {{node_id}}"),
            _by_node("raftnode_storage_damaged", "damaged, node {{node_id}}"),
        ),
        width=6,
    ),
    Panel(
        "lines",
        "Scrub: bytes read per second",
        "How fast the scrub reads. Normal: scrub_bytes_per_second at most, and 0 between passes.",
        (_rate("raftnode_scrub_read_bytes_total", "node_id", "node {{node_id}}"),),
        width=6,
        unit="Bps",
    ),
    Panel(
        "table",
        "Scrub: passes",
        "Since the node's start: passes that have ended, how long ago and in how many seconds, "
        "and what they found. Normal: one a day, nothing found.",
        (
            _by_node("raftnode_scrub_passes_total"),
            _by_node("raftnode_scrub_last_pass_seconds"),
            Query(
                f"max by (node_id) (time() - raftnode_scrub_last_pass_timestamp_seconds{{{N}}}) "
                f"and max by (node_id) (raftnode_scrub_passes_total{{{N}}}) > 0"
            ),
            _by_node("raftnode_scrub_corrupt_batches_total"),
        ),
        width=12,
        columns={
            "node_id": "Node",
            "A": "Passes",
            "B": "Last took, s",
            "C": "Last ended, s ago",
            "D": "Damaged places found",
        },
        sort="Node",
    ),
)

PROCESS = (
    Panel(
        "lines",
        "Memory",
        "Resident bytes. Normal: some 100 MB and the key-value store; a steady rise is a leak.",
        (_by_node("process_resident_memory_bytes"),),
        width=8,
        unit="bytes",
    ),
    Panel(
        "lines",
        "File descriptors",
        "Share of those allowed that are open. Normal: below 0.2; clients are turned away before "
        "it is 1.",
        (
            Query(
                f"max by (node_id) (process_open_fds{{{N}}} / process_max_fds{{{N}}})",
                "node {{node_id}}",
            ),
        ),
        width=8,
        unit="percentunit",
    ),
    Panel(
        "lines",
        "CPU",
        "Seconds of CPU in a second. Normal: below 0.5; the loop has one CPU, fsyncs another.",
        (_rate("process_cpu_seconds_total", "node_id", "node {{node_id}}"),),
        width=8,
    ),
)

NODE = Dashboard(
    "kraftquorum-node",
    "kraftquorum / Node",
    "The nodes of one quorum: loop, API, peers, disk, process.",
    (*ONE_QUORUM, NODES),
    (
        ("State", STATE),
        ("Event loop", LOOP),
        ("API", API),
        ("Peers", PEERS),
        ("Disk", DISK),
        ("Process", PROCESS),
    ),
    (
        Annotation(
            "Node started",
            f"changes(process_start_time_seconds{{{N}}}[1m]) > 0",
            "node {{node_id}} started",
            BLUE,
        ),
        Annotation(
            "Leader changed",
            f"changes(quorum:raftnode_epoch:max{{{N.partition(', node_id')[0]}}}[1m]) > 0",
            "a new epoch",
            YELLOW,
        ),
    ),
)
