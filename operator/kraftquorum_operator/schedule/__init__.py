"""When a quorum is reconciled: after a change, a lost contact or a pause, and how many at once."""
