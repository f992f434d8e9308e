"""The operator with exactly the rights that the chart gives it, on a real API server.

The rules are those of deploy/kustomize/base, which a test holds equal to the chart's.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaserver import Controller, serving
from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.certmanager import install_crds
from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_operator import names
from kraftquorum_operator.execute.certificate_signing import LeafNames, issue_leaf, make_authority
from kraftquorum_operator.model.crd import KAFKA_QUORUM, render
from kraftquorum_operator.observe.access import DISCOVERY_URL, KEYS_URL
from kraftquorum_operator.rights import (
    CERT_MANAGER,
    KAFKA_ADVICE,
    LEASE,
    METRICS,
    WATCHED,
)
from proofkit.loopback import LoopbackNetwork
from usedrights import Use, use_of_request, used, uses, uses_of_rights

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kustomize" / "base" / "operator.yaml"
ACCOUNT = "operator"
LEASE_NAME = "kraftquorum"

METRICS_PORT = 18080

UNSEEN: dict[Use, str] = {
    ("", "events", "create"): "server-side apply of one that is not there",
    ("", "services", "create"): "server-side apply of one that is not there",
    ("policy", "poddisruptionbudgets", "create"): "server-side apply of one that is not there",
    ("networking.k8s.io", "networkpolicies", "create"): "likewise",
    ("kraftquorum.io", "kraftquorums/finalizers", "update"): "asked for by an admission plugin",
}
"""What no request shows, and why it is needed all the same."""

SOMETIMES: dict[Use, str] = {
    ("", "pods", "delete"): "of a pod that is not ready; one that is ready is evicted",
}
"""What shows or not, as the pods happen to be."""


def rules_of(name: str) -> list[dict[str, Any]]:
    """The rules of a role of the base."""
    objects = yaml.safe_load_all(BASE.read_text())
    return next(
        one["rules"]
        for one in objects
        if one["kind"].endswith("Role") and one["metadata"]["name"] == name
    )


def grant(cluster: DevCluster, namespace: str, name: str, rules: list[dict[str, Any]]) -> None:
    """Make a role and bind the account to it, or change its rules."""
    api = "rbac.authorization.k8s.io"
    meta = {"name": name, "namespace": namespace}
    role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": rules}
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    text = yaml.safe_dump_all([role, binding])
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=text)


@contextmanager
def granted_reviews(cluster: DevCluster, namespace: str) -> Iterator[None]:
    """The cluster role of the base that lets the account review the readers of its metrics."""
    api, name = "rbac.authorization.k8s.io", f"reviews-{namespace}"
    rules = rules_of("kraftquorum-metrics-reviews")
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    role: dict[str, Any] = {"apiVersion": f"{api}/v1", "metadata": {"name": name}}
    binding = {"roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name}}
    objects = [
        role | {"kind": "ClusterRole", "rules": rules},
        role | {"kind": "ClusterRoleBinding", **binding, "subjects": [subject]},
    ]
    text = yaml.safe_dump_all(objects)
    cluster.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=text)


def get_metrics(host: str, port: int, token: str) -> int:
    """Status of a request for the operator's metrics over TLS."""
    request = urllib.request.Request(
        f"https://{host}:{port}/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def apply_policy(krq, policy: dict[str, Any]) -> None:
    """Change `spec.networkPolicy` alone."""
    change = json.dumps({"spec": {"networkPolicy": policy}})
    krq.kubectl("patch", "krq", "demo", "--type=merge", "-p", change)


@pytest.fixture
def token(devcluster: DevCluster, namespace: str) -> str:
    """Of an account without any rights."""
    devcluster.kubectl("-n", namespace, "create", "serviceaccount", ACCOUNT)
    return devcluster.kubectl("-n", namespace, "create", "token", ACCOUNT).strip()


def test_the_base_gives_the_rights_that_the_operator_declares_and_no_others() -> None:
    assert uses(rules_of("kraftquorum")) == uses_of_rights(WATCHED)
    lease = rules_of("kraftquorum-lease")
    assert uses(lease) == uses_of_rights(LEASE)
    assert uses(rules_of("kraftquorum-metrics-reviews")) == uses_of_rights(METRICS)
    limited = [rule for rule in lease if set(rule["verbs"]) == set(LEASE[1].verbs)]
    assert [rule["resourceNames"] for rule in limited] == [[LEASE_NAME]]


@pytest.mark.cluster
@pytest.mark.extended
@pytest.mark.timeout(900)
async def test_a_quorum_lives_through_everything_under_exactly_these_rights(
    krq, operators, token: str, tmp_path: Path, network: LoopbackNetwork
) -> None:
    grant(krq.cluster, krq.namespace, "kraftquorum", rules_of("kraftquorum"))
    grant(krq.cluster, krq.namespace, "kraftquorum-lease", rules_of("kraftquorum-lease"))
    host = network.host(1)
    async with FaultProxy(krq.cluster, tmp_path) as proxy:
        kubeconfig = tmp_path / "operator.kubeconfig"
        write_kubeconfig(kubeconfig, proxy.server_url, token, krq.cluster.ca_file)
        operators.start(
            kubeconfig,
            lease_name=LEASE_NAME,
            node_image="example.test/node:7",
            metrics_access="authenticated",
            metrics_host=host,
            metrics_port=METRICS_PORT,
        )

        def live() -> None:
            krq.apply(
                voters=3,
                replacement={"gracePeriodSeconds": 2},
                claimRetention="Delete",
                deletion={"claims": "Delete"},
                tls={"mode": "Managed"},
                access=provide_clients(krq),
            )
            krq.ready(3)
            krq.until("access", lambda: krq.condition("AccessReady").get("status") == "True")
            template = krq.get("sts")["spec"]["template"]
            assert template["spec"]["containers"][0]["image"] == "example.test/node:7"
            krq.kubectl("scale", "krq", "demo", "--replicas=5")
            krq.ready(5)
            krq.kubectl("scale", "krq", "demo", "--replicas=3")
            krq.ready(3)
            old = dict(krq.voters())[1]
            krq.wipe(1)
            krq.replaced(1, old)
            # A pod that cannot start: what Kubernetes says of it stands in its events.
            krq.cluster.kubectl("cordon", "devcluster")
            try:
                krq.kubectl("delete", "pod", "demo-2", "--wait=false")
                krq.until("events read", lambda: ("", "events", "list") in used(proxy))
            finally:
                krq.cluster.kubectl("uncordon", "devcluster")
            krq.ready(3)
            # A restart of ready voters evicts them.
            krq.kubectl("rollout", "restart", "sts", "demo")
            krq.until("evicted", lambda: ("", "pods/eviction", "create") in used(proxy))
            krq.ready(3)
            # Another client's change of the budget is put back.
            krq.kubectl("patch", "pdb", "demo", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
            krq.until("budget as it was", lambda: krq.get("pdb")["spec"]["minAvailable"] == 2)
            # The policy goes and comes with the resource's word.
            apply_policy(krq, {"enabled": False})
            krq.until("no policy", lambda: not krq.list("networkpolicy"))
            apply_policy(krq, {"enabled": True})
            krq.until("a policy", lambda: krq.list("networkpolicy"))
            # The operator's own account is known and may not read the metrics.
            with granted_reviews(krq.cluster, krq.namespace):
                krq.until("known", lambda: get_metrics(host, METRICS_PORT, token) == 403)
            krq.delete()
            krq.until("claims gone", lambda: not krq.list("pvc") and not krq.list("pods"))

        await asyncio.to_thread(live)
        # Before the account may review, the operator reports that and lets no reader in.
        refused = [
            entry
            for entry in proxy.log
            if entry.status in {401, 403} and not entry.request.path.endswith("reviews")
        ]
        assert refused == []
        seen = used(proxy)
        # What the base does not grant: each account may read the cluster's public keys.
        others = {
            e.request.path for e in proxy.log if use_of_request(e.request.path, "get") is None
        }
        assert {KEYS_URL, DISCOVERY_URL} <= others
        secrets = [
            e.request.path.rpartition("/")[2] for e in proxy.log if "/secrets" in e.request.path
        ]
        assert "shop-token" in secrets
    events = [event for event in krq.list("events") if event["reason"] == "AddVoter"]
    assert events, "events are posted"
    granted = uses_of_rights([*WATCHED, *LEASE, *METRICS])
    assert seen <= granted
    assert granted - seen - set(SOMETIMES) == set(UNSEEN), (
        "a right that the operator does not use is not least privilege"
    )


def provide_clients(krq) -> dict[str, Any]:
    """`spec.access` with each kind of credential, and the Secret and the account that it names."""
    krq.kubectl("create", "secret", "generic", "shop-token", f"--from-literal=token={'s' * 32}")
    krq.kubectl("create", "serviceaccount", "reports")
    account = {"namespace": krq.namespace, "name": "reports"}
    return {
        "clients": [
            {"name": "shop", "roles": ["read", "write"], "tokenSecret": {"name": "shop-token"}},
            {"name": "reports", "roles": ["read"], "serviceAccount": account},
            {"name": "batch", "roles": ["read"], "certificate": {"commonNames": ["batch"]}},
        ]
    }


def provide_issued(krq) -> None:
    """The Secret of a pod's Certificate, as cert-manager writes it."""
    authority = make_authority("ours", 86_400, time.time())
    leaf = LeafNames("demo-0", frozenset(), frozenset({"localhost"}))
    pair = issue_leaf(authority, leaf, 86_400, time.time())
    data = {"ca.crt": authority.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
    marks = {"cert-manager.io/certificate-name": "demo-0-issued"}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "demo-0-issued", "annotations": marks},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def apply_kafka_quorum(krq, addresses: list[str]) -> None:
    """A KafkaQuorum with credentials, and with pods that there are none of."""
    properties = base64.b64encode(b"security.protocol=PLAINTEXT").decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "advisor"},
        "data": {"client.properties": properties},
    }
    pods = {"matchLabels": {"app": "kafka"}}
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KAFKA_KIND,
        "metadata": {"name": "orders"},
        "spec": {"addresses": addresses, "pods": pods, "credentialsSecret": "advisor"},
    }
    krq.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([secret, body]))


