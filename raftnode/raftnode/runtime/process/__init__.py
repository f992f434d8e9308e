"""The node as a process: signals, tasks, clocks, log lines, the watchdog.

- `process_setup`, `interpreter`: signals, open files, and settings of the interpreter;
- `tasks`: starts tasks and holds them; `turn_schedule`: when the driver takes its turns;
- `clock`: monotonic and wall clock; `poll_time`: how long the event loop waited for work;
- `journal`: log lines; `watchdog`: ends a process that makes no progress;
- `thread_signal`, `idle`, `pause`: what threads beside the event loop wait with;
- `refused_storage`: health answers of a node that exits because of its storage.
"""
