"""Is this quorum safe, what is wrong, what is being done about it?"""

from __future__ import annotations

from kraftquorum_observability.labels import ON_QUORUM

from .parts import (
    BLUE,
    GREEN,
    GREY,
    LEVELS,
    LIGHT_BLUE,
    ONE_QUORUM,
    ORANGE,
    PRESENT,
    RED,
    THIS_QUORUM,
    YELLOW,
    Annotation,
    Dashboard,
    Means,
    Panel,
    Query,
    operation_lanes,
    quantiles,
)

Q = THIS_QUORUM
_ROLES = (
    ("leader", 4),
    ("follower", 3),
    ("candidate", 2),
    ("prospective", 2),
    ("observer", 1),
    ("blank", 0),
    ("unattached", 0),
    ("resigned", 0),
)
ROLES = (
    "max by (node_id) ("
    + " or ".join(
        f'(raftnode_current_state{{{Q}, raftnode_current_state="{name}"}} == 1) * 0 + {value}'
        for name, value in _ROLES
    )
    + ")"
)
_ONE = "max by (node, peer_directory_id)"
_SEEN = (
    f'label_replace(raftnode_peer_caught_up{{{Q}, peer_role="%s"}}, '
    '"node", "$1", "peer_id", "(.*)")'
)
REPLICAS = f"{_ONE} ({_SEEN % 'voter'}) + 2 or {_ONE} ({_SEEN % 'observer'})"


LEADER = (
    f"max(raftnode_current_leader{{{Q}}} and on (node_id) (raftnode_current_epoch{{{Q}}} "
    f"== {ON_QUORUM} group_left () quorum:raftnode_epoch:max{{{Q}}}))"
)
"""As those say who are in the newest epoch: one that is cut off names an old leader for long."""

ANSWERS = (
    Panel(
        "figure",
        "Is it safe?",
        "The whole quorum in words. Normal: safe. Anything else is explained by the lanes below.",
        (Query(f"quorum:kraftquorum_safety:level{{{Q}}}"),),
        width=8,
        height=4,
        values=LEVELS,
    ),
    Panel(
        "figure",
        "Faults it can take",
        "Caught-up voters above the majority. Normal: 1 of three voters, 2 of five. At 0 the next "
        "fault stops writes, below 0 they have stopped.",
        (Query(f"quorum:raftnode_fault_tolerance:min{{{Q}}}"),),
        width=4,
        height=4,
        limits=((None, RED), (0, ORANGE), (1, GREEN)),
    ),
    Panel(
        "figure",
        "Voters, and wanted",
        "The voters in force and spec.voters. Normal: the same; different only while the operator "
        "changes them, one at a time.",
        (
            Query(f"max(kraftquorum_voters{{{Q}}})", "voters"),
            Query(f"max(kraftquorum_voters_wanted{{{Q}}})", "wanted"),
        ),
        width=4,
        height=4,
    ),
    Panel(
        "figure",
        "Leader and epoch",
        "The node id of the leader, and the epoch. Normal: both stay for days; an epoch is one "
        "election.",
        (
            Query(LEADER, "leader"),
            Query(f"quorum:raftnode_epoch:max{{{Q}}}", "epoch"),
        ),
        width=4,
        height=4,
    ),
    Panel(
        "figure",
        "Worst follower's lag",
        "Records that the slowest voter is behind. Normal: a batch or two under writes, else 0.",
        (Query(f"quorum:raftnode_follower_lag_records:max{{{Q}}}"),),
        width=4,
        height=4,
        limits=((None, GREEN), (1000, YELLOW), (100_000, RED)),
    ),
)

