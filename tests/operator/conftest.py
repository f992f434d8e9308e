"""The operator as a process of its own, on devcluster's real API server."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kraftquorum_demo.background import Account, BackgroundWriters
from kraftquorum_demo.faults import wipe
from kraftquorum_demo.plan import SHORT
from kraftquorum_demo.report import CONTROL_SHOWN
from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.errors import CommandError, DevClusterError
from kraftquorum_operator.model.crd import KAFKA_QUORUM, render
from raftnode.core.types import Endpoint

OPERATOR = Path(sys.executable).parent / "kraftquorum-operator"
LEASE_S = 2
PATIENCE_S = 180.0
"""How long a test waits for something good: only one that fails ever waits so long."""
STALL_MAX_S = 15.0
"""A leadership transfer takes tens of milliseconds, an election a few seconds on a busy machine."""

PLURALS = {
    "krq": "apis/kraftquorum.io/v1alpha1/namespaces/{}/kraftquorums",
    "pods": "api/v1/namespaces/{}/pods",
    "pvc": "api/v1/namespaces/{}/persistentvolumeclaims",
    "configmaps": "api/v1/namespaces/{}/configmaps",
    "events": "api/v1/namespaces/{}/events",
    "sts": "apis/apps/v1/namespaces/{}/statefulsets",
    "pdb": "apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "networkpolicy": "apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
}
LEASE = "apis/coordination.k8s.io/v1/namespaces/{}/leases/kraftquorum-operator"


class Api:
    """GET on one kept connection: a kubectl for each look would cost half a core."""

    def __init__(self, cluster: DevCluster) -> None:
        url = urlsplit(cluster.server_url)
        context = ssl.create_default_context(cafile=str(cluster.ca_file))
        assert url.hostname is not None
        self._connection = http.client.HTTPSConnection(
            url.hostname, url.port, timeout=30, context=context
        )
        self._headers = {"Authorization": f"Bearer {cluster.token}"}

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """GET; tried again once, since an idle connection may have been closed."""
        return self._send("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """POST; only what does no harm twice."""
        return self._send("POST", path, json.dumps(body))

    def _send(self, method: str, path: str, body: str | None = None) -> tuple[int, dict[str, Any]]:
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        for attempt in (1, 2):
            try:
                self._connection.request(method, f"/{path}", body, headers=headers)
                answer = self._connection.getresponse()
                return answer.status, json.loads(answer.read())
            except (http.client.HTTPException, OSError):
                self._connection.close()
                if attempt == 2:
                    raise
        raise AssertionError

    def close(self) -> None:
        self._connection.close()


class Operators:
    """Operator processes of one test; all of them end with it."""

    def __init__(self, cluster: DevCluster, namespace: str, logs: Path) -> None:
        self.cluster, self.namespace, self.logs = cluster, namespace, logs
        self.processes: list[subprocess.Popen[bytes]] = []
        self.api = Api(cluster)

    def start(
        self,
        kubeconfig: Path | None = None,
        *,
        program: Sequence[str | Path] = (OPERATOR,),
        **settings: object,
    ) -> subprocess.Popen[bytes]:
        """Start one; settings are KRAFTQUORUM_* variables."""
        number = len(self.processes)
        environment = os.environ | {
            "KRAFTQUORUM_IDENTITY": f"operator-{number}",
            "KRAFTQUORUM_LEASE_DURATION_S": str(LEASE_S),
            "KRAFTQUORUM_RECONCILE_BUSY_S": "0.3",
            "KRAFTQUORUM_RECONCILE_IDLE_S": "2",
            "KRAFTQUORUM_SECRETS_INTERVAL_S": "2",
            # A node that answers late on a busy machine is not a silent one.
            "KRAFTQUORUM_NODE_TIMEOUT_S": "5",
        }
        environment |= {f"KRAFTQUORUM_{k.upper()}": str(v) for k, v in settings.items()}
        with (self.logs / f"operator-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *program,
                    "run",
                    "--namespace",
                    self.namespace,
                    "--kubeconfig",
                    kubeconfig or self.cluster.kubeconfig,
                ],
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End one; by SIGKILL if SIGTERM does not."""
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def holds_lease(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether one is the active one."""
        path = LEASE.format(self.namespace)
        status, lease = self.api.get(path)
        identity = f"operator-{self.processes.index(process)}"
        return status == 200 and lease["spec"]["holderIdentity"] == identity

    def actions(self) -> list[str]:
        """What all of them did, as `Action what`."""
        lines = [
            json.loads(line)
            for path in sorted(self.logs.glob("operator-*.log"))
            for line in path.read_text().splitlines()
            if line.startswith("{")
        ]
        return [
            f"{line['action']} {line['what']} {line['result']}"
            for line in lines
            if line["event"] == "action_finished"
        ]

    def log(self) -> str:
        """The last lines of all logs."""
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text().splitlines()[-25:])
            for path in sorted(self.logs.glob("operator-*.log"))
        )


class Krq:
    """One KRaftQuorum named `demo`, and what a person does to it."""

    def __init__(self, cluster: DevCluster, namespace: str, operators: Operators) -> None:
        self.cluster, self.namespace, self.operators = cluster, namespace, operators
        self.api = operators.api

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def apply(self, **spec: Any) -> None:
        """Apply the resource; plain if `tls` says nothing, and with its default if `tls` is None."""
        spec = {"tls": {"mode": "Disabled"}, **spec}
        if spec["tls"] is None:
            del spec["tls"]
        body = {
            "apiVersion": "kraftquorum.io/v1alpha1",
            "kind": "KRaftQuorum",
            "metadata": {"name": "demo"},
            "spec": spec,
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def get(self, kind: str = "krq", name: str = "demo") -> dict[str, Any]:
        kind = {"pod": "pods"}.get(kind, kind)
        status, body = self.api.get(f"{PLURALS[kind].format(self.namespace)}/{name}")
        assert status == 200, body
        return body

    def list(self, kind: str) -> list[dict[str, Any]]:
        status, body = self.api.get(PLURALS[kind].format(self.namespace))
        assert status == 200, body
        return body["items"]

    def status(self) -> dict[str, Any]:
        return self.get().get("status", {})

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition; one that is not shown is False, once there is a status."""
        present = self.status().get("conditions", [])
        found = [c for c in present if c["type"] == kind]
        return found[0] if found else {"status": "False"} if present else {}

    def available(self) -> None:
        """Wait until the operator reports that writes are taken."""
        self.until("writes are taken", lambda: self.condition("Available").get("status") == "True")

    def reported(self) -> list[tuple[int, str]]:
        """The voters as last reported: none, if the last look met no leader in time."""
        return [(v["nodeId"], v["directoryId"]) for v in self.status().get("voters", [])]

    def audited(self) -> list[dict[str, Any]]:
        """The lines of the audit logs of all pods."""
        return [
            json.loads(line)
            for pod in self.list("pods")
            for line in self.kubectl("logs", pod["metadata"]["name"]).splitlines()
            if '"authenticated_by"' in line
        ]

    def voters(self) -> list[tuple[int, str]]:
        """The voters, waited for if the last look met no leader."""
        found: list[tuple[int, str]] = []

        def told() -> bool:
            found[:] = self.reported()
            return bool(found)

        self.until("voters reported", told)
        return found

    def leader(self) -> int:
        """Node id of the leader, waited for if the last look met none."""
        return self.until_status("a leader", lambda status: "leader" in status)["leader"]["nodeId"]

    def until_status(self, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status, and return the one that held: the next look's may be another."""
        found: dict[str, Any] = {}

        def seen() -> bool:
            found.clear()
            found.update(self.status())
            return bool(found) and holds(found)

        self.until(what, seen)
        return found

    def _present(self) -> str:
        """Resources, pods and what the development cluster has logged last, for failures."""
        resources = [{"spec": one["spec"], "status": one.get("status")} for one in self.list("krq")]
        pods = [
            {
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
                "deleted": pod["metadata"].get("deletionTimestamp"),
                "phase": pod["status"].get("phase"),
                "conditions": {c["type"]: c["status"] for c in pod["status"].get("conditions", [])},
            }
            for pod in self.list("pods")
        ]
        log = (self.cluster.state_dir / "supervisor.log").read_text(errors="replace")
        return "\n".join(
            [
                *(json.dumps(one) for one in (*resources, *pods)),
                "--- supervisor.log",
                *log.splitlines()[-25:],
            ]
        )

    def until(self, what: str, holds: Callable[[], bool], timeout_s: float = PATIENCE_S) -> float:
        """Wait until something holds; returns after how many seconds."""
        started = time.monotonic()
        while not holds():
            if time.monotonic() - started > timeout_s:
                raise AssertionError(f"not {what}:\n{self._present()}\n{self.operators.log()}")
            time.sleep(0.1)
        return time.monotonic() - started

    def is_ready(self, voters: int) -> bool:
        body = self.get()
        status = body.get("status", {})
        ready = [c["status"] for c in status.get("conditions", []) if c["type"] == "Ready"]
        return (
            status.get("observedGeneration") == body["metadata"]["generation"]
            and ready == ["True"]
            and status["replicas"] == len(status["voters"]) == voters
        )

    def ready(self, voters: int) -> float:
        return self.until(f"{voters} voters and ready", lambda: self.is_ready(voters))

    def replaced(self, node_id: int, old: str, voters: int = 3) -> float:
        """Wait until one replica has another storage and all is well."""

        def is_replaced() -> bool:
            now = dict(self.reported())
            return now.get(node_id, old) != old and self.is_ready(voters)

        return self.until(f"replica {node_id} replaced", is_replaced)

    def wipe(self, ordinal: int) -> None:
        """Empty a volume under its running process (S4)."""
        wipe(self.cluster.volume_dir(self.namespace, f"data-demo-{ordinal}"))

    def is_formatted(self, ordinal: int) -> bool:
        """Whether the volume of an ordinal's present claim, not its predecessor's, has a UUID."""
        claim = f"data-demo-{ordinal}"
        try:
            folder = self.cluster.volume_dir(self.namespace, claim)
        except DevClusterError:
            return False
        uid = self.get("pvc", claim)["metadata"]["uid"]
        return folder.name == f"pvc-{uid}" and self.directory_id(ordinal) is not None

    def fill(self, ordinal: int, content: Path) -> None:
        """Copy a volume's earlier content onto it."""
        folder = self.cluster.volume_dir(self.namespace, f"data-demo-{ordinal}")
        shutil.copytree(content, folder, dirs_exist_ok=True)

    def directory_id(self, ordinal: int) -> str | None:
        """Storage UUID of the volume of an ordinal, as it is on the disk."""
        folder = self.cluster.volume_dir(self.namespace, f"data-demo-{ordinal}")
        for path in folder.rglob("meta.properties"):
            for line in path.read_text().splitlines():
                key, _, value = line.partition("=")
                if key == "directory.id":
                    return value
        return None

    def latches(self) -> list[dict[str, Any]]:
        """All latches of the namespace."""
        return [c for c in self.list("configmaps") if "latch" in c["metadata"]["name"]]

    def latched(self) -> set[tuple[int, str]]:
        """The first voters."""
        (latch,) = self.latches()
        voters = json.loads(latch["data"]["voters"])
        return {(voter["nodeId"], voter["directoryId"]) for voter in voters}

    def changes(self, account: Account) -> list[tuple[str, int | None, str | None]]:
        """How the log says that the voters changed after the formation."""
        found = [c for c in account.controls if c.kind in CONTROL_SHOWN]
        return [(c.kind, c.node_id, c.directory_id) for c in found[len(self.latched()) :]]

    def break_disk(self, ordinal: int) -> None:
        """Take the storage's identity away, so that the node asks to be replaced."""
        folder = self.cluster.volume_dir(self.namespace, f"data-demo-{ordinal}")
        next(folder.rglob("meta.properties")).unlink()
        self.kubectl("delete", "pod", f"demo-{ordinal}", "--wait=false")

    def evict(self, ordinal: int) -> int:
        """Ask for an eviction as `kubectl drain` does; the HTTP status."""
        name = f"demo-{ordinal}"
        meta = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        path = f"{PLURALS['pods'].format(self.namespace)}/{name}/eviction"
        return self.api.post(path, body)[0]

    def delete(self) -> None:
        self.kubectl("delete", "krq", "demo", "--wait=false")
        self.until("the resource gone", lambda: not self.list("krq"))

    def counted(self) -> set[str]:
        """Names of the pods that the disruption budget selects and that exist."""
        listed = {
            name
            for budget in self.list("pdb")
            if budget["metadata"]["name"] == "demo"
            for by_name in budget["spec"]["selector"].get("matchExpressions", ())
            for name in by_name.get("values", ())
        }
        return {pod["metadata"]["name"] for pod in self.list("pods")} & listed


class Writing:
    """A client that writes all along; `finish` asserts that nothing was lost or doubled."""

    def __init__(self, krq: Krq) -> None:
        self._krq = krq
        self._writers: BackgroundWriters | None = None

    def start(self, nodes: int = 3) -> None:
        """Begin, with the names of so many nodes."""
        domain = f"demo-peers.{self._krq.namespace}.svc.cluster.local"
        endpoints = [Endpoint(f"demo-{n}.{domain}", 9080) for n in range(nodes)]
        self._writers = BackgroundWriters(endpoints, self._krq.cluster.hosts_file, SHORT)
        self._writers.start()

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged so far."""
        assert self._writers is not None
        return self._writers.acknowledged

    def finish(self, *, bounded: bool = False) -> Account:
        """End, read all back and compare; print the figures.

        Args:
            bounded: Nothing that was done has cost the quorum its majority, so that no write
                may have waited long.
        """
        assert self._writers is not None
        writers, self._writers = self._writers, None
        account = writers.finish()
        sys.stdout.write(f"{account}\n")
        assert account.verdict.ok, account.verdict.differences
        assert account.acknowledged > 0
        if bounded:
            assert account.stall.seconds < STALL_MAX_S, account
        return account

    def give_up(self) -> None:
        """End without a look, after a failure."""
        if self._writers is not None:
            with suppress(Exception):
                self._writers.finish()


@pytest.fixture
def writing(krq: Krq) -> Iterator[Writing]:
    """The writing client of a test."""
    client = Writing(krq)
    yield client
    client.give_up()


def establish(cluster: DevCluster, manifest: str, plural: str) -> None:
    """Apply a CRD and wait until the API server serves it."""
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    deadline = time.monotonic() + 120
    while True:
        # `kubectl wait` fails on a CRD that has no conditions yet.
        try:
            cluster.kubectl("get", plural, "--all-namespaces")
        except CommandError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="session")
def crd(devcluster: DevCluster) -> None:
    """The CRD, as generated, established."""
    establish(devcluster, render(), "krq")


@pytest.fixture(scope="module")
def kafka_crd(devcluster: DevCluster) -> None:
    """That of KafkaQuorums."""
    establish(devcluster, render(KAFKA_QUORUM), "kfq")


@pytest.fixture
def operators(
    devcluster: DevCluster, crd: None, namespace: str, tmp_path: Path
) -> Iterator[Operators]:
    """Starts operators, ends them."""
    started = Operators(devcluster, namespace, tmp_path)
    yield started
    for process in started.processes:
        process.kill()
    for process in started.processes:
        process.wait()
    started.api.close()


@pytest.fixture
def krq(devcluster: DevCluster, namespace: str, operators: Operators) -> Iterator[Krq]:
    """The KRaftQuorum of a test; removed with its finalizer at the end."""
    quorum = Krq(devcluster, namespace, operators)
    yield quorum
    for body in quorum.list("krq"):
        name = body["metadata"]["name"]
        quorum.kubectl("patch", "krq", name, "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')
        quorum.kubectl("delete", "krq", name, "--wait=false", "--ignore-not-found")
