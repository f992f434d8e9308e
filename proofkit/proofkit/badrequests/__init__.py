"""Requests between nodes, each with one fault.

- `draft`: a good request, decoded so that a test can change it;
- `rows`: the table of faults and answers; `request_faults`: what a row is made of; `head`: faults
  around the body; `compact`: those of the compact Fetch;
- `clients`: what a client's bytes get wrong around a request to the API; `batches`: what is wrong
  in a batch that the client finished;
- `fields`: which wrong values each field of a request can take, so that none is forgotten.
"""

from __future__ import annotations

from proofkit.badrequests.draft import REQUESTS, Draft
from proofkit.badrequests.fields import needed, spoilt
from proofkit.badrequests.request_faults import (
    CUT_OFF,
    SILENCE,
    STRANGER,
    TAKEN,
    TO_LEADER,
    Wrong,
)
from proofkit.badrequests.rows import wrong_requests

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
