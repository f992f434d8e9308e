"""Why the core refuses, waits, halts or calls a storage stale: as data, not as sentences.

- `refusals`: why a request of a client or an administrator is not done;
- `waits`: what a voter change, a target or an upgrade waits for;
- `halts`: why the core stops for good;
- `staleness`: what shows that a peer's storage was restored from an old copy.

The core decides and names the reason with its figures. `raftnode.runtime.reason_sentences` has the
sentences that people read (decision 40).
"""
