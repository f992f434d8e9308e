"""What committed records mean: pure functions of the log, the same on every replica."""
