"""A whole quorum in one thread: simulated time, network and disks around the real core.

Everything random comes from one seed, so every run can be repeated:

    python -m proofkit.simulator --seed 7

- `disk`: what survives a crash and what does not;
- `network`: loss, delay, order, duplicates, partitions;
- `node`: carries the core's effects out, and dies in the middle of them;
- `faults`: what goes wrong, within a budget that a majority survives;
- `clients`: writers and an administrator who changes voters;
- `invariants`: what must hold after each event;
- `keyvalue`: what clients saw of keys, which must be linearizable;
- `progress`: what must come to hold once faults end;
- `world`: puts it together; `run`: one seed, many seeds, the summary.
"""
