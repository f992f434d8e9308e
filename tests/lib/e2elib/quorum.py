"""One KRaftQuorum on a cluster, and what a person does to it: blocking calls.

The operator gives a replica 1.5 s to answer. On a busy machine one look may therefore leave a
status without leader, epoch or voters, and with Available=False: until the next look. So what a
status tells is waited for, never read once.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from kraftquorum_devcluster.errors import CommandError
from kraftquorum_operator import names
from raftnode.core.types import Endpoint

from .api import Json
from .cluster import E2eCluster

READY_S = 180.0
"""Deadline of what should take seconds: a busy machine is no reason to fail."""
_POLL_S = 0.2
_REACHED = 3
"""So many nodes are named to the client; they lead it to the others."""


_Found = TypeVar("_Found")


class NotWithinError(AssertionError):
    """Something did not come about in time."""


class Quorum:
    """The KRaftQuorum `name` in a namespace.

    Attributes:
        name: Of the resource.
    """

    def __init__(self, e2e_cluster: E2eCluster, namespace: str, name: str = "demo") -> None:
        self.e2e_cluster, self.namespace, self.name = e2e_cluster, namespace, name

    # -- objects -----------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace.

        Raises:
            CommandError: It ended with an error.
        """
        return self.e2e_cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)

    def apply(self, **spec: Any) -> None:
        """Apply the resource; what is not said keeps its default, as for any user.

        This machine's clients are listed, as any user lists theirs.

        Raises:
            CommandError: The API server refused it.
        """
        body: Json = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": self.name},
            "spec": {"networkPolicy": {"clientsFrom": self.e2e_cluster.clients()}, **spec},
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def patch(self, **spec: Any) -> None:
        """Change fields of the spec."""
        change = json.dumps({"spec": spec})
        self.kubectl("patch", "krq", self.name, "--type=merge", "--patch", change)

    def body(self) -> Json:
        """The resource; empty if there is none."""
        return self.e2e_cluster.api.one("kraftquorums", self.name, self.namespace) or {}

    def has_tls(self) -> bool:
        """Whether its nodes speak TLS, as they do unless the resource says otherwise."""
        tls: Json = self.body().get("spec", {}).get("tls") or {}
        return tls.get("mode") != "Disabled"

    def client_ca(self) -> bytes | None:
        """The CAs that its clients trust; None: the operator has not made them yet."""
        found = self.e2e_cluster.api.one("configmaps", names.client_ca(self.name), self.namespace)
        return None if found is None else found["data"]["ca.crt"].encode()

    def status(self) -> Json:
        """Its status."""
        status: Json = self.body().get("status") or {}
        return status

    def condition(self, kind: str) -> Json:
        """One of its conditions; empty if it is not there."""
        found: list[Json] = self.status().get("conditions") or []
        nothing: Json = {}
        return next((one for one in found if one["type"] == kind), nothing)

    def all(self, kind: str) -> list[Json]:
        """Objects of the namespace."""
        return self.e2e_cluster.api.all(kind, self.namespace)

    def uids(self, kind: str) -> dict[str, str]:
        """UIDs of the quorum's pods or claims by their names."""
        return {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in self.all(kind)
            if one["metadata"].get("labels", {}).get(names.LABEL_INSTANCE) == self.name
        }

    def events(self, reason: str) -> list[Json]:
        """The resource's own events of a reason."""
        return [
            one
            for one in self.all("events")
            if one["reason"] == reason and one["involvedObject"]["kind"] == names.KIND
        ]

    # -- replicas ----------------------------------------------------------------------------

    @staticmethod
    def claim(pod: str) -> str:
        """Name of a pod's claim."""
        return f"{names.CLAIM_TEMPLATE}-{pod}"

    def pod(self, node_id: int) -> str:
        """Name of a replica's pod."""
        return names.pod(self.name, node_id)

    def voters(self) -> dict[int, str]:
        """Node ids and directory ids of the voters, as soon as the status tells them.

        Raises:
            NotWithinError: The status names none.
        """
        return self.found("voters", lambda: _voters(self.status()))

    def epoch(self) -> int:
        """The epoch, as soon as the status tells it.

        Raises:
            NotWithinError: The status names none.
        """
        return self.found("an epoch", lambda: int(self.status().get("epoch") or 0))

    def leader(self) -> int:
        """Node id of the leader.

        Raises:
            NotWithinError: The status names none.
        """
        return int(self._led()["leader"]["nodeId"])

    def follower(self) -> int:
        """Node id of a voter that does not lead.

        Raises:
            NotWithinError: The status names no leader.
        """
        status = self._led()
        leader = status["leader"]["nodeId"]
        return min(node_id for node_id in _voters(status) if node_id != leader)

    def _led(self) -> Json:
        """The next status with a leader, and so with the voters that it leads."""

        def look() -> Json:
            status = self.status()
            return status if status.get("leader") else {}

        return self.found("a leader", look)

    def one(self, role: str) -> int:
        """Node id of the leader or of a follower."""
        return self.leader() if role == "leader" else self.follower()

    def endpoints(self) -> list[Endpoint]:
        """Where a client begins."""
        domain = f"{names.headless_service(self.name)}.{self.namespace}.svc.cluster.local"
        return [Endpoint(f"{self.pod(n)}.{domain}", names.API_PORT) for n in range(_REACHED)]

    # -- waiting -----------------------------------------------------------------------------

    def until(self, what: str, holds: Callable[[], object], timeout_s: float = READY_S) -> float:
        """Wait until something holds; returns after how many seconds.

        Raises:
            NotWithinError: It does not in time; with the status as it is.
        """
        began = time.monotonic()
        self.found(what, holds, timeout_s)
        return time.monotonic() - began

    def found(self, what: str, look: Callable[[], _Found], timeout_s: float = READY_S) -> _Found:
        """Wait until a look finds something; returns that.

        Raises:
            NotWithinError: It does not in time; with the status as it is.
        """
        began = time.monotonic()
        while not (answer := look()):
            if time.monotonic() - began > timeout_s:
                status = self.status()
                told = {key: status.get(key) for key in ("phase", "doing", "message", "voters")}
                raise NotWithinError(f"not within {timeout_s:.0f} s: {what}; status {told}")
            time.sleep(_POLL_S)
        return answer

    def until_true(self, kind: str) -> float:
        """Wait until one of its conditions is true.

        Raises:
            NotWithinError: Not in time.
        """
        return self.until(f"{kind} is true", lambda: self.condition(kind).get("status") == "True")

    def is_ready(self, voters: int) -> bool:
        """Whether so many voters are committed and caught up, and nothing is left to do.

        Pods are asked as well: a status may be older than what just happened to them.
        """
        body = self.body()
        status: Json = body.get("status") or {}
        conditions: list[Json] = status.get("conditions") or []
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        if not ready or status["observedGeneration"] != body["metadata"]["generation"]:
            return False
        pods = [one for one in self.all("pods") if _is_ready(one)]
        return status["replicas"] == len(status["voters"]) == len(pods) == voters

    def until_ready(self, voters: int, timeout_s: float = READY_S) -> float:
        """Wait for `is_ready`.

        Raises:
            NotWithinError: Not in time.
        """
        return self.until(f"{voters} voters and ready", lambda: self.is_ready(voters), timeout_s)

    def until_replaced(self, node_id: int, old: str, voters: int = 3) -> float:
        """Wait until a replica has another storage and all is well.

        Raises:
            NotWithinError: Not in time.
        """

        def is_replaced() -> bool:
            return _voters(self.status()).get(node_id, old) != old and self.is_ready(voters)

        return self.until(f"replica {node_id} replaced", is_replaced)

    def until_recreated(self, pod: str, before: str, voters: int = 3) -> float:
        """Wait until a pod was made again and all is well.

        Raises:
            NotWithinError: Not in time.
        """

        def is_recreated() -> bool:
            return self.uids("pods").get(pod, before) != before and self.is_ready(voters)

        return self.until(f"pod {pod} made again", is_recreated)

    def restarts(self, pod: str) -> int:
        """How often the pod's container was started again."""
        body = self.e2e_cluster.api.one("pods", pod, self.namespace) or {"status": {}}
        statuses: list[Json] = body["status"].get("containerStatuses") or []
        return sum(int(one["restartCount"]) for one in statuses)

    def until_restarted(self, pod: str, before: int, voters: int = 3) -> float:
        """Wait until a container was started again and all is well.

        Raises:
            NotWithinError: Not in time.
        """

        def is_restarted() -> bool:
            return self.restarts(pod) > before and self.is_ready(voters)

        return self.until(f"{pod}'s container started again", is_restarted)

    # -- the end -----------------------------------------------------------------------------

    def remove(self) -> None:
        """Delete the resource, also where no operator takes its finalizer off."""
        with suppress(CommandError):
            self.kubectl("delete", "krq", self.name, "--ignore-not-found", "--timeout=40s")
            return
        nothing = '{"metadata":{"finalizers":[]}}'
        with suppress(CommandError):
            self.kubectl("patch", "krq", self.name, "--type=merge", "--patch", nothing)


def _voters(status: Json) -> dict[int, str]:
    voters: list[Json] = status.get("voters") or []
    return {one["nodeId"]: one["directoryId"] for one in voters}


def _is_ready(pod: Json) -> bool:
    conditions: list[Json] = pod["status"].get("conditions") or []
    going = "deletionTimestamp" in pod["metadata"]
    return not going and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
