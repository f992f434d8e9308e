"""Explores all interleavings of a small world, with the same core that the node runs.

The simulator tries many long runs at random. The explorer tries every run of a world with
budgets: a number of crashes, lost messages, fired election timers, writes and voter changes,
in every order and at every moment. It searches breadth first, so that it finds the shortest
way to a broken invariant.

    python -m proofkit.explorer --preset small

- `bounds`: the budgets, and the presets;
- `snapshot`: copies and keys of a core's state, and time made abstract;
- `local`: one replica as a numbered value, and its next state after an event;
- `state`: a world as numbers; `world`: its possible actions, and their results;
- `void_messages`: messages without any later effect;
- `step_checks`: the simulator's invariants over one step;
- `progress`: whether the others make progress beside a hung disk or a stopped process;
- `action`: one action in a world;
- `search`: the search, breadth first, and its counts;
- `trace`: a run as text, and its replay.

**Time.** No clock runs: `now_ms` is the same in every state, and each deadline is due or
lies in some future. A timer is an event that may fire whenever its deadline is set. Every
order in which real clocks let timers fire is among those, so what holds here holds for
any clocks, settings and draws of random waits; the other way round, an order may be
explored that no real clock allows. Whether a leader is fresh (S9) is asked only when a vote
is, so the delivery of a Vote to a follower happens in both ways. All Fetches count as fresh
and all catch-up rounds as short: a voter change is refused by its other guards only.

**Equal worlds.** A world is the state of each replica, its disk, the set of messages on
their way, what is left of the budgets, and what the invariants must remember. Three things
are renamed or left out, because nothing that the core does depends on them: the numbers of
Fetches are replaced by their ranks (they are only compared); answers that no replica can take
any more are dropped (an answer to a Fetch that is not waited for, or to an election of an
epoch that is past); counters that choose only a wait are cut. Replicas are not taken for
each other: a tie among successors is broken by their keys, so the core is not symmetric.

**What is coarser than the simulator.** An event and all its effects are one step: a process
does not die between two effects. A flush covers all that is written and is known at once; but on
a disk that hangs it covers what was written when it began, returns at any later point or never, and
an event ends at the first effect that waits for the disk. That such an effect returns late is no
other world: its messages are as late on their way.
A process that stands still (its loop stalls) takes nothing, with its connections up, and goes on at
any later point. A read that hangs is no event of the core: its Fetch was counted, and its answer is
late or lost, which every world has.
A message that is sent while an equal one is still on its way is not a second one. A snapshot
is written, and the log trimmed behind it, in one step; an install is one, too. No snapshot is
corrupted, so there is no `SnapshotLost`. Only the simulator has clocks that jump, full disks,
restored volumes, the gate of S3, linearizable reads, leadership transfer on request and waits
that end by themselves (an idle Fetch, a voter change's deadline).
"""
