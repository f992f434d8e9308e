"""Crashes at every system call: `make crash POINTS=n`, and a sample of it in `make test`.

There are seven kinds of crash, and one oracle for the data that must survive each:

- *power*: the simulated disk loses what was not synced, or part of it, in any order (`history`).
- *kill*: a process on a real file system ends by SIGKILL before, after or in the middle of its
  n-th modifying system call, in a write, a roll, a vote, a snapshot or a truncation (`processes`).
- *trim*, *install*: the one or the other, at each call of a trim or of a fetched snapshot that
  takes the place of the log, in histories that have them.
- *node*: a whole node, with its event loop, its threads and a client, is killed likewise, or by a
  SIGKILL from outside at some time; what it acknowledged is compared with the syncs that had
  returned by then (`nodes`, `durable_end`).
- *slow*: either, at each call of histories in which a flush is held: it returns late or never,
  while appends, reads, votes, snapshots and trims go on, and others wait behind it (`held_flush`).
- *slow-node*: as *node*, with flushes that take long or do not return.

A point is one crash, the next start (which sometimes crashes too), and the comparison. `history`
makes the steps, and `oracle` computes the data that must survive.
"""
