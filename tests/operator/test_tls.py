"""TLS of a quorum on a real API server, with real nodes: formed, turned on and off, rotated."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftquorum_demo.background import BackgroundWriters
from kraftquorum_demo.environment import NoDns
from kraftquorum_demo.plan import SHORT
from kraftquorum_operator import names
from kraftquorum_operator.execute.certificate_signing import LeafNames, issue_leaf, make_authority
from raftnode.client import Credentials, QuorumClient, UnavailableError
from raftnode.core.types import Endpoint

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

CALM = {"fetch_timeout_ms": 9000}
"""No election but by a leadership transfer, however slow the machine."""
SPEC: dict[str, Any] = {
    "voters": 3,
    "config": CALM,
    "replacement": {"gracePeriodSeconds": 9},
}
MANAGED = {"mode": "Managed"}
BOTH = {"mode": "Managed", "plaintext": "Accepted"}
ANNOTATIONS = "kraftquorum.io"


def endpoints(krq) -> list[Endpoint]:
    domain = f"demo-peers.{krq.namespace}.svc.cluster.local"
    return [Endpoint(f"demo-{n}.{domain}", 9080) for n in range(3)]


class Clients:
    """Writers of a test; each has what it trusts in a file that follows the cluster's ConfigMap."""

    def __init__(self, krq, folder: Path) -> None:
        self._krq = krq
        self.ca_file = folder / "ca.crt"
        self.open: list[BackgroundWriters] = []

    def follow(self) -> None:
        """Take the CAs as they are now, as a mounted ConfigMap does."""
        body = self._krq.kubectl("get", "configmap", "demo-client-ca", "-o", "json")
        new = self.ca_file.with_suffix(".new")
        new.write_text(json.loads(body)["data"]["ca.crt"])
        new.replace(self.ca_file)

    def secured(self) -> Credentials:
        """The credentials of a client that trusts the CAs as they are now."""
        self.follow()
        return Credentials(ca_file=self.ca_file)

    def start(self, *, tls: bool) -> BackgroundWriters:
        credentials = self.secured() if tls else Credentials()
        writers = BackgroundWriters(
            endpoints(self._krq), self._krq.cluster.hosts_file, SHORT, credentials=credentials
        )
        self.open.append(writers)
        return writers.start()

    def finish(self, writers: BackgroundWriters, *, rolled: bool) -> None:
        """No write was lost, doubled or refused.

        Each writer's write that is in flight while a restarted leader transfers leadership may have an unknown
        outcome. Without a restart no write has one.
        """
        self.open.remove(writers)
        account = writers.finish()
        sys.stdout.write(f"{account}\n")
        assert account.verdict.ok, account.verdict.differences
        assert account.acknowledged > 0
        assert account.refused == 0
        assert account.unknown <= (SHORT.writers * account.elections if rolled else 0)


@pytest.fixture
def clients(krq, tmp_path: Path) -> Iterator[Clients]:
    made = Clients(krq, tmp_path)
    yield made
    for writers in made.open:
        writers.finish()


def levels(krq) -> set[str | None]:
    """What the pods' listeners accept, as their containers have it."""
    return {
        {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}.get(
            "RAFTNODE_API_TLS"
        )
        for pod in krq.list("pods")
    }


def reach(krq, level: str | None, voters: int = 3) -> None:
    def reached() -> bool:
        return levels(krq) == {level} and krq.is_ready(voters)

    krq.until(f"TLS {level}", reached)


