"""Runs a whole quorum in one thread: the real core with simulated time, network and disks.

Everything random comes from one seed, so every run can be repeated:

    python -m proofkit.simulator --seed 7

- `disk`: a disk that loses unsynced writes in a crash;
- `network`: loss, delay, order, duplicates, partitions;
- `node`: carries out the core's effects, and crashes between them; `snapshots`, `machine`, `gate`:
  its snapshots, its state machine and its memory of peers;
- `faults`: the faults, within a budget that a majority survives; `slowness`: a node that is slow
  but alive;
- `clients`: writers and an administrator who changes voters;
- `invariants`, `strictchecker`, `snapshotchecks`: the invariants after each event; `watcher`: what
  they and others see of it;
- `keyvalue`: the clients' history of keys, which must be linearizable;
- `progress`: the progress that must follow the end of faults;
- `world`: puts it together; `run`: one seed, many seeds, the summary.
"""
