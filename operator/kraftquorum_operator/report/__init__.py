"""Reports to people: status, conditions and events, made from an observation and a decision.

Pure. Nothing here is ever read back to decide something.

- `status`: the status; `unobserved`, `deletion`: that of a quorum that the operator cannot observe,
  or deletes;
- `conditions`: the table of conditions; `stamp`: since when each of them stands;
- `operations`: operations in progress and their steps;
- `timeline`: the last faults, repairs and changes;
- `events`: the events of a reconciliation; `event_poster`: posts them, repeated ones as a count.
"""
