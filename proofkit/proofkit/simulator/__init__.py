"""Runs a whole quorum in one thread: the real core with simulated time, network and disks.

Everything random comes from one seed, so every run can be repeated:

    python -m proofkit.simulator --seed 7

- `disk`: a disk that loses unsynced writes in a crash;
- `network`: loss, delay, order, duplicates, partitions;
- `node`: carries out the core's effects, and crashes between them;
- `faults`: the faults, within a budget that a majority survives;
- `clients`: writers and an administrator who changes voters;
- `invariants`: the invariants after each event;
- `keyvalue`: the clients' history of keys, which must be linearizable;
- `progress`: the progress that must follow the end of faults;
- `world`: puts it together; `run`: one seed, many seeds, the summary.
"""
