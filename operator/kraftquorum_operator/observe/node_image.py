"""The image of the nodes of a quorum."""

from __future__ import annotations

from kraftquorum_operator.model.observation import StatefulSet
from kraftquorum_operator.model.spec import QuorumSpec


def node_image_of(spec: QuorumSpec, statefulset: StatefulSet | None, default: str) -> str:
    """The image that a quorum has: of its spec, or the one that it keeps, or else the default.

    The default is that of the operator's settings, which an upgrade of the operator changes. If it
    held for quorums that exist, the upgrade would restart all of their nodes. An image of the spec
    is not kept: it may be a wrong one, which the person takes back.
    """
    kept = statefulset.image if statefulset is not None else None
    return spec.image or kept or default


def next_image_of(spec: QuorumSpec, statefulset: StatefulSet | None, default: str) -> str | None:
    """The image that a quorum is to change to once it is its turn; None: it has it."""
    if spec.image is not None or spec.image_updates != "Automatic":
        return None
    return default if node_image_of(spec, statefulset, default) != default else None
