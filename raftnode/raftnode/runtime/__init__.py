"""The running node: gives the core its events and carries its effects out.

- `server`: a node from start to stop; `builders`: which part knows which;
- `driver`: the one task that owns the core; `inquiries`: requests to it that wait for an answer;
- `recovery`: from what the disk holds to a core;
- `service`: all of it as the HTTP API's `NodeService`; `description`: what the API shows;
- `writes`: clients' writes gathered into batches, fdatasync in its own thread, the committed
  log into the key-value store;
- `snapshots`: taken, sent, fetched, restored;
- `disk`: identity, room and health of the disk, and reads that may take long;
- `peers`: who is admitted, the hello, promises not to vote, frames as events and effects as
  frames;
- `process`: signals, tasks, clocks, log lines, the watchdog;
- `metrics`: what Prometheus gets.
"""
