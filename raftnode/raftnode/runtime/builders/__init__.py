"""Puts a node's parts together. Each builder makes one group of them from those before it.

- `base`: what the disk holds, as a core, with the driver that will own it;
- `writes`: clients' writes and the committed log;
- `disk`: snapshots, scrub, and the watch of the disk's room;
- `peers`: the other replicas, and snapshots on their way;
- `listeners`: the two HTTP servers;
- `node`: all of it, started, and taken apart at the end.

What must not be here: what any of the parts does.
"""
