"""The whole promise on one machine, with real parts: ``python -m kraftquorum_demo``.

- `__main__` the command line, the lock of the output folder, signals, the exit code
- `plan` how much and how long, in full and shortened; every deadline
- `demo_run` one run from set-up to removal; `conclusion` its report
- `environment` starts and ends cluster, operator and client, in order; `demo_state` what is known
- `steps` the script: a list of named steps; `faults` what they break,
  `hanging_disk` a disk that hangs
- `credentials` what clients present; `access_check` asks the nodes without them
- `writers` clients that write all through; `record` their account of it; `data` the zones
- `watcher` what the quorum and the resource say, several times a second; `history` keeps it
- `processes` the operator, which a held demo restarts; `restarts` those of the pods
- `view` shows it: `rich_view` on a terminal, `plain_view` without one
- `readback` reads everything back; `verify` compares it with the account; `log_comparison`
  compares the replicas' files with each other
- `report`, `timeline`, `kept_files`  what is left behind under ``build/demo/``
- `shell_commands` what to play with when the demo leaves everything running
"""
