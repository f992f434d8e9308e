"""The dashboards: `parts` says what they are made of, one module for each, `grafana` builds them.

Only `grafana` knows the SDK, which is in the dev extra.
"""

from .fleet import FLEET
from .kafka import KAFKA
from .node import NODE
from .operator import OPERATOR
from .parts import Dashboard
from .quorum import QUORUM

DASHBOARDS: tuple[Dashboard, ...] = (FLEET, QUORUM, NODE, OPERATOR, KAFKA)

__all__ = ["DASHBOARDS", "FLEET", "KAFKA", "NODE", "OPERATOR", "QUORUM", "Dashboard"]
