"""Core dumps, which have the memory of a process: its keys and tokens."""

from __future__ import annotations

import resource

NO_CORE = 1
"""As the limit of the size of a core dump: too small for a file, and Linux gives none to a program
either, which it otherwise does at any limit, 0 included."""


def forbid_core_dumps() -> str:
    """Let the system write no memory of this process to a disk when it crashes.

    Returns:
        Why the system did not allow it; empty: it did.
    """
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (NO_CORE, NO_CORE))
    except (OSError, ValueError) as problem:
        # The limit may be 0 for good: then no file is written, but a program may get the memory.
        limit, _ = resource.getrlimit(resource.RLIMIT_CORE)
        return f"{problem}; the limit is {limit}"
    return ""
