"""The state machine of committed records: a pure function of the log, equal on every replica."""
