"""The operator's advice about a KafkaQuorum: a real API server and real controllers of Apache Kafka."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.errors import CommandError
from kraftquorum_devcluster.network import free_port
from kraftquorum_observability.generate import ROOT, RULES
from kraftquorum_operator.model.crd import KINDS, render
from monitoringlib import check
from monitoringlib.programs import ensure, why_not
from monitoringlib.prometheus import Prometheus
from monitoringlib.scenario import Course
from proofkit.kafkacontroller import PORT
from proofkit.kafkaquorum import START_S, KafkaQuorum
from proofkit.loopback import LoopbackNetwork
from raftnode.commands.storage import random_id

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

OPERATOR = Path(sys.executable).parent / "kraftquorum-operator"
FIRST_HOST = 41
OPERATOR_HOST, PROMETHEUS_HOST = 44, 45
ALERT_S = 2
"""How long alerts wait here, not the minutes of the chart."""


@pytest.fixture(scope="module")
def quorum(
    kafka: Any, tmp_path_factory: pytest.TempPathFactory, session_network: LoopbackNetwork
) -> Iterator[KafkaQuorum]:
    hosts = [session_network.host(FIRST_HOST + number) for number in range(3)]
    directory_ids = [random_id() for _ in hosts]
    root = tmp_path_factory.mktemp("kafka-resource")
    with KafkaQuorum(root, hosts, kafka.command, random_id(), directory_ids, more="") as started:
        started.format()
        for number in range(3):
            started.start(number)
        yield started


class Resource:
    """A KafkaQuorum named `orders`."""

    def __init__(self, cluster: DevCluster, namespace: str, log: Path, metrics: str) -> None:
        self.cluster, self.namespace, self.log = cluster, namespace, log
        self.metrics = metrics
        """Where the operator's metrics are."""

    def apply(self, **spec: Any) -> None:
        body = {
            "apiVersion": "kraftquorum.io/v1alpha1",
            "kind": "KafkaQuorum",
            "metadata": {"name": "orders"},
            "spec": spec,
        }
        self.cluster.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=json.dumps(body))

    def get(self) -> dict[str, Any]:
        read = self.cluster.kubectl("-n", self.namespace, "get", "kfq", "orders", "-o", "json")
        return json.loads(read)

    def until(self, is_so: Callable[[dict[str, tuple[str, str]]], bool]) -> dict[str, Any]:
        """Wait for conditions about this generation; returns the status."""
        deadline, body = time.monotonic() + START_S, {}
        while time.monotonic() < deadline:
            body = self.get()
            status = body.get("status", {})
            found = {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", [])}
            current = status.get("observedGeneration") == body["metadata"]["generation"]
            if found and current and is_so(found):
                return status
            time.sleep(0.3)
        raise AssertionError(f"not in time: {body}\n{self.log.read_text()[-2000:]}")


@pytest.fixture
def resource(
    devcluster: DevCluster, namespace: str, tmp_path: Path, session_network: LoopbackNetwork
) -> Iterator[Resource]:
    """With an operator that gives advice."""
    for kind in KINDS.values():
        devcluster.kubectl("apply", "-f", "-", stdin=render(kind))
    deadline = time.monotonic() + 120
    while True:
        try:
            devcluster.kubectl("get", "krq,kfq", "--all-namespaces")
        except CommandError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            break
    settings = {"KAFKA_ADVICE": "1", "KAFKA_CHECK_INTERVAL_S": "1", "KAFKA_TIMEOUT_S": "10"}
    host = session_network.host(OPERATOR_HOST)
    port = free_port(host, 9180)
    settings |= {"METRICS_HOST": host, "METRICS_PORT": str(port)}
    environment = os.environ | {f"KRAFTQUORUM_{name}": value for name, value in settings.items()}
    arguments = ["run", "--namespace", namespace, "--kubeconfig", str(devcluster.kubeconfig)]
    log = tmp_path / "operator.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(OPERATOR), *arguments], env=environment, stdout=out, stderr=out
        )
    try:
        yield Resource(devcluster, namespace, log, f"{host}:{port}")
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        process.kill()
        process.wait()


@pytest.fixture
async def prometheus(
    resource: Resource, tmp_path: Path, session_network: LoopbackNetwork
) -> AsyncIterator[Prometheus]:
    """Reads the operator's metrics, with the rules of the chart."""
    why = why_not()
    if why is not None:
        pytest.skip(why)
    rules = yaml.safe_load((ROOT / RULES).read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        if "alert" in rule:
            rule["for"] = f"{ALERT_S}s"
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rules))
    job = {"job_name": "operator", "honor_labels": True}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file)],
        "scrape_configs": [job | {"static_configs": [{"targets": [resource.metrics]}]}],
    }
    host = session_network.host(PROMETHEUS_HOST)
    server = Prometheus(ensure("prometheus"), tmp_path / "prometheus", str(tmp_path), host)
    try:
        await server.start(config)
        yield server
    finally:
        await server.stop()


