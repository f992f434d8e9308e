"""Puts a node's parts together. Each builder makes one group of parts from the groups before it.

- `base`: the core, made from the content of the disk, with the driver that will own it;
- `writes`: clients' writes and the committed log;
- `disk`: snapshots, scrub, and the watch of the disk's room;
- `peers`: the other replicas, and snapshots on their way;
- `tls`: certificates and keys of both servers;
- `listeners`: the two HTTP servers;
- `access`: what lets clients' requests pass;
- `node`: the whole node, started, and taken apart at the end.

The work of the parts is not here.
"""
