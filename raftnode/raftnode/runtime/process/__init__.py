"""The node as a process: signals, tasks, clocks, log lines, the watchdog."""