def secret(krq, name: str) -> dict[str, bytes]:
    data = json.loads(krq.kubectl("get", "secret", name, "-o", "json"))["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def audit_lines(krq) -> list[dict[str, str]]:
    """The audit log of all nodes, which a quorum with TLS has without being asked."""
    logs = (krq.cluster.state_dir / "logs" / "pods").rglob("*.log")
    lines = (line for path in logs for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines if line.startswith('{"time": ')]


def put(krq, credentials: Credentials) -> None:
    async def write() -> None:
        client = QuorumClient(
            endpoints(krq),
            hosts_file=krq.cluster.hosts_file,
            resolver=NoDns(),
            credentials=credentials,
            timeout_ms=5000,
        )
        async with client:
            await client.put("key", b"value")

    asyncio.run(write())


def annotate(krq, name: str) -> None:
    krq.kubectl("annotate", "krq", "demo", f"{ANNOTATIONS}/{name}={time.time_ns()}", "--overwrite")


def test_a_quorum_forms_with_tls_and_refuses_plain_clients(krq, operators, clients) -> None:
    operators.start()
    krq.apply(**SPEC, tls=None)  # the default
    krq.ready(3)
    assert levels(krq) == {"required"}
    cluster_id = krq.status()["clusterId"]
    (authority,) = [krq.kubectl("get", "secret", "demo-ca", "-o", "json")]
    assert (
        json.loads(authority)["metadata"]["annotations"][f"{ANNOTATIONS}/cluster-id"] == cluster_id
    )
    clients.follow()
    put(krq, Credentials(ca_file=clients.ca_file))
    with pytest.raises(UnavailableError):
        put(krq, Credentials())
    audited = audit_lines(krq)
    assert {"changed", "voters_changed"} <= {line["event"] for line in audited}
    assert "plaintext" in {line.get("reason") for line in audited}
    (mounted,) = krq.list("pods")[0]["spec"]["volumes"][-1:]
    assert "demo-ca" not in json.dumps(krq.list("pods")), mounted
    # Deleted and applied again over its claims, it comes back with its id, and with TLS at once.
    krq.delete()
    krq.until("the pods gone", lambda: not krq.list("pods"))
    krq.apply(**SPEC, tls=None)
    krq.ready(3)
    assert krq.status()["clusterId"] == cluster_id
    assert levels(krq) == {"required"}
    clients.follow()
    put(krq, Credentials(ca_file=clients.ca_file))


def test_a_quorum_of_an_operator_before_the_default_stays_plain(krq, operators) -> None:
    """Its claims have the mark of that operator, and its StatefulSet is made from them."""
    operator = operators.start()
    krq.apply(**SPEC | {"voters": 1})
    krq.ready(1)
    operators.stop(operator)
    pods = {pod["metadata"]["uid"] for pod in krq.list("pods")}
    krq.kubectl("label", "pvc", "--all", f"{names.LABEL_DEFAULTS}=2", "--overwrite")
    krq.kubectl("delete", "sts", "demo", "--cascade=orphan")
    krq.apply(**SPEC | {"voters": 1}, tls=None)
    operators.start()
    krq.until("StatefulSet made again", lambda: bool(krq.list("sts")))
    krq.ready(1)
    assert levels(krq) == {None}
    assert {pod["metadata"]["uid"] for pod in krq.list("pods")} == pods
    krq.apply(**SPEC | {"voters": 1}, tls=MANAGED)
    reach(krq, "required", voters=1)


def test_a_serving_quorum_goes_to_tls_and_back_without_a_failed_write(
    krq, operators, clients
) -> None:
    operators.start()
    krq.apply(**SPEC)
    krq.ready(3)
    assert levels(krq) == {None}
    writers = clients.start(tls=False)
    krq.apply(**SPEC, tls=BOTH)
    reach(krq, "permissive")
    writers.switch(clients.secured())
    krq.apply(**SPEC, tls=MANAGED)
    reach(krq, "required")
    with pytest.raises(UnavailableError):
        put(krq, Credentials())
    krq.apply(**SPEC, tls=BOTH)
    reach(krq, "permissive")
    writers.switch(Credentials())
    krq.apply(**SPEC)
    reach(krq, None)
    clients.finish(writers, rolled=True)


def test_certificates_and_ca_are_replaced_without_a_failed_write(krq, operators, clients) -> None:
    operators.start()
    krq.apply(**SPEC, tls=MANAGED)
    krq.ready(3)
    before, pods = secret(krq, "demo-node-tls"), krq.list("pods")
    writers = clients.start(tls=True)
    annotate(krq, "renew-certificates")
    krq.until("renewed", lambda: is_renewed(krq, before))
    renewed = secret(krq, "demo-node-tls")
    assert renewed["ca.crt"] == before["ca.crt"]
    annotate(krq, "rotate-ca")

    def rotated() -> bool:
        clients.follow()
        now = secret(krq, "demo-node-tls")["ca.crt"]
        return before["ca.crt"] not in now and now.count(b"BEGIN") == 1

    krq.until("rotated", rotated)
    clients.finish(writers, rolled=False)
    steps = [action.split()[1] for action in operators.actions() if "ChangeAuthority" in action]
    assert steps == ["prepare", "promote"]
    assert [p["metadata"]["uid"] for p in krq.list("pods")] == [p["metadata"]["uid"] for p in pods]
    assert all(p["status"]["containerStatuses"][0]["restartCount"] == 0 for p in krq.list("pods"))


def is_renewed(krq, before: dict[str, bytes]) -> bool:
    now = secret(krq, "demo-node-tls")
    return all(now[key] != before[key] for key in before if key != "ca.crt")


def test_a_secret_of_one_s_own_is_used_and_a_bad_one_changes_nothing(
    krq, operators, clients
) -> None:
    cluster_id = "x" * 22
    authority = make_authority("mine", 86_400, time.time())
    domain = f"*.demo-peers.{krq.namespace}.svc.cluster.local"
    uris = [f"spiffe://kraftquorum/cluster/{cluster_id}/node/{n}" for n in range(3)]
    leaf = issue_leaf(
        authority,
        LeafNames("node", frozenset(uris), frozenset({domain, "localhost"})),
        86_400,
        time.time(),
    )

    def provide(key: bytes) -> None:
        data = {"ca.crt": authority.certificate, "tls.crt": leaf.certificate, "tls.key": key}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "mine"},
            "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
        }
        krq.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def failing(word: str) -> bool:
        condition = krq.condition("CertificatesFailing")
        return condition.get("status") == "True" and word in condition["message"]

    operators.start()
    krq.apply(**SPEC, tls={"mode": "Secret", "secretName": "mine"})
    krq.until("missing", lambda: failing("does not exist"))
    assert not krq.list("sts")
    provide(leaf.key)
    krq.ready(3)
    assert krq.status()["clusterId"] == cluster_id
    clients.follow()
    put(krq, Credentials(ca_file=clients.ca_file))
    pods = [p["metadata"]["uid"] for p in krq.list("pods")]
    provide(authority.key)
    krq.until("refused", lambda: failing("the key does not belong to the certificate"))
    assert secret(krq, "demo-node-tls")["demo-0.key"] == leaf.key
    assert [p["metadata"]["uid"] for p in krq.list("pods")] == pods
    put(krq, Credentials(ca_file=clients.ca_file))
