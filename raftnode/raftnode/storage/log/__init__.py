"""The log as one sequence of records: appended, flushed, read, truncated, recovered at start.

- `log`: the log; `log_settings`: what its owner decides;
- `log_recovery`: the log from its files, on a start; `torn_tail`: whether damage at the end is what
  a crash explains;
- `recent_batches`: the newest batches in memory;
- `reservation`: room that is reserved for the segment that grows;
- `checkpoints`, `epoch_file`, `control_places`: small files beside the segments.
"""
