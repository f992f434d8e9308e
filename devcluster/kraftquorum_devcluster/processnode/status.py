"""The status that the node reports for a pod (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kraftquorum_devcluster.objects import Json

_END_REASONS = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


@dataclass(frozen=True, slots=True)
class Terminated:
    """How a container's process ended.

    Attributes:
        begun: Whether there was a process at all.
    """

    exit_code: int
    started_at: str
    finished_at: str
    container_id: str
    message: str = ""
    begun: bool = True

    @property
    def reason(self) -> str:
        """Kubernetes' word for it."""
        if not self.begun:
            return "StartError"
        return "Completed" if self.exit_code == 0 else "Error"

    def as_json(self) -> Json:
        """As in ``containerStatuses[].state.terminated``."""
        body: Json = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
            "containerID": self.container_id,
        }
        if self.message:
            body["message"] = self.message
        return body


@dataclass(slots=True)
class ContainerState:
    """All that is known of one container.

    Attributes:
        waiting: Reason and message while it does not run.
        running_since: Start of the running process, None if there is none.
        terminated: How it ended, if it stays so.
        last: How the process before this one ended.
        started: Whether the startup probe has passed.
        ready: Whether the readiness probe holds.
    """

    name: str
    image: str
    restart_count: int = 0
    waiting: tuple[str, str] = ("ContainerCreating", "")
    running_since: str | None = None
    terminated: Terminated | None = None
    last: Terminated | None = None
    container_id: str = ""
    started: bool = False
    ready: bool = False

    def as_json(self) -> Json:
        """As in ``containerStatuses[]``."""
        if self.running_since is not None:
            state: Json = {"running": {"startedAt": self.running_since}}
        elif self.terminated is not None:
            state = {"terminated": self.terminated.as_json()}
        else:
            reason, message = self.waiting
            state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "containerID": self.container_id,
            "restartCount": self.restart_count,
            "started": self.started,
            "ready": self.ready,
            "state": state,
            "lastState": {"terminated": self.last.as_json()} if self.last else {},
        }


def phase(states: Sequence[ContainerState]) -> str:
    """The pod's phase."""
    if states and all(state.terminated is not None for state in states):
        failed = any(s.terminated is not None and s.terminated.exit_code != 0 for s in states)
        return "Failed" if failed else "Succeeded"
    begun = any(s.running_since or s.terminated or s.last or s.restart_count for s in states)
    return "Running" if begun else "Pending"


def conditions(states: Sequence[ContainerState], before: Sequence[Json], now: str) -> list[Json]:
    """The conditions that the kubelet owns; times change only with the status.

    Args:
        states: Containers of the pod.
        before: The pod's conditions as last reported.
        now: Time of a change.
    """
    unready = sorted(state.name for state in states if not state.ready)
    reason = _END_REASONS.get(phase(states), "ContainersNotReady")
    done = reason != "ContainersNotReady"
    message = "" if done else f"containers with unready status: [{' '.join(unready)}]"
    held: dict[str, tuple[bool, str, str]] = {
        "PodReadyToStartContainers": (True, "", ""),
        "Initialized": (True, "", ""),
        "ContainersReady": (not unready, reason, message) if unready else (True, "", ""),
        "Ready": (not unready, reason, message) if unready else (True, "", ""),
    }
    known = {condition["type"]: condition for condition in before}
    result: list[Json] = []
    for kind, (holds, why, text) in held.items():
        status = "True" if holds else "False"
        old = known.get(kind)
        since = old["lastTransitionTime"] if old and old["status"] == status else now
        condition: Json = {"type": kind, "status": status, "lastTransitionTime": since}
        # null takes an earlier reason away when this is merged
        result.append({**condition, "reason": why or None, "message": text or None})
    return result


def pod_status(
    states: Sequence[ContainerState],
    *,
    pod_ip: str,
    host_ip: str,
    start_time: str,
    before: Sequence[Json],
    now: str,
) -> Json:
    """The status as a strategic-merge patch."""
    return {
        "phase": phase(states),
        "podIP": pod_ip,
        # `podIPs` merges by address: without the directive an old one would stay
        "podIPs": [{"$patch": "replace"}, {"ip": pod_ip}],
        "hostIP": host_ip,
        "startTime": start_time,
        "containerStatuses": [state.as_json() for state in states],
        "conditions": conditions(states, before, now),
    }