STORY = (
    Panel(
        "lanes",
        "Was it safe?",
        "The same words over time. Normal: one green lane. A replaced disk is a short stretch of "
        "another colour.",
        (Query(f"quorum:kraftquorum_safety:level{{{Q}}}", "quorum"),),
        width=24,
        height=4,
        values=LEVELS,
    ),
    Panel(
        "lanes",
        "Replicas by node id and directory id",
        "The leader's view: one lane for each storage. Normal: a green lane for each voter. A lost "
        "disk turns its lane red and ends it; the lane of a new UUID begins with the same id.",
        (Query(REPLICAS, "{{node}} {{peer_directory_id}}"),),
        width=24,
        height=7,
        values={
            3: Means("voter", GREEN),
            2: Means("voter, not caught up", RED),
            1: Means("observer", BLUE),
            0: Means("observer, catching up", LIGHT_BLUE),
        },
    ),
    Panel(
        "lanes",
        "Nodes and their roles",
        "What each node says itself. Normal: one leader, the rest followers. A gap is a node that "
        "does not run; orange is an election.",
        (Query(ROLES, "node {{node_id}}"),),
        width=24,
        height=6,
        values={
            4: Means("leader", BLUE),
            3: Means("follower", GREEN),
            2: Means("candidate", ORANGE),
            1: Means("observer", LIGHT_BLUE),
            0: Means("no leader known", GREY),
        },
    ),
    Panel(
        "lanes",
        "What the operator does",
        "A lane for each step under way, in their order: 1, 2, 3 … Normal: empty. A step of more "
        "than a few minutes is stuck; the next panel says what it waits for.",
        operation_lanes(Q),
        width=24,
        height=7,
        values=PRESENT,
    ),
    Panel(
        "lanes",
        "What the operator waits for",
        "The guard that holds it back. Normal: empty, or short stretches while it waits for a "
        "replica to catch up. docs/reference/guards.md explains each.",
        (Query(f"max by (guard) (kraftquorum_blocked{{{Q}}})", "{{guard}}"),),
        width=24,
        height=6,
        values=PRESENT,
    ),
)

