"""Settings of the interpreter, so that it never stands still for long.

Only the process calls these functions: both settings hold for the whole process.
"""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.001
"""How long a thread may go on while another waits for the interpreter. Python's own 5 ms would
delay the loop again and again beside a snapshot, a scrub or a load."""


def take_turns() -> None:
    """Let threads switch more often than by Python's default."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def settle() -> None:
    """Collect garbage once, and keep all present objects out of every later collection.

    The program itself is some hundred thousand objects, which live as long as the process. A full
    collection walks through them in 50 ms, and no other thread runs meanwhile. The state is not
    among these objects: its entries are bytes, which the collector does not track.
    """
    gc.collect()
    gc.freeze()
