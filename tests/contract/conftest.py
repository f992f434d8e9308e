"""Both kinds of node, and pods that do as they are told on either."""

import copy
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.errors import UnknownPodError
from kraftquorum_devcluster.images.build import REGISTRY

WORKLOAD = Path(__file__).with_name("workload.py").read_text(encoding="utf-8")
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


class Place:
    """A namespace on one of the kinds of node."""

    def __init__(self, cluster: DevCluster, namespace: str, kind: str, image: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kind = kind
        self.image = image

    # -- objects -----------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def get(self, *what: str) -> dict[str, Any]:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def create(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def container_spec(self, **fields: Any) -> dict[str, Any]:
        """A container with the workload, or whatever else ``command`` says."""
        spec = {
            "name": "main",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-c", WORKLOAD],
            **fields,
        }
        return {**spec, "env": [POD_IP, *fields.get("env", [])]}

    def pod_spec(
        self, container: dict[str, Any] | None = None, *, claim: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """A pod's spec with a place for data at /data: a claim, or nothing that outlives it."""
        main = self.container_spec(**(container or {}))
        main["env"] = [*main["env"], {"name": "DATA", "value": "/data"}]
        main["volumeMounts"] = [
            *main.get("volumeMounts", []),
            {"name": "data", "mountPath": "/data"},
        ]
        source = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        volumes = [{"name": "data", **source}] if claim != "template" else []
        return {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"fsGroup": 10001},
            **fields,
            "containers": [main],
            "volumes": [*volumes, *fields.get("volumes", [])],
        }

    def pod(self, name: str, container: dict[str, Any] | None = None, **fields: Any) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}
        spec = self.pod_spec(container, **fields)
        self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def claim(self, name: str, **fields: Any) -> None:
        self.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "16Mi"}},
                    **fields,
                },
            }
        )

    def stateful_set(self, replicas: int, container: dict[str, Any] | None = None) -> None:
        """``web``, with a headless Service and a claim for each replica."""
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [{"port": 8080}]}
        labels = {"app": "web"}
        ready = {"httpGet": {"path": "/probe/ready", "port": 8080}, "periodSeconds": 1}
        spec = self.pod_spec({"readinessProbe": ready, **(container or {})}, claim="template")
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
        self.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {**service, "selector": labels},
            },
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": replicas,
                    "serviceName": "web",
                    "podManagementPolicy": "Parallel",
                    "updateStrategy": {"type": "OnDelete"},
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": copy.deepcopy(spec)},
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
                },
            },
        )

    # -- what is seen ------------------------------------------------------------------------

    def found(self, pod: str) -> dict[str, Any]:
        """The pod, or nothing, so that a test can wait for one that is still to be made."""
        return json.loads(
            self.kubectl("get", f"pod/{pod}", "--ignore-not-found", "-o", "json") or "{}"
        )

    def uid(self, pod: str) -> str:
        return self.found(pod).get("metadata", {}).get("uid", "")

    def status(self, pod: str) -> dict[str, Any]:
        return self.found(pod).get("status", {})

    def phase(self, pod: str) -> str:
        return self.status(pod).get("phase", "")

    def container(self, pod: str) -> dict[str, Any]:
        return (self.status(pod).get("containerStatuses") or [{"state": {}}])[0]

    def waiting(self, pod: str) -> str:
        return self.container(pod)["state"].get("waiting", {}).get("reason", "")

    def condition(self, pod: str, kind: str) -> dict[str, Any]:
        conditions = self.status(pod).get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), {"status": "absent"})

    def is_ready(self, pod: str) -> bool:
        return self.condition(pod, "Ready")["status"] == "True"

    def ready_replicas(self) -> int:
        return self.get("statefulset/web")["status"].get("readyReplicas", 0)

    def exists(self, what: str) -> bool:
        return bool(self.kubectl("get", what, "--ignore-not-found", "-o", "name"))

    # -- what the workload does --------------------------------------------------------------

    def ask(self, pod: str, path: str, /, **query: str) -> Any:
        address = self.cluster.pod_address(self.namespace, pod)
        url = f"http://{address}:8080/{path}?{urllib.parse.urlencode(query)}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=5) as answer:
            return json.load(answer)

    def answers(self, pod: str) -> bool:
        try:
            self.ask(pod, "args")
        except (OSError, UnknownPodError):
            return False
        return True

    def end(self, pod: str, code: int, **query: str) -> None:
        """Let the workload end with an exit code."""
        try:
            self.ask(pod, "exit", code=str(code), **query)
        except (OSError, ValueError):
            return
        raise AssertionError("the workload went on")

    # -- time --------------------------------------------------------------------------------

    @staticmethod
    def until(condition: Callable[[], object], what: str, timeout_s: float = 40) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
            time.sleep(0.1)

    def until_up(self, *pods: str) -> None:
        """Wait by the pods themselves: their StatefulSet may still count what was before."""
        for pod in pods:
            self.until(lambda pod=pod: self.is_ready(pod), f"{pod} ready")
            self.until(lambda pod=pod: self.answers(pod), f"{pod} answering")

    def until_replaced(self, pod: str, uid: str) -> None:
        """Wait for another pod of this name; on a busy machine that takes long."""
        self.until(lambda: self.uid(pod) not in ("", uid), f"{pod} recreated", 90)
        self.until_up(pod)


@pytest.fixture(
    params=[
        pytest.param(
            "process", marks=[pytest.mark.cluster, pytest.mark.extended, pytest.mark.nightly]
        ),
        pytest.param("kubelet", marks=pytest.mark.e2e),
    ]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A new namespace on each kind of node in turn."""
    kind: str = request.param
    name = "devcluster" if kind == "process" else "realcluster"
    cluster: DevCluster = request.getfixturevalue(name)
    image = "none" if kind == "process" else f"{REGISTRY}/node:e2e"
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40]
    namespace = f"{test.strip('-')}-{uuid.uuid4().hex[:6]}"
    cluster.kubectl("create", "namespace", namespace)
    if kind == "kubelet":  # a pod is refused before its namespace's account is there
        account = ["get", "serviceaccount/default", "--ignore-not-found", "-o", "name"]
        Place.until(lambda: cluster.kubectl("-n", namespace, *account), "the service account")
    yield Place(cluster, namespace, kind, image)
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
