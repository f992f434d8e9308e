"""What an alert is made of, and how its text names what it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

RUNBOOKS = "https://github.com/kraftquorum/kraftquorum/blob/main/docs/operations/runbooks"
"""Where the runbooks are read; the chart can put another place here."""

IN_CLUSTER = "{{ with $labels.cluster }} in cluster {{ . }}{{ end }}"
"""Names the Kubernetes cluster if the series have the label `cluster`."""

QUORUM_NAME = f"{{{{ $labels.namespace }}}}/{{{{ $labels.quorum }}}}{IN_CLUSTER}"
WHICH = f"Quorum {QUORUM_NAME}"
OF_QUORUM = f"of quorum {QUORUM_NAME}"
NODE = f"Node {{{{ $labels.node_id }}}} {OF_QUORUM}"
PEER = f"Replica {{{{ $labels.peer_id }}}}-{{{{ $labels.peer_directory_id }}}} {OF_QUORUM}"

NODE_UP = 'up{quorum!="", node_id!=""}'
"""What Prometheus says of the scrapes of the nodes, which alone have both labels."""


def kebab(name: str) -> str:
    """An alert's name as its runbook's file name."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: in CamelCase.
        severity: who is called.
        expression: PromQL; it fires for each series that this has.
        lasts: for how long before it fires, in Prometheus' notation.
        summary: one line for the pager.
        description: what it means and what is known, with the value.
    """

    name: str
    severity: Literal["critical", "warning"]
    expression: str
    lasts: str
    summary: str
    description: str

    @property
    def runbook_url(self) -> str:
        """Where its runbook is read."""
        return f"{RUNBOOKS}/{kebab(self.name)}.md"