@pytest.mark.cluster
@pytest.mark.extended
@pytest.mark.timeout(900)
async def test_advice_about_kafka_needs_exactly_these_rights(
    krq, operators, token: str, tmp_path: Path
) -> None:
    krq.cluster.kubectl("apply", "-f", "-", stdin=render(KAFKA_QUORUM))
    grant(krq.cluster, krq.namespace, "kraftquorum", rules_of("kraftquorum"))
    grant(krq.cluster, krq.namespace, "kraftquorum-lease", rules_of("kraftquorum-lease"))

    def reasons() -> list[str]:
        path = "jsonpath={.status.conditions[*].reason}"
        return krq.kubectl("get", "kfq", "orders", "-o", path).split()

    async with (
        serving([Controller()]) as addresses,
        FaultProxy(krq.cluster, tmp_path) as proxy,
    ):
        kubeconfig = tmp_path / "operator.kubeconfig"
        write_kubeconfig(kubeconfig, proxy.server_url, token, krq.cluster.ca_file)
        operators.start(kubeconfig, lease_name=LEASE_NAME, kafka_advice=1, kafka_check_interval_s=1)

        def live() -> None:
            apply_kafka_quorum(krq, addresses)
            # Without the rights a KRaftQuorum is served as ever.
            krq.apply(voters=1)
            krq.ready(1)
            assert reasons() == []
            rules = [
                {"apiGroups": [r.group], "resources": [r.resource], "verbs": list(r.verbs)}
                for r in KAFKA_ADVICE
            ]
            grant(krq.cluster, krq.namespace, "kraftquorum-kafka", rules)
            krq.until("advice", lambda: "Confirmed" in reasons())

        await asyncio.to_thread(live)
        seen = {use for use in used(proxy) if use[1].startswith(names.KAFKA_PLURAL)}
    assert seen == uses_of_rights(KAFKA_ADVICE)
    assert "rights_limited" in operators.log()


