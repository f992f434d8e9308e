"""The whole promise on one machine, with real parts: ``python -m kraftquorum_demo``.

`__main__` has the command line, the lock of the output folder, the signals and the exit code.

- `plan`: how much and how long, in full and shortened; every deadline;
- `demo_run`: one run from set-up to removal; `steps`: its script, a list of named steps; `faults`:
  what they break; `hanging_disk`: a disk that hangs;
- `environment`: starts and ends cluster, operator and client, in order; `processes`: the operator,
  which a held demo restarts; `restarts`: those of the pods; `task_groups`: coroutines side by side;
- `credentials`: what clients present; `access_check`: asks the nodes without them;
- `writers`: clients that write all through; `data`: the zones that they write; `record`: their
  account of it; `background`: the same writers beside a test of the operator;
- `watcher`: what the quorum and the resource say, several times a second; `resource`: the resource
  as the API server has it; `demo_state`: what is known; `history`: keeps it;
- `view`: shows it, in lines; `rich_view`: on a terminal;
- `readback`: reads everything back; `verify`: compares it with the account; `log_comparison`:
  compares the replicas' files with each other;
- `pipeline`: the pipeline on what the demo leaves;
- `conclusion`: the end of a run; `report`, `timeline`, `kept_files`: what is left behind under
  ``build/demo/``; `excerpt`: the lines of it that README shows; `errors`: what ends it early;
- `shell_commands`: what to try when the demo leaves everything running;
- `sample_answers`: a quorum's answers, for tests.
"""
