"""The alerts: what needs a person at once, or at least in the morning.

`critical`: writes have stopped, or one more fault stops them, or no operator runs. `warning`: the
operator is on it, or there is time. Each lasts long enough that what the operator repairs by
itself in its usual time fires no alert. Each has a runbook, named after it.
"""

from __future__ import annotations

from .alert import RUNBOOKS, Alert, kebab
from .disks import DISKS
from .kafka import KAFKA
from .nodes import NODES
from .operator import OPERATOR
from .quorum import QUORUM

ALERTS: tuple[Alert, ...] = (*QUORUM, *NODES, *DISKS, *OPERATOR, *KAFKA)

__all__ = ["ALERTS", "RUNBOOKS", "Alert", "kebab"]
