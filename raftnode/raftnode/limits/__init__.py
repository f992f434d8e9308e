"""Limits of what clients may use of a node, so that a flood takes nothing from the quorum.

- `model`: the limits themselves, and the names under which refusals are counted;
- `addresses`: the address that a connection counts for;
- `connections`: which connection gives way when there are too many;
- `shares`: a count with a limit in total and for each holder;
- `answers`: how much of large answers is held for clients that do not read;
- `fair_queue`: a queue that serves its holders in turn;
- `starts`: how many requests start in a turn of the event loop, holder by holder.

The holder of a share is an address, or the subject of the client once it is known. Nothing here
reads HTTP: `raftnode.api.guard` applies the limits to requests.
"""

from __future__ import annotations
