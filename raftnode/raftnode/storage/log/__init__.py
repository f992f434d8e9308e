"""The log as one sequence of records: appended, flushed, read, truncated, recovered at start."""
