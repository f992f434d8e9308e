"""The node's disk: its room, its health, reads that may take long.

- `disk_state`: what the node knows of its disk; `disk_watch`: checks identity and room on a timer;
- `disk_room`: the free room, with what the log can give back;
- `calls_in_flight`: system calls under way, so that the watchdog sees a call that hangs;
- `log_reads`, `cold_reads`: reads of the log by clients and by followers, beside the event loop;
- `scrubber`: reads again what was written long ago.
"""
