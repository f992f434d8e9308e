"""A StatefulSet of small web servers, and ways to look at it."""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from kraftquorum_devcluster import DevCluster

MANIFEST = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: %(replicas)d
  serviceName: web
  podManagementPolicy: Parallel
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 3
      containers:
      - name: main
        image: none
        command: [python, -m, http.server, "8080", --bind, $(POD_IP), --directory, /data]
        env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        readinessProbe:
          httpGet: {path: /, port: 8080}
          periodSeconds: 1
          failureThreshold: 2
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


class Web:
    """What a test does with its namespace."""

    def __init__(self, cluster: DevCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def get(self, *what: str) -> dict[str, Any]:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def apply(self, replicas: int = 1) -> None:
        self.kubectl("apply", "-f", "-", stdin=MANIFEST % {"replicas": replicas})
        self.wait_ready(replicas)

    def pod(self, manifest: dict[str, Any]) -> None:
        self.kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    def wait_ready(self, replicas: int) -> None:
        """Wait by the pods themselves: their StatefulSet may still count what was before."""
        for ordinal in range(replicas):
            self.until(lambda pod=f"web-{ordinal}": self.ready(pod), f"web-{ordinal} ready")

    def found(self, pod: str = "web-0") -> dict[str, Any]:
        """The pod, or nothing, so that a test can wait for one that is still to be made."""
        return json.loads(
            self.kubectl("get", f"pod/{pod}", "--ignore-not-found", "-o", "json") or "{}"
        )

    def ready(self, pod: str = "web-0") -> bool:
        conditions = self.found(pod).get("status", {}).get("conditions") or []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def container(self, pod: str = "web-0") -> dict[str, Any]:
        statuses = self.found(pod).get("status", {}).get("containerStatuses") or [{}]
        return statuses[0]

    def until_said(self, words: str, pod: str) -> None:
        """Wait for words in the pod's log, which it has only once it runs."""

        def said() -> bool:
            return self.container(pod).get("ready", False) and words in self.kubectl("logs", pod)

        self.until(said, f"{words!r} in the log of {pod}")

    def until_events(self, *reasons: str) -> list[dict[str, Any]]:
        """Wait for events with these reasons, which are sent behind what they tell of."""
        seen: list[dict[str, Any]] = []

        def told() -> bool:
            seen[:] = self.get("events")["items"]
            return set(reasons) <= {event["reason"] for event in seen}

        self.until(told, f"events {reasons}")
        return [event for event in seen if event["reason"] in reasons]

    def process(self, pod: str = "web-0") -> int:
        return self.cluster.pod_process(self.namespace, pod)

    def fetch(self, path: str, pod: str = "web-0") -> bytes:
        address = self.cluster.pod_address(self.namespace, pod)
        with urllib.request.urlopen(f"http://{address}:8080/{path}", timeout=5) as answer:
            return answer.read()

    @staticmethod
    def until(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
            time.sleep(0.05)


@pytest.fixture
def web(devcluster: DevCluster, namespace: str) -> Web:
    return Web(devcluster, namespace)