async def firing(prometheus: Prometheus) -> set[str]:
    """The names of the alerts about Kafka quorums that fire now."""
    expression = 'ALERTS{alertname=~"KraftquorumKafka.*", alertstate="firing"}'
    return {series.labels["alertname"] for series in await prometheus.at(expression, time.time())}


async def until_firing(prometheus: Prometheus, wanted: set[str]) -> None:
    deadline, names = time.monotonic() + START_S, set[str]()
    while time.monotonic() < deadline:
        names = await firing(prometheus)
        if names == wanted:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"{names} fire, not {wanted}")


async def test_alerts_fire_for_real_controllers_and_every_panel_has_its_series(
    quorum: KafkaQuorum, resource: Resource, prometheus: Prometheus
) -> None:
    began_s = time.time()

    async def until(is_so: Callable[[dict[str, tuple[str, str]]], bool]) -> dict[str, Any]:
        return await asyncio.to_thread(resource.until, is_so)

    controllers = [{"id": n, "address": f"{host}:{PORT}"} for n, host in enumerate(quorum.hosts)]
    resource.apply(controllers=controllers)
    status = await until(lambda now: now["Safe"][0] == "True")
    await until_firing(prometheus, set())
    first, second = (n for n in range(3) if n != status["leaderId"])

    quorum.processes[first].send_signal(signal.SIGSTOP)
    await until_firing(
        prometheus, {"KraftquorumKafkaNoVoterToSpare", "KraftquorumKafkaActionAdvised"}
    )
    # Without a majority there is no leader: the advice of before is gone, and so are its alerts.
    quorum.processes[second].send_signal(signal.SIGSTOP)
    await until_firing(prometheus, {"KraftquorumKafkaNoLeader"})
    for number in (first, second):
        quorum.processes[number].send_signal(signal.SIGCONT)
    await until_firing(prometheus, set())

    resource.apply(controllers=controllers, clusterId="other")
    await until_firing(prometheus, {"KraftquorumKafkaNoAdvice"})
    resource.apply(controllers=controllers)
    await until_firing(prometheus, set())

    course = Course(resource.namespace, "orders", began_s, time.time())
    assert await check.problems(prometheus, course, kafka=True) == []


def test_the_status_follows_real_controllers(quorum: KafkaQuorum, resource: Resource) -> None:
    addresses = [f"{host}:{PORT}" for host in quorum.hosts]
    mapped = [{"id": n, "address": address} for n, address in enumerate(addresses)]
    exact = [
        {**entry, "directoryId": directory_id}
        for entry, directory_id in zip(mapped, quorum.directory_ids, strict=True)
    ]
    resource.apply(controllers=exact, clusterId=quorum.cluster_id)
    status = resource.until(lambda found: found["Ready"][0] == "True")
    assert status["clusterId"] == quorum.cluster_id
    assert (status["voters"], status["spareVoters"]) == (3, 1)
    assert {r["directoryId"] for r in status["replicas"]} == set(quorum.directory_ids)
    assert "notes" not in status

    # While nothing changes, nothing is written.
    version = resource.get()["metadata"]["resourceVersion"]
    time.sleep(5)
    assert resource.get()["metadata"]["resourceVersion"] == version

    resource.apply(controllers=exact, clusterId="other")
    resource.until(lambda found: found["Ready"] == ("False", "OtherCluster"))

    resource.apply(controllers=mapped, graceSeconds=1)
    status = resource.until(lambda found: found["Safe"][0] == "True")
    dead = next(number for number in range(3) if number != status["leaderId"])
    # A controller that takes connections and does not answer delays the check, and ends no other.
    quorum.processes[dead].send_signal(signal.SIGSTOP)
    status = resource.until(lambda found: found["Safe"] == ("False", "NoVoterToSpare"))
    assert any("did not answer" in note for note in status["notes"])
    quorum.processes[dead].send_signal(signal.SIGCONT)
    status = resource.until(lambda found: found["Safe"][0] == "True")

    dead = next(number for number in range(3) if number != status["leaderId"])
    quorum.kill(dead)
    resource.until(lambda found: found["Safe"] == ("False", "NoVoterToSpare"))
    quorum.replace_disk(dead)
    quorum.start(dead)
    status = resource.until(lambda found: found["ActionAdvised"] == ("True", "Replace"))
    assert status["advice"]["remove"] == {
        "nodeId": dead,
        "directoryId": quorum.directory_ids[dead],
    }
    assert status["advice"]["add"]["nodeId"] == dead
    events = resource.cluster.kubectl(
        "-n", resource.namespace, "get", "events", "-o", "jsonpath={.items[*].reason}"
    )
    assert {"Confirmed", "OtherCluster", "NoVoterToSpare", "Replace"} <= set(events.split())
