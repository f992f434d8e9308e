"""Disks and what is on them: speed, space, corruption, snapshots."""

from __future__ import annotations

from kraftquorum_observability.labels import BY_NODE, BY_QUORUM, ON_NODE, ON_QUORUM

from .alert import NODE, WHICH, Alert

DISKS: tuple[Alert, ...] = (
    Alert(
        "KraftquorumFsyncSlow",
        "warning",
        "node:raftnode_fsync_seconds:p99_5m > 0.5",
        "10m",
        f"{NODE} has a slow disk",
        "One in a hundred fsyncs takes {{ $value | humanizeDuration }}. Writes are as slow as the "
        "slower half of the voters.",
    ),
    # Writes wait for the slower half: two of three voters, three of five. One second is half of the
    # default fetch timeout, and where etcd's own alert becomes critical.
    Alert(
        "KraftquorumFsyncTooSlow",
        "critical",
        f"""
2 * count {BY_QUORUM} (
  (
    node:raftnode_fsync_seconds:p99_5m > 1
    or
    max {BY_NODE} (raftnode_storage_operation_in_flight_seconds) > 1
  )
  unless {ON_NODE} raftnode_current_state{{raftnode_current_state="observer"}} == 1
) >= quorum:raftnode_voters:max
""",
        "10m",
        f"{WHICH} has slow disks at half of its voters or more",
        "At half of the voters or more, one in a hundred fsyncs takes longer than a second, so a "
        "write may take as long. At 1.5 fetch timeouts, 3 s by default, leaders resign and writes "
        "stop.",
    ),
    Alert(
        "KraftquorumDiskNearlyFull",
        "warning",
        f"""
node:raftnode_disk_free:ratio < 0.15
or
min {BY_NODE} (raftnode_disk_free_bytes / raftnode_disk_reserve_bytes) < 4
  and node:raftnode_disk_free:ratio < 0.5
""",
        "5m",
        f"{NODE} runs out of disk",
        "Less than 15 % of the disk is free, or less than half of it and than four times the "
        "reserve. A leader without space transfers leadership. If no voter has space, the leader "
        "refuses writes.",
    ),
    # A day leaves time until the morning; six hours even out the saw-tooth of trimmed segments.
    # Above half, a young log grows towards its limit (log_retention_bytes).
    Alert(
        "KraftquorumDiskWillFill",
        "warning",
        f"""
min {BY_NODE} (
  predict_linear(raftnode_disk_free_bytes[6h], 24 * 3600) < raftnode_disk_reserve_bytes
)
and
node:raftnode_disk_free:ratio < 0.5
""",
        "1h",
        f"{NODE} fills its disk within a day",
        "At the rate of the last six hours the disk falls below its reserve within a day. A leader "
        "without space transfers leadership. If no voter has space, the leader refuses writes.",
    ),
    Alert(
        "KraftquorumLogOutgrowsDisk",
        "warning",
        f"""
max {BY_QUORUM} (kraftquorum_condition{{condition="LogOutgrowsDisk"}}) == 1
and {ON_QUORUM}
  min {BY_QUORUM} (node:raftnode_disk_free:ratio) < 0.5
""",
        "15m",
        f"{WHICH} fills its disks, and no setting bounds its log",
        "No setting keeps the log smaller than its volumes, and half of a volume is used. If all "
        "volumes are full, the leader refuses writes. spec.config.log_retention_bytes bounds the "
        "log.",
    ),
    Alert(
        "KraftquorumDiskFull",
        "critical",
        f"""
min {BY_NODE} (raftnode_disk_free_bytes and raftnode_disk_low == 1)
""",
        "1m",
        f"{NODE} has used up its disk",
        "{{ $value | humanize1024 }}B are free. Below its reserve a node takes no writes as "
        "leader, until twice the reserve is free. Committed writes are safe.",
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
        "A node exited because of its disk, or a voter's storage is lost. The operator has not "
        "replaced it yet.",
    ),
    Alert(
        "KraftquorumScrubFoundCorruption",
        "warning",
        f"max {BY_NODE} (raftnode_storage_damaged) > 0",
        "1m",
        f"{NODE} has corruption on its disk",
        "The scrub read {{ $value }} damaged places in the log or a snapshot. No committed write "
        "is lost while a majority has it. The operator replaces this replica, as its policy "
        "allows.",
    ),
    # At start-up, where a counter begins above 0, or later.
    Alert(
        "KraftquorumSnapshotDamaged",
        "warning",
        f"""
max {BY_NODE} (increase(raftnode_snapshots_damaged_total[6h])) > 0
or
max {BY_NODE} (raftnode_snapshots_damaged_total > 0)
  and time() - node:raftnode_start_timestamp_seconds:max < 6 * 3600
""",
        "1m",
        f"{NODE} found a damaged snapshot",
        "The node set aside a snapshot that does not match its checksum, and continues with an "
        "older snapshot or with the log. A disk that damages one file may damage others.",
    ),
    Alert(
        "KraftquorumSnapshotTooOld",
        "warning",
        f"""
time() - max {BY_NODE} (
  raftnode_snapshot_made_timestamp_seconds > 0 or process_start_time_seconds{{quorum!=""}}
) > 4 * 3600
and {ON_NODE}
max {BY_NODE} (
  raftnode_high_watermark - raftnode_snapshot_end_offset > 1000
)
""",
        "10m",
        f"{NODE} has not made a snapshot for {{{{ $value | humanizeDuration }}}}",
        "The next start takes longer, and the node cannot trim the log. A snapshot is due every "
        "hour by default; the node skips it if the disk has no room for it.",
    ),
    Alert(
        "KraftquorumSnapshotHasNoRoom",
        "warning",
        f"max {BY_NODE} (raftnode_snapshot_room_missing_bytes) > 0",
        "15m",
        f"{NODE} has no room for a snapshot",
        "A snapshot is due, and the disk lacks {{ $value | humanize1024 }}B for it. Until there is "
        "room, the node makes no snapshot and trims no log, and its next start takes longer.",
    ),
)
