"""Clients' writes and the committed log: appending, flushing and applying.

- `appends`: gathers writes into batches, and gives each write its one outcome;
- `flusher`: makes the log durable, in a thread of its own;
- `applier`: applies the committed log to the store, and lets readers wait for it.
"""
