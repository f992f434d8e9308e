"""What the functions of this package work with."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.nodes import NodeApi
from kraftquorum_operator.errors import NodeUnreachableError
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.actions import Decision


@dataclass(slots=True)
class Failpoints:
    """Ends or stops the operator at a chosen step; only tests set it."""

    exit_before_action: int = 0
    stop_before_delete: int = 0
    actions: int = 0
    deletes: int = 0

    def before_action(self) -> None:
        """End without a chance to clean up, before the chosen action."""
        self.actions += 1
        if self.actions == self.exit_before_action:
            os.kill(os.getpid(), signal.SIGKILL)

    def before_delete(self) -> None:
        """Stop between the decision and the request, before the chosen DELETE."""
        self.deletes += 1
        if self.deletes == self.stop_before_delete:
            os.kill(os.getpid(), signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class Tools:
    """Connections, the observation that was decided on, and the bodies that are wanted."""

    kube: KubeClient
    nodes: NodeApi
    owner: Owner
    observation: Observation
    bodies: Mapping[ObjectRef, Body]
    change_timeout_ms: int
    failpoints: Failpoints
    spec: QuorumSpec = field(default_factory=QuorumSpec)
    decide_again: Callable[[], Awaitable[Decision | None]] | None = None
    """Observes the quorum again and decides; None: the resource is gone or being deleted."""

    def address(self, ordinal: int) -> str:
        """Where the API of a replica's pod listens.

        Raises:
            NodeUnreachableError: the pod has no address.
        """
        pod = self.observation.pod(ordinal)
        if pod is None or pod.address is None:
            msg = f"replica {ordinal} has no address"
            raise NodeUnreachableError(msg)
        return pod.api_address