@pytest.mark.cluster
@pytest.mark.extended
@pytest.mark.timeout(900)
async def test_certificates_of_cert_manager_need_exactly_these_rights(
    krq, operators, token: str, tmp_path: Path
) -> None:
    install_crds(krq.cluster)
    grant(krq.cluster, krq.namespace, "kraftquorum", rules_of("kraftquorum"))
    grant(krq.cluster, krq.namespace, "kraftquorum-lease", rules_of("kraftquorum-lease"))

    def why(reason: str) -> bool:
        condition = krq.condition("CertificatesFailing")
        return condition.get("reason") == reason

    def issued() -> list[str]:
        return krq.kubectl("get", "certificates", "-o", "name").split()

    def reasons() -> str:
        return krq.kubectl("get", "certificates", "-o", "jsonpath={..status.conditions[*].reason}")

    def apply(kind: str, lifetime: str = "48h") -> None:
        issuer = {"name": "ours", "kind": kind}
        tls = {"mode": "CertManager", "issuerRef": issuer, "certificateLifetime": lifetime}
        krq.apply(voters=1, tls=tls)

    async with FaultProxy(krq.cluster, tmp_path) as proxy:
        kubeconfig = tmp_path / "operator.kubeconfig"
        write_kubeconfig(kubeconfig, proxy.server_url, token, krq.cluster.ca_file)
        operators.start(kubeconfig, lease_name=LEASE_NAME)

        def live() -> None:
            apply("Issuer")
            krq.until("forbidden", lambda: why("CertManagerForbidden"))
            assert not issued()
            rules = [
                {"apiGroups": [r.group], "resources": [r.resource], "verbs": list(r.verbs)}
                for r in CERT_MANAGER
            ]
            grant(krq.cluster, krq.namespace, "kraftquorum-cert-manager", rules)
            krq.until("no issuer", lambda: why("IssuerNotReady") and len(issued()) == 2)
            apply("Issuer", "24h")

            def shorter() -> bool:
                found = krq.kubectl("get", "certificates", "-o", "jsonpath={..spec.duration}")
                return found.split() == ["24h", "24h"]

            krq.until("shorter", shorter)
            provide_issued(krq)
            krq.kubectl("annotate", "krq", "demo", f"{names.ANNOTATION_RENEW}=1")
            krq.until("asked again", lambda: "ManuallyTriggered" in reasons())
            krq.apply(voters=1)
            krq.until("deleted", lambda: not issued())

        await asyncio.to_thread(live)
        seen = {use for use in used(proxy) if use[0] == "cert-manager.io"}
    of_namespace = {use for use in uses_of_rights(CERT_MANAGER) if use[1] != "clusterissuers"}
    unseen = {("cert-manager.io", "certificates", "create")}
    assert seen == of_namespace - unseen, "server-side apply of one that is not there needs create"


