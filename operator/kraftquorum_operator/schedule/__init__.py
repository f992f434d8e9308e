"""When a quorum is reconciled: after a change, a lost contact or a pause, and how many at once.

- `keepers`: one task for each quorum; `turns`: how many reconcile at once, and which is next;
- `wake_ups`, `replica_watches`: what ends a pause early: a change of an object, a lost contact;
- `pauses`: how long a quorum waits after a failure.
"""
