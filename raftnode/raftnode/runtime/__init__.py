"""The running node: gives the core its events and carries its effects out.

- `server`: a node from start to stop; `builders`: how its parts are put together;
- `driver`: the one task that owns the core; `inquiries`: requests to it that wait for an answer;
- `recovery`: from the content of the disk to a core;
- `outcomes`: the one outcome of a request whose deadline its client keeps;
- `service`: the node as the API's `NodeService`; `description`: the state that the API shows;
  `reason_sentences`: the sentences for the core's reasons;
- `read_barrier`: when a linearizable read may answer; `committed_reads`: reads of the committed
  log and of the key-value store; `awaited_commit`: the commit that a follower's clients wait for;
- `writes`: clients' writes gathered into batches, fdatasync in its own thread, the committed
  log into the key-value store;
- `snapshots`: taking, sending, fetching and restoring them;
- `disk`: identity, room and health of the disk, and reads that may take long;
- `peers`: admission of peers, the hello, promises not to vote, frames as events and effects as
  frames;
- `process`: signals, tasks, clocks, log lines, the watchdog;
- `metrics`: the metrics for Prometheus.
"""