@pytest.mark.cluster
@pytest.mark.extended
@pytest.mark.timeout(900)
def test_an_operator_without_a_right_names_it_waits_and_does_nothing_half(
    krq, operators, token: str, tmp_path: Path
) -> None:
    rules = rules_of("kraftquorum")
    less = copy.deepcopy(rules)
    for rule in less:
        if rule["resources"] == ["pods"]:
            rule["verbs"] = ["list", "watch", "patch"]
    grant(krq.cluster, krq.namespace, "kraftquorum", less)
    grant(krq.cluster, krq.namespace, "kraftquorum-lease", rules_of("kraftquorum-lease"))
    kubeconfig = write_kubeconfig(
        tmp_path / "operator.kubeconfig", krq.cluster.server_url, token, krq.cluster.ca_file
    )
    krq.apply(voters=1)
    operators.start(kubeconfig, lease_name=LEASE_NAME)

    def told() -> list[str]:
        lines = (operators.logs / "operator-0.log").read_text().splitlines()
        return [json.loads(line).get("why", "") for line in lines if line.startswith("{")]

    why = f"the operator's roles do not allow: delete pods in namespace {krq.namespace}"
    krq.until("told", lambda: told()[-1:] == [why])
    assert not krq.list("sts")
    assert not krq.status()
    grant(krq.cluster, krq.namespace, "kraftquorum", rules)
    krq.ready(1)
