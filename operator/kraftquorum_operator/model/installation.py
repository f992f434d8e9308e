"""What the operator's installation decides for the objects of every quorum.

It comes from the operator's settings. A resource cannot change it, except where a field says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator import names
from kraftquorum_operator.model.network_policy import Peer

NODE_USER_ID = 10_001
"""User and group of the nodes' processes, as in the image."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation of an operator.

    Attributes:
        namespace: of the operator's pods; None: the operator runs outside of the cluster.
        metrics_from: readers of the metrics of all nodes.
        pull_secrets: names of Secrets for the nodes' image, for a resource that names none.
        user_id: user and group of the nodes' processes; None: the cluster assigns them.
        cluster_domain: what names of Services end with. A quorum keeps the one that it was made
            with.
        node_image: of a quorum whose spec names none.
    """

    namespace: str | None = None
    metrics_from: tuple[Peer, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    user_id: int | None = NODE_USER_ID
    cluster_domain: str = names.CLUSTER_DOMAIN
    node_image: str = names.NODE_IMAGE
