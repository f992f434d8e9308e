"""What a node asks of its interpreter: that it never stands still for long.

Called by the process alone: both hold for the whole of it.
"""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.001
"""How long a thread may go on while another waits for the interpreter. Python's own 5 ms would
hold the loop up again and again beside a snapshot, a scrub or a load."""


def take_turns() -> None:
    """Let threads change places more often than Python does by itself."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def settle() -> None:
    """Collect garbage once, and keep all that is there now out of every later collection.

    The program itself is some hundred thousand objects, which live as long as the process. A
    full collection walks through them in 50 ms, and nothing else runs meanwhile. The state is
    not among them, now or later: its entries are bytes, of which the collector knows nothing.
    """
    gc.collect()
    gc.freeze()
