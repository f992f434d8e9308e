"""Clusters that lack something: a condition and an event name it, and it clears by itself."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kraftquorum_devcluster.errors import CommandError
from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_devcluster.faultproxy.rules import Answer
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_operator.model.crd import render
from kraftquorum_operator.rights import LEASE, SECRETS, WATCHED

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

CLASS = "storageclass/kraftquorum-local"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
DELETES_CLAIMS = '{"spec":{"deletion":{"claims":"Delete"}}}'


REST_S = 5.0
"""After so long, nothing of a change still wakes the operator."""


def warned(krq, *words: str) -> bool:
    """Whether a warning event on the resource holds all these words."""
    return any(
        all(word in event["message"] for word in words)
        for event in krq.list("events")
        if event["type"] == "Warning" and event["involvedObject"]["kind"] == "KRaftQuorum"
    )


def until_blocked(krq, condition: str, *words: str) -> dict:
    """Wait for a condition and a warning event that name the thing; returns the condition."""

    found: dict = {}

    def holds() -> bool:
        found.clear()
        found.update(krq.condition(condition))
        named = all(word in found.get("message", "") for word in words)
        return found.get("status") == "True" and named and warned(krq, *words)

    krq.until(f"{condition} names {words}", holds)
    return found


@pytest.mark.nightly
def test_a_quota_that_forbids_the_fourth_pod(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    three = krq.voters()
    krq.kubectl("create", "quota", "few", "--hard=pods=3")
    krq.until(
        "the quota is counted",
        lambda: "3" in krq.kubectl("get", "quota", "few", "-o", "jsonpath={.status.used.pods}"),
    )
    krq.kubectl("scale", "krq", "demo", "--replicas=5")
    found = until_blocked(krq, "PodsBlocked", "demo-3", "exceeded quota: few")
    assert found["reason"] == "FailedCreate"
    krq.until_status("it says why", lambda now: "exceeded quota: few" in now.get("message", ""))
    # Nothing is half done: the voters are as they were, and clients can write.
    assert krq.voters() == three
    krq.available()
    assert not [a for a in operators.actions() if a.startswith(("AddVoter", "RemoveVoter"))]
    krq.kubectl("delete", "quota", "few")
    krq.ready(5)
    assert krq.condition("PodsBlocked")["status"] == "False"


@pytest.mark.rule("S24")
def test_a_quota_that_forbids_the_fourth_pod_blocks_no_roll(krq, operators, writing) -> None:
    """The operator defers the scale-up for it. The fourth pod comes once the quota lets it."""
    operators.start()
    krq.apply(voters=3, image="kraftquorum/raftnode:1")
    krq.ready(3)
    three, before = krq.voters(), {p["metadata"]["uid"] for p in krq.list("pods")}
    krq.kubectl("create", "quota", "few", "--hard=pods=3")
    krq.until(
        "the quota is counted",
        lambda: "3" in krq.kubectl("get", "quota", "few", "-o", "jsonpath={.status.used.pods}"),
    )
    writing.start()
    krq.apply(voters=5, image="kraftquorum/raftnode:1")
    until_blocked(krq, "PodsBlocked", "demo-3", "exceeded quota: few")
    krq.apply(voters=5, image="kraftquorum/raftnode:2")

    def tells_both() -> bool:
        message = krq.condition("Progressing").get("message", "")
        return "is added after the restart of all pods" in message and "quota: few" in message

    krq.until("it rolls and says of the scale-up", tells_both)
    assert krq.get("sts")["spec"]["replicas"] == 3

    def is_rolled() -> bool:
        pods = krq.list("pods")
        images = {p["spec"]["containers"][0]["image"] for p in pods}
        restarted = before.isdisjoint(p["metadata"]["uid"] for p in pods)
        return len(pods) == 3 and restarted and images == {"kraftquorum/raftnode:2"}

    krq.until("rolled", is_rolled)
    krq.until("tried again", lambda: krq.get("sts")["spec"]["replicas"] == 4)
    assert krq.voters() == three
    assert not [a for a in operators.actions() if a.startswith(("AddVoter", "RemoveVoter"))]
    krq.kubectl("delete", "quota", "few")
    krq.ready(5)
    writing.finish(bounded=True)


def test_no_default_storage_class_and_one_that_there_is_not(krq, operators) -> None:
    operators.start()
    krq.kubectl("annotate", CLASS, f"{DEFAULT}=false", "--overwrite")
    try:
        krq.apply(voters=1)
        found = until_blocked(krq, "PodsBlocked", "data-demo-0", "no storage class is set")
        assert found["reason"] == "FailedBinding"
        assert not [c for c in krq.list("configmaps") if "latch" in c["metadata"]["name"]]
    finally:
        krq.kubectl("annotate", CLASS, f"{DEFAULT}=true", "--overwrite")
    krq.ready(1)
    krq.delete()
    krq.kubectl("delete", "pvc", "--all", "--wait=false")
    krq.until("claims gone", lambda: not krq.list("pvc"))
    krq.apply(voters=1, storage={"className": "there-is-none"})
    found = until_blocked(krq, "PodsBlocked", "data-demo-0", "there-is-none")
    assert found["reason"] == "ProvisioningFailed"


@contextmanager
def account(krq, folder: Path) -> Iterator[Path]:
    """Kubeconfig of an account that has the rights which `grant` gives it."""
    krq.kubectl("create", "serviceaccount", "operator")
    token = krq.kubectl("create", "token", "operator").strip()
    path = folder / "operator.kubeconfig"
    write_kubeconfig(path, krq.cluster.server_url, token, krq.cluster.ca_file)
    grant(krq)
    binding = ("--role=operator", f"--serviceaccount={krq.namespace}:operator")
    krq.kubectl("create", "rolebinding", "operator", *binding)
    yield path


def grant(krq, without: Iterable[tuple[str, str]] = ()) -> None:
    """Give the account all rights of the operator, without some `(verb, resource)`."""
    missing = set(without)
    rules = [
        {
            "apiGroups": [right.group],
            "resources": [right.resource],
            "verbs": [verb for verb in right.verbs if (verb, right.resource) not in missing],
        }
        for right in (*WATCHED, *LEASE)
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "operator"},
        "rules": [rule for rule in rules if rule["verbs"]],
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(role))


def test_rights_that_lack_at_the_start_or_are_taken_later(krq, operators, tmp_path: Path) -> None:
    with account(krq, tmp_path) as kubeconfig:
        grant(krq, [("delete", "pods")])
        krq.apply(voters=1)
        operators.start(kubeconfig)
        krq.until("told in the log", lambda: "delete pods" in operators.log())
        assert not krq.list("sts")
        grant(krq, [("create", "statefulsets")])
        krq.until("told again", lambda: "create statefulsets" in operators.log())
        grant(krq)
        krq.ready(1)
        voters = krq.voters()

        # To act: a lost disk cannot be replaced without the right to delete a claim.
        grant(krq, [("patch", "statefulsets")])
        krq.kubectl("scale", "krq", "demo", "--replicas=3")
        found = until_blocked(krq, "Failing", "statefulsets", "forbidden")
        assert found["reason"] == "Forbidden"
        assert krq.voters() == voters
        grant(krq)
        krq.ready(3)
        assert krq.condition("Failing")["status"] == "False"

        # To observe: at rest the operator reads from its watches, which stay open.
        time.sleep(REST_S)
        grant(krq, [("list", "persistentvolumeclaims")])
        found = until_blocked(krq, "Failing", "persistentvolumeclaims", "cannot")
        assert found["reason"] == "Forbidden"
        assert krq.condition("Ready")["type"] == "Ready", "the other conditions stay"
        grant(krq)
        krq.until("clear", lambda: krq.condition("Failing").get("status") == "False")
        krq.ready(3)


def apply_quorum(krq, name: str, spec: dict[str, Any]) -> None:
    body = {
        "apiVersion": "kraftquorum.io/v1alpha1",
        "kind": "KRaftQuorum",
        "metadata": {"name": name},
        "spec": spec,
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def condition_of(krq, name: str, kind: str) -> dict[str, str]:
    conditions = krq.get("krq", name).get("status", {}).get("conditions", [])
    return next((part for part in conditions if part["type"] == kind), {})


def test_without_rights_on_secrets_only_the_quorums_that_need_them_wait(
    krq, operators, tmp_path: Path
) -> None:
    plain = {"voters": 1, "tls": {"mode": "Disabled"}}
    with account(krq, tmp_path) as kubeconfig:
        grant(krq, [(verb, "secrets") for verb in SECRETS.verbs])
        krq.apply(**plain)
        apply_quorum(krq, "secured", {"voters": 1, "tls": {"mode": "Managed"}})
        apply_quorum(krq, "guarded", plain | {"access": {"clients": []}})
        operators.start(kubeconfig)
        krq.ready(1)
        assert "rights_limited" in operators.log()
        to_grant = f"get, create, patch, delete on secrets in namespace {krq.namespace}"

        def named(name: str, kind: str, status: str) -> bool:
            condition = condition_of(krq, name, kind)
            return condition.get("status") == status and to_grant in condition["message"]

        krq.until("TLS names it", lambda: named("secured", "CertificatesFailing", "True"))
        krq.until("access names it", lambda: named("guarded", "AccessReady", "False"))
        assert [s["metadata"]["name"] for s in krq.list("sts")] == ["demo"]
        krq.until("event", lambda: warned(krq, to_grant))
        # Another quorum is scaled and deleted meanwhile.
        krq.kubectl("scale", "krq", "demo", "--replicas=3")
        krq.ready(3)
        krq.kubectl("patch", "krq", "demo", "--type=merge", "-p", DELETES_CLAIMS)
        krq.kubectl("delete", "krq", "demo", "--wait=false")
        krq.until("deleted", lambda: len(krq.list("krq")) == 2)
        grant(krq)
        for name in ("secured", "guarded"):

            def is_ready(name: str = name) -> bool:
                return condition_of(krq, name, "Ready").get("status") == "True"

            krq.until(f"{name} ready", is_ready)


def test_a_cluster_without_the_crd(krq, operators) -> None:
    # What earlier tests left has a finalizer that no operator takes off any more.
    for line in krq.cluster.kubectl("get", "krq", "-A", "--no-headers").splitlines():
        namespace, name = line.split()[:2]
        empty = '{"metadata":{"finalizers":[]}}'
        with suppress(CommandError):  # its namespace is going, and it with it
            krq.cluster.kubectl("-n", namespace, "patch", "krq", name, "--type=merge", "-p", empty)
    krq.cluster.kubectl("delete", "crd", "kraftquorums.kraftquorum.io", "--timeout=60s")
    try:
        process = operators.start()
        krq.until("told", lambda: "apply the CRD" in operators.log())
        assert process.poll() is None
    finally:
        krq.cluster.kubectl("apply", "-f", "-", stdin=render())
    deadline = time.monotonic() + 120
    while True:
        try:
            krq.apply(voters=1)
            break
        except CommandError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    krq.ready(1)


async def test_a_cluster_of_an_unsupported_version(krq, operators) -> None:
    async with FaultProxy(krq.cluster) as proxy:
        old = {"major": "1", "minor": "27+", "gitVersion": "v1.27.3-gke.100"}
        rule = proxy.add(Answer(old), verb="get", path="^/version")
        operators.start(proxy.kubeconfig)
        await asyncio.to_thread(krq.apply, voters=1)
        await asyncio.to_thread(
            krq.until,
            "told",
            lambda: krq.status().get("waitingFor") == "kubernetes_version_supported",
        )
        assert "1.27" in krq.status()["message"]
        assert krq.condition("Ready")["reason"] == "KubernetesVersionSupported"
        await asyncio.to_thread(krq.until, "event", lambda: warned(krq, "1.27"))
        assert not krq.list("sts")
        rule.remove()
        await asyncio.to_thread(krq.ready, 1)