REPLICATION = (
    Panel(
        "lines",
        "Faults it can take",
        "As the leader counts, and as the spec allows. Normal: both lines are one.",
        (
            Query(f"quorum:raftnode_fault_tolerance:min{{{Q}}}", "now"),
            Query(f"floor((max(kraftquorum_voters_wanted{{{Q}}}) - 1) / 2)", "spec allows"),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Lag in records",
        "Records between the leader's log end and what is durable at a replica. Normal: near 0; a "
        "new replica begins high and falls.",
        (
            Query(
                f"max by (peer_id, peer_role) (raftnode_peer_lag_records{{{Q}}})",
                "{{peer_id}} {{peer_role}}",
            ),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Lag in time",
        "Seconds since a replica last had everything. Normal: below a second. A straight rise is "
        "a replica that is down.",
        (
            Query(
                f"max by (peer_id, peer_role) (raftnode_peer_lag_seconds{{{Q}}})",
                "{{peer_id}} {{peer_role}}",
            ),
        ),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Committed records per second",
        "How fast the high watermark moves. Normal: as fast as clients write. 0 while writes wait "
        "means that no majority fsyncs.",
        (Query(f"quorum:raftnode_committed_records:rate1m{{{Q}}}", "committed"),),
        width=8,
        unit="rec/s",
    ),
    Panel(
        "lines",
        "Commit latency",
        "From a batch's append at the leader to the high watermark passing it. Normal: about two "
        "fsyncs and a network round trip.",
        quantiles("raftnode_commit_latency_seconds", Q, "", ""),
        width=8,
        unit="s",
    ),
    Panel(
        "bars",
        "Elections",
        "Times that a node stood for election, in a minute. Normal: none for days; one when "
        "the leader went.",
        (
            Query(
                f"sum by (node_id) (increase(raftnode_elections_total{{{Q}}}[1m]))", "{{node_id}}"
            ),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Voter changes",
        "Voter records in the log and the operator's requests, in a minute. Normal: none, or "
        "two records for one AddVoter: the leader removes the lost one itself.",
        (
            Query(
                f"changes(quorum:raftnode_voter_record_offset:max{{{Q}}}[1m])",
                "voter records",
            ),
            Query(
                "sum by (action) (increase(kraftquorum_actions_total{"
                f'{Q}, action=~"AddVoter|RemoveVoter", result="done"}}[1m]))',
                "{{action}}",
            ),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Time of an election",
        "From becoming a candidate to knowing the leader, of the elections of the last hour. "
        "Normal: below a second; without an election there is no line.",
        quantiles("raftnode_election_latency_seconds", Q, "", "", "1h"),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Observers, and changes that wait",
        "As the leader counts: observers, those of them that may become voters, and voter changes "
        "that wait or are not committed. Normal: 0; a new replica observes for seconds.",
        (
            Query(f"max(raftnode_observers{{{Q}}})", "observers"),
            Query(f"max(raftnode_possible_voters{{{Q}}})", "possible voters"),
            Query(f"max(raftnode_pending_add_voter{{{Q}}})", "AddVoter waits"),
            Query(f"max(raftnode_pending_remove_voter{{{Q}}})", "RemoveVoter waits"),
            Query(f"max(raftnode_uncommitted_voter_change{{{Q}}})", "change not committed"),
            Query(f"max(raftnode_unknown_voter_connections{{{Q}}})", "voters without endpoint"),
        ),
        width=8,
    ),
    Panel(
        "lines",
        "Epoch",
        "Each step is an election that a replica started. The operator follows once it has asked "
        "the new leader. Normal: flat, and both lines are one.",
        (
            Query(f"quorum:raftnode_epoch:max{{{Q}}}", "nodes"),
            Query(f"max(kraftquorum_leader_epoch{{{Q}}})", "operator"),
        ),
        width=8,
    ),
    Panel(
        "table",
        "Voters and observers now",
        "Who is in the quorum, with the UUID of the storage. Normal: each id once, all caught up.",
        (
            Query(
                f"max by (peer_id, peer_directory_id, peer_role) (raftnode_peer_caught_up{{{Q}}})"
            ),
            Query(
                f"max by (peer_id, peer_directory_id, peer_role) (raftnode_peer_lag_records{{{Q}}})"
            ),
            Query(
                "max by (peer_id, peer_directory_id, peer_role) "
                f"(raftnode_peer_fetch_age_seconds{{{Q}}})"
            ),
        ),
        width=16,
        columns={
            "peer_id": "Node",
            "peer_directory_id": "Storage UUID",
            "peer_role": "Role",
            "A": "Caught up",
            "B": "Lag",
            "C": "Fetched, s ago",
        },
        sort="Node",
    ),
)

DISKS = (
    Panel(
        "lines",
        "Fsync, 99th percentile",
        "How long the log's fdatasync takes. Normal: below 10 ms on an SSD. Writes are as slow as "
        "the slower half of the voters.",
        (
            Query(
                "histogram_quantile(0.99, sum by (node_id, le) "
                f"(rate(raftnode_fsync_seconds_bucket{{{Q}}}[$__rate_interval])))",
                "node {{node_id}}",
            ),
        ),
        width=8,
        unit="s",
    ),
    Panel(
        "lines",
        "Log and snapshot size",
        "Bytes of the log's segments and of the newest snapshot. Normal: the log grows with "
        "writes; a snapshot has the size of what is alive.",
        (
            Query(f"max by (node_id) (raftnode_log_size_bytes{{{Q}}})", "log, node {{node_id}}"),
            Query(
                f"max by (node_id) (raftnode_snapshot_size_bytes{{{Q}}})",
                "snapshot, node {{node_id}}",
            ),
        ),
        width=8,
        unit="bytes",
    ),
    Panel(
        "lines",
        "Disk left",
        "Share of each disk that is free. Normal: above 15 %, where an alert begins.",
        (Query(f"node:raftnode_disk_free:ratio{{{Q}}}", "node {{node_id}}"),),
        width=8,
        unit="percentunit",
    ),
)

QUORUM = Dashboard(
    "kraftquorum-quorum",
    "kraftquorum / Quorum",
    "One quorum: is it safe, what happened, what does the operator do?",
    ONE_QUORUM,
    (
        ("Now", ANSWERS),
        ("What happened", STORY),
        ("Replication", REPLICATION),
        ("Disks", DISKS),
    ),
    (
        Annotation(
            "Disk lost",
            f"max(kraftquorum_voters_storage_gone{{{Q}}} + "
            f"kraftquorum_pods_storage_failing{{{Q}}}) > 0",
            "a replica's disk fails or is gone",
            RED,
        ),
        Annotation(
            "Voters changed",
            f"changes(quorum:raftnode_voter_record_offset:max{{{Q}}}[1m]) > 0",
            "a voter record: a voter was added or removed",
            BLUE,
        ),
        Annotation(
            "Election",
            f"changes(quorum:raftnode_epoch:max{{{Q}}}[1m]) > 0",
            "a new epoch",
            ORANGE,
        ),
    ),
)
