"""Requests between nodes with one thing wrong in them.

- `draft`: a good request taken apart, to be spoilt;
- `rows`: the table: what is wrong, and the answer;
- `fields`: which wrong values each field of a request can take, so that none is forgotten.
"""

from __future__ import annotations

from raftnode.testing.badrequests.draft import REQUESTS, Draft
from raftnode.testing.badrequests.fields import needed, spoilt
from raftnode.testing.badrequests.rows import wrong_requests
from raftnode.testing.badrequests.spoil import (
    CUT_OFF,
    SILENCE,
    STRANGER,
    TAKEN,
    TO_LEADER,
    Wrong,
)

__all__ = [
    "CUT_OFF",
    "REQUESTS",
    "SILENCE",
    "STRANGER",
    "TAKEN",
    "TO_LEADER",
    "Draft",
    "Wrong",
    "needed",
    "spoilt",
    "wrong_requests",
]
