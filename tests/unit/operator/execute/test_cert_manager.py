"""Certificates of cert-manager on a model of Kubernetes, with real keys and certificates.

A model of cert-manager signs each Certificate and writes its Secret when a test says so.
"""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import (
    ConflictError,
    KubeError,
    KubeUnavailableError,
    NotFoundError,
    RefusedError,
)
from kraftquorum_operator.execute.certificate_signing import (
    LeafNames,
    Pair,
    issue_leaf,
    make_authority,
)
from kraftquorum_operator.execute.run import run
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.judge.certificates import certificate_faults, why_failing
from kraftquorum_operator.memory.refused_requests import Refusals
from kraftquorum_operator.model.certificates import OPERATOR, KeyStore, ListenerCertificate
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.cert_manager import CERTIFICATE_NAME, ReadIssued, read_issued
from kraftquorum_operator.observe.certificates import data_of, read_certificates
from kraftquorum_operator.plan.actions import Action, ApplyObjects, describe
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.certificate_guards import certificates_issued
from kraftquorum_operator.plan.certificates import certificates
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.plan.tls_level import next_level
from proofkit.operatorworld.observations import CLUSTER, UID, blank, healthy, spec

OWNER = Owner("test", "demo", UID)
ISSUED = ("Certificate", "Secret")
REF = {"name": "ours"}


def wanted(**tls: Any) -> QuorumSpec:
    return spec(tls={"mode": "CertManager", "issuerRef": REF} | tls)


@dataclass
class Kube:
    """Objects by kind and name; a kind or a name may have an error instead."""

    objects: dict[tuple[str, str], Body] = field(default_factory=dict)
    errors: dict[str, KubeError] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    version: int = 0

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        for key in (name, kind):
            if key in self.errors:
                raise self.errors[key]
        return self.objects.get((kind, name))

    async def create(self, body: Body) -> Body:
        if ObjectRef.of(body) in self.objects:
            raise ConflictError(409, "AlreadyExists", "there")
        return self.put(body)

    async def apply(self, body: Body, subresource: str = "") -> Body:
        if f"{body['kind']}/{subresource}" in self.errors:
            raise self.errors[f"{body['kind']}/{subresource}"]
        if not subresource:
            return self.put(body)
        live = self.objects[ObjectRef.of(body)]
        types = {c["type"] for c in body["status"]["conditions"]}
        others = [c for c in live.get("status", {}).get("conditions", []) if c["type"] not in types]
        return self.put(live | {"status": {"conditions": others + body["status"]["conditions"]}})

    async def patch(self, kind: str, namespace: str, name: str, *, uid: str, change: Body) -> Body:
        live = self.objects[kind, name]
        meta = live["metadata"]
        assert uid == meta["uid"]
        given = change["metadata"]
        if given.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            raise ConflictError(409, "Conflict", "version")
        data = live.get("data", {}) | change.get("data", {})
        merged = {part: meta.get(part, {}) | given.get(part, {}) for part in MERGED}
        present = {key: value for key, value in data.items() if value is not None}
        return self.put(live | {"data": present, "metadata": meta | merged})

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str, version: str | None = None
    ) -> None:
        assert self.objects[kind, name]["metadata"]["uid"] == uid
        del self.objects[kind, name]
        self.deleted.append(f"{kind}/{name}")

    def put(self, body: Body) -> Body:
        self.version += 1
        key = ObjectRef.of(body)
        live = self.objects.get(key, {}).get("metadata", {})
        meta = live | body["metadata"]
        meta |= {"uid": f"uid-{key}", "resourceVersion": str(self.version), "generation": 1}
        meta.setdefault("creationTimestamp", moment(0))
        self.objects[key] = self.objects.get(key, {}) | body | {"metadata": meta}
        return self.objects[key]

    def issued(self) -> set[str]:
        """Certificates of cert-manager and their Secrets."""
        return {f"{kind}/{name}" for kind, name in self.objects if name.endswith("-issued")}


MERGED = ("labels", "annotations")


def moment(seconds: int) -> str:
    """A time from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """A quorum in mode `CertManager`, the operator's steps, and a model of cert-manager."""

    def __init__(self, asked: QuorumSpec | None = None, base: Observation | None = None) -> None:
        self.kube = Kube()
        self.spec = asked or wanted()
        self.base = base or replace(blank(), statefulset=None, pods=(), nodes=(), claims=())
        self.authority = make_authority("cert-manager's", 864_000, time.time())
        self.mounted: dict[str, KeyStore] = {}
        self.renewal = ""
        self.done: list[str] = []
        self.issued = ReadIssued()
        issuer = {"kind": "Issuer", "metadata": {"name": "ours"}}
        self.kube.put(issuer)

    async def look(self) -> Observation:
        marks = {names.ANNOTATION_RENEW: self.renewal} if self.renewal else {}
        resource: Body = {"metadata": {"annotations": marks}}
        kube = cast("Any", self.kube)
        facts, _ = await read_certificates(kube, OWNER, resource, self.spec.tls.secret_name)
        self.issued = await read_issued(kube, OWNER, self.spec.tls, facts)
        facts = replace(facts, cert_manager=self.issued.facts, source=self.issued.source)
        level = "required" if self.mounted else "disabled"
        statefulset = self.base.statefulset
        observation = replace(
            self.base,
            certificates=facts,
            statefulset=replace(statefulset, tls=level) if statefulset else None,
            pods=tuple(replace(pod, tls=level) for pod in self.base.pods),
            nodes=tuple(
                replace(node, certificates=self._shown(names.pod("demo", node.replica.node_id)))
                for node in self.base.nodes
            ),
        )
        return compare(OWNER, self.spec, observation, self.issued.bodies).mark(observation)

    def _shown(self, pod: str) -> tuple[ListenerCertificate, ...]:
        store = self.mounted.get(pod)
        leaf = store.leaf(pod) if store is not None else None
        if store is None or leaf is None:
            return ()
        return tuple(
            ListenerCertificate(listener, leaf.fingerprint, store.trusted)
            for listener in ("peer", "api")
        )

    async def step(self) -> bool:
        observation = await self.look()
        mine = tuple(r for r in observation.outdated if r.name.endswith("-issued"))
        action: Action | None = ApplyObjects(mine) if mine else None
        action = action or certificates(Case(self.spec, observation, 0))
        if action is None:
            return False
        self.done.append(describe(action))
        bodies = compare(OWNER, self.spec, observation, self.issued.bodies).bodies
        tools = Tools(
            cast("Any", self.kube), cast("Any", None), OWNER, observation, bodies, 1, Failpoints(),
            self.spec,
        )  # fmt: skip
        await run(action, tools)
        return True

    def settle(self) -> None:
        """Steps until there is none; then the pods read their Secret, and so on."""

        async def run_all() -> None:
            for _ in range(50):
                acted = await self.step()
                before = dict(self.mounted)
                if self.mounted:
                    await self.mount()
                if not acted and before == self.mounted:
                    return
            raise AssertionError(self.done)

        asyncio.run(run_all())

    async def mount(self) -> None:
        """All pods read the Secret as it is."""
        facts = (await self.look()).certificates
        assert facts is not None
        assert facts.nodes is not None
        self.mounted = {pod.name: facts.nodes for pod in self.base.pods}

    def sign(self, *only: str, uris: bool = True, **changes: bytes) -> None:
        """cert-manager signs Certificates, all without names, and reports them as ready."""
        for (kind, name), body in list(self.kube.objects.items()):
            if kind == "Certificate" and (not only or name in only):
                self.write(name, self._pair(body["spec"], uris=uris), **changes)
                self.report(name, "True")

    def _pair(self, asked: Body, *, uris: bool) -> Pair:
        hosts = {*asked.get("dnsNames", ()), *asked.get("ipAddresses", ())}
        leaf = LeafNames("x", frozenset(asked["uris"] if uris else ()), frozenset(hosts))
        return issue_leaf(self.authority, leaf, 172_800, time.time())

    def write(self, name: str, pair: Pair, **changes: bytes) -> None:
        entries = {
            "ca.crt": self.authority.certificate,
            "tls.crt": pair.certificate,
            "tls.key": pair.key,
        }
        entries |= {key.replace("_", "."): value for key, value in changes.items()}
        template = self.kube.objects["Certificate", name]["spec"]["secretTemplate"]
        self.kube.put(
            {
                "kind": "Secret",
                "metadata": {
                    "name": name,
                    "labels": template["labels"],
                    "annotations": {CERTIFICATE_NAME: name},
                },
                "data": {key: base64.b64encode(value).decode() for key, value in entries.items()},
            }
        )

    def report(self, name: str, status: str, message: str = "", ago_s: int = 3600) -> None:
        condition = {
            "type": "Ready",
            "status": status,
            "message": message,
            "lastTransitionTime": moment(-ago_s),
        }
        live = self.kube.objects["Certificate", name]
        self.kube.put(live | {"status": {"conditions": [condition]}})

    def facts(self) -> Observation:
        return asyncio.run(self.look())

    def why(self) -> tuple[str, str] | None:
        return why_failing(self.spec, self.facts())

    def secret(self, name: str) -> dict[str, bytes]:
        return data_of(self.kube.objects["Secret", name])

    def nodes(self) -> KeyStore:
        facts = self.facts().certificates
        assert facts is not None
        assert facts.nodes is not None
        return facts.nodes


def formed(voters: int = 3) -> World:
    """A quorum whose pods run with certificates of cert-manager."""
    made = World(base=healthy(voters))
    made.spec = made.spec.model_copy(update={"voters": voters})
    made.settle()
    made.sign()
    made.settle()
    asyncio.run(made.mount())
    made.settle()
    made.done.clear()
    return made


def test_a_new_quorum_gets_a_certificate_for_each_pod_and_the_operator() -> None:
    made = World()
    made.settle()
    assert [step.split(" Cert")[0] for step in made.done] == [
        "CreateAuthority",
        "ChangeAuthority count 3",
        "ApplyObjects",
    ]
    assert made.secret("demo-ca") == {}
    observation = made.facts()
    assert made.why() is None, "cert-manager was asked a moment ago"
    assert certificates_issued(Case(made.spec, observation, 0)) == (
        "cert-manager has not issued yet for: demo-0, demo-1, demo-2"
    )
    made.sign()
    made.settle()
    assert made.done[-1].startswith("IssueCertificates (certificates of demo-0, demo-1")
    observation = made.facts()
    assert certificates_issued(Case(made.spec, observation, 0)) is None
    assert next_level(made.spec, observation) == "required"
    assert made.secret("demo-node-tls")["demo-1.key"] == made.secret("demo-1-issued")["tls.key"]
    assert (
        made.secret("demo-operator-tls")["tls.key"]
        == (made.secret("demo-operator-issued")["tls.key"])
    )


def test_a_certificate_asks_for_what_nodes_need() -> None:
    made = World(wanted(certificateLifetime="24h", renewBefore="9h", plaintext="Accepted"))
    made.settle()
    body = made.kube.objects["Certificate", "demo-1-issued"]
    authority = made.kube.objects["Secret", "demo-ca"]["metadata"]["annotations"]
    asked = body["spec"]
    cluster_id = authority[names.ANNOTATION_CLUSTER_ID]
    assert asked["uris"] == [f"spiffe://kraftquorum/cluster/{cluster_id}/node/1"]
    assert "demo-1.demo-peers.test.svc.cluster.local" in asked["dnsNames"]
    assert asked["ipAddresses"] == ["127.0.0.1", "::1"]
    assert (asked["duration"], asked["renewBefore"]) == ("24h", "9h")
    assert asked["issuerRef"] == {"name": "ours", "kind": "Issuer", "group": "cert-manager.io"}
    assert {"server auth", "client auth"} <= set(asked["usages"])
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID
    own = made.kube.objects["Certificate", "demo-operator-issued"]["spec"]
    assert own["uris"] == [f"spiffe://kraftquorum/cluster/{cluster_id}/operator"]
    assert "dnsNames" not in own


def test_a_quorum_that_serves_keeps_its_cluster_id() -> None:
    made = formed()
    authority = made.kube.objects["Secret", "demo-ca"]["metadata"]["annotations"]
    assert authority[names.ANNOTATION_CLUSTER_ID] == CLUSTER
    assert made.why() is None
    assert made.done == []


def test_a_resource_that_is_applied_again_over_its_claims_uses_their_cluster_id() -> None:
    base = replace(healthy(), statefulset=None, pods=(), nodes=(), quorum=None, latch=None)
    made = World(base=base)
    labels = {
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_INSTANCE: "demo",
        names.LABEL_OWNER_UID: "an earlier one",
    }
    marks = {names.ANNOTATION_CLUSTER_ID: CLUSTER, names.ANNOTATION_ISSUED: "0"}
    meta = {"name": "demo-ca", "labels": labels, "annotations": marks}
    made.kube.put({"kind": "Secret", "metadata": meta, "data": {}})
    made.settle()
    made.sign()
    made.settle()
    assert next_level(made.spec, made.facts()) == "required"
    leaf = made.nodes().leaf("demo-0")
    assert leaf is not None
    assert leaf.uris == {names.node_identity(CLUSTER, 0)}


@pytest.mark.without(
    "kraftquorum_operator.judge.cert_manager:usable_source",
    "if not any(_content_faults(observation, facts, cluster_id, name, leaf))",
    "",
)
def test_a_certificate_without_its_uri_reaches_no_node_and_others_are_renewed() -> None:
    made = formed()
    before = made.secret("demo-node-tls")
    made.sign("demo-0-issued", uris=False)
    made.sign("demo-1-issued")
    made.settle()
    now = made.secret("demo-node-tls")
    assert now["demo-0.crt"] == before["demo-0.crt"]
    assert now["demo-1.crt"] == made.secret("demo-1-issued")["tls.crt"] != before["demo-1.crt"]
    why = made.why()
    assert why is not None
    assert why[0] == "InvalidSecret"
    assert "lacks the URI spiffe://" in why[1]
    assert "the issuer leaves it out" in why[1]
    assert certificate_faults(made.spec, made.facts()) == (), "the pods have certificates"


@pytest.mark.without(
    "kraftquorum_operator.plan.certificates:_is_other",
    "current.issuer == leaf.issuer or not not_trusting(case.observation, leaf.issuer)",
    "True",
)
def test_a_certificate_of_another_ca_waits_until_every_node_trusts_it() -> None:
    made = formed()
    (old,) = made.nodes().trusted
    made.authority = make_authority("next", 864_000, time.time())
    made.sign("demo-0-issued")
    asyncio.run(made.step())
    assert old in made.nodes().trusted
    assert len(made.nodes().trusted) == 2
    leaf = made.nodes().leaf("demo-0")
    assert leaf is not None
    assert leaf.issuer == old, "no node has read the Secret since"
    made.settle()
    assert len(made.nodes().trusted) == 2, "demo-1 and demo-2 still have certificates of it"
    made.sign()
    made.settle()
    assert old not in made.nodes().trusted
    assert {leaf.issuer for _, leaf in made.nodes().leaves} == made.nodes().trusted


@pytest.mark.without(
    "kraftquorum_operator.plan.compare:_left_over",
    'ref.kind == "Certificate" or certificate not in live_by_ref',
    "True",
)
def test_a_removed_pod_loses_its_certificate_and_then_the_secret() -> None:
    made = formed(5)
    made.base = healthy(3)
    made.spec = wanted()
    made.settle()
    assert [step for step in made.done if step.startswith("ApplyObjects")] == [
        "ApplyObjects Certificate/demo-3-issued, Certificate/demo-4-issued",
        "ApplyObjects Secret/demo-3-issued, Secret/demo-4-issued",
    ]
    assert len(made.kube.issued()) == 8
    assert "ChangeAuthority count 3" in made.done
    assert "demo-3.key" not in made.secret("demo-node-tls")


@pytest.mark.without(
    "kraftquorum_operator.plan.certificates:_count",
    "if authority.issued_pods > wanted and left:",
    "if False:",
)
def test_another_mode_deletes_all_of_it_before_it_forgets_how_much_there_is() -> None:
    made = formed()
    made.spec = spec(tls={"mode": "Managed"})
    action = certificates(Case(made.spec, made.facts(), 0))
    assert action is not None
    assert describe(action) != "ChangeAuthority count 0", "there are Certificates still"
    made.settle()
    assert made.kube.issued() == set()
    assert "ChangeAuthority count 0" in made.done
    authority = made.kube.objects["Secret", "demo-ca"]["metadata"]["annotations"]
    assert authority[names.ANNOTATION_CLUSTER_ID] == CLUSTER
    assert set(made.secret("demo-ca")) == {"ca.crt", "ca.key"}
    assert len(made.nodes().trusted) == 1


def test_certificates_that_may_be_left_over_are_reported() -> None:
    made = formed()
    made.spec = spec(tls={"mode": "Managed"})
    made.kube.errors["Certificate"] = RefusedError(403, "Forbidden", "not allowed")
    made.settle()
    why = made.why()
    assert why is not None
    assert why[0] == "CertificatesLeft"
    assert "rbac.certManager=true" in why[1]
    made.kube.errors["Certificate"] = NotFoundError(404, "NotFound", "no such kind")
    made.settle()
    assert made.why() is None
    assert not [name for name in made.kube.issued() if name.startswith("Secret")]


UNAVAILABLE = [
    (NotFoundError(404, "NotFound", "no kind"), "CertManagerMissing", "install cert-manager"),
    (RefusedError(403, "Forbidden", "no"), "CertManagerForbidden", "rbac.certManager=true"),
    (KubeUnavailableError(500, "Internal", "hook"), "CertManagerUnavailable", "hook"),
]


@pytest.mark.parametrize(("error", "reason", "says"), UNAVAILABLE)
def test_without_cert_manager_nothing_changes_and_the_condition_says_why(
    error: KubeError, reason: str, says: str
) -> None:
    made = World()
    made.kube.errors["Certificate"] = error
    made.settle()
    assert made.done == []
    why = made.why()
    assert why is not None
    assert why[0] == reason
    assert says in why[1]
    assert certificate_faults(made.spec, made.facts()) == (why[1],)
    running = formed()
    running.kube.errors["Certificate"] = error
    running.settle()
    assert running.done == []
    assert certificate_faults(running.spec, running.facts()) == ()
    why = running.why()
    assert why is not None
    assert why[0] == reason


def test_the_condition_says_what_is_wrong_with_issuer_or_certificate() -> None:
    made = World()
    made.settle()
    made.kube.objects["Certificate", "demo-1-issued"]["metadata"]["creationTimestamp"] = moment(-90)
    assert "cert-manager says nothing of it; is its controller running?" in str(made.why())
    made.kube.objects["Certificate", "demo-1-issued"]["metadata"]["creationTimestamp"] = moment(0)
    made.report("demo-0-issued", "False", "the CA has expired", ago_s=30)
    assert made.why() is None
    made.report("demo-0-issued", "False", "the CA has expired", ago_s=90)
    assert made.why() == (
        "CertificateNotReady",
        "Certificate demo-0-issued is not ready: the CA has expired",
    )
    condition = {"type": "Ready", "status": "False", "message": "Secret not found"}
    issuer = made.kube.objects["Issuer", "ours"]
    made.kube.put(issuer | {"status": {"conditions": [condition]}})
    why = made.why()
    assert why is not None
    assert why[0] == "IssuerNotReady"
    assert "Issuer ours is not ready: Secret not found; Certificate demo-0" in why[1]
    del made.kube.objects["Issuer", "ours"]
    assert "there is no Issuer ours in namespace test" in str(made.why())
    made.kube.errors["Issuer"] = RefusedError(403, "Forbidden", "not allowed")
    why = made.why()
    assert why is not None
    assert why[0] == "CertificateNotReady", "whether there is the issuer is not known"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tls_key": b"KEY"}, "the key does not belong to the certificate"),
        ({"ca_crt": b""}, "the issuer does not say its CA"),
        ({"tls_crt": b""}, "it has no certificate yet"),
        ({"ca_crt": b"OTHER"}, "nodes would refuse tls.crt"),
    ],
)
def test_a_secret_that_nodes_would_refuse_is_not_used(changes: dict[str, bytes], says: str) -> None:
    made = World()
    made.settle()
    made.sign()
    other = make_authority("other", 86_400, time.time())
    replaced = {b"KEY": other.key, b"OTHER": other.certificate}
    made.sign("demo-0-issued", **{key: replaced.get(v, v) for key, v in changes.items()})
    made.settle()
    assert "demo-0.crt" not in made.secret("demo-node-tls")
    assert "demo-1.crt" in made.secret("demo-node-tls")
    why = made.why()
    assert why is not None
    assert why[0] == "InvalidSecret"
    assert says in why[1]


@pytest.mark.without(
    "kraftquorum_operator.plan.issued:wanted_certificates",
    "if part is None or not part.foreign",
    "",
)
def test_a_secret_of_another_program_is_never_overwritten_or_used() -> None:
    made = World(base=replace(blank(), statefulset=None, pods=(), nodes=(), claims=()))
    body = {"kind": "Secret", "metadata": {"name": "demo-0-issued"}, "data": {"mine": "eA=="}}
    made.kube.put(body)
    made.settle()
    assert ("Certificate", "demo-0-issued") not in made.kube.objects
    assert ("Certificate", "demo-1-issued") in made.kube.objects
    why = made.why()
    assert why is not None
    assert "Secret demo-0-issued: it exists already and is not cert-manager's" in why[1]
    made.spec = spec(tls={"mode": "Managed"})
    made.settle()
    assert made.kube.issued() == {"Secret/demo-0-issued"}


def test_a_change_that_cert_manager_has_not_seen_is_no_fault() -> None:
    made = formed()
    live = made.kube.objects["Certificate", "demo-0-issued"]
    live["metadata"]["generation"] = 2
    live["status"]["conditions"][0] |= {"observedGeneration": 1, "status": "False"}
    facts = made.facts().certificates
    assert facts is not None
    assert facts.cert_manager is not None
    part = facts.cert_manager.of("demo-0")
    assert part is not None
    assert not part.ready
    assert made.why() is None


def test_a_certificate_that_a_person_changed_is_put_back() -> None:
    made = formed()
    made.kube.objects["Certificate", "demo-0-issued"]["spec"]["uris"] = ["spiffe://other"]
    made.settle()
    assert made.done == ["ApplyObjects Certificate/demo-0-issued"]


def test_the_operator_keeps_its_certificate_while_it_is_issued_again() -> None:
    made = formed()
    before = made.secret("demo-operator-tls")
    made.authority = make_authority("next", 864_000, time.time())
    del made.kube.objects["Secret", "demo-operator-issued"]
    made.sign("demo-0-issued", "demo-1-issued", "demo-2-issued")
    made.settle()
    now = made.secret("demo-operator-tls")
    assert now["tls.crt"] == before["tls.crt"]
    assert len(made.nodes().trusted) == 2, "nodes still trust the CA of the operator"
    assert OPERATOR not in dict(made.nodes().leaves)


def test_from_managed_both_cas_are_trusted_until_every_node_presents_the_new_certificate() -> None:
    made = World(spec(tls={"mode": "Managed"}), base=healthy())
    made.settle()
    asyncio.run(made.mount())
    made.settle()
    (old,) = made.nodes().trusted
    made.spec = wanted()
    made.settle()
    assert made.nodes().trusted == {old}, "nothing is issued yet"
    made.sign()
    asyncio.run(made.step())
    assert len(made.nodes().trusted) == 2
    assert {leaf.issuer for _, leaf in made.nodes().leaves} == {old}
    made.settle()
    assert old not in made.nodes().trusted
    assert len(made.nodes().trusted) == 1
    assert made.why() is None


@pytest.mark.without("kraftquorum_operator.judge.expiry:_late_leaves", "if is_late and ", "if ")
def test_a_certificate_is_late_only_once_cert_manager_should_have_renewed_it() -> None:
    """Of 48 hours, the last sixth is 8."""
    made = formed()
    facts, leaf = made.facts(), made.nodes().leaf("demo-0")
    assert facts.certificates is not None
    assert leaf is not None

    def is_reported(renew_before: str | None, left_h: int) -> bool:
        asked = wanted(certificateLifetime="48h", renewBefore=renew_before)
        now_s = leaf.not_after_s - left_h * 3600
        later = replace(facts, certificates=replace(facts.certificates, now_s=now_s))
        return why_failing(asked, later) is not None

    assert not is_reported(None, 9)
    assert is_reported(None, 7)
    assert not is_reported("2h", 7)
    assert is_reported("2h", 1)


# --- the annotation renew-certificates -------------------------------------------------------


def issuing(made: World) -> dict[str, dict[str, str]]:
    """The condition Issuing of each Certificate that has one."""
    return {
        name: condition
        for (kind, name), body in made.kube.objects.items()
        if kind == "Certificate"
        for condition in body.get("status", {}).get("conditions", [])
        if condition["type"] == "Issuing"
    }


def fail(made: World, name: str, message: str, ago_s: int, reason: str = "Failed") -> None:
    """cert-manager gives a renewal up: the certificate of before stays."""
    live = made.kube.objects["Certificate", name]
    condition = {
        "type": "Issuing",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment(-ago_s),
    }
    others = [c for c in live["status"]["conditions"] if c["type"] != "Issuing"]
    made.kube.put(live | {"status": {"conditions": [*others, condition]}})


ALL = {"demo-0-issued", "demo-1-issued", "demo-2-issued", "demo-operator-issued"}


def test_a_renewal_is_asked_of_cert_manager_once_and_reaches_the_nodes() -> None:
    made = formed()
    before, own = made.secret("demo-node-tls"), made.secret("demo-operator-tls")
    old = made.secret("demo-0-issued")["tls.crt"]
    made.renewal = "1"
    made.settle()
    assert set(issuing(made)) == ALL
    asked = issuing(made)["demo-0-issued"]
    assert (asked["status"], asked["reason"]) == ("True", "ManuallyTriggered")
    assert len(made.done) == 1, made.done
    assert made.secret("demo-0-issued")["tls.crt"] == old, "the one of before serves meanwhile"
    assert made.secret("demo-node-tls") == before
    made.sign()
    made.settle()
    now = made.secret("demo-node-tls")
    assert all(now[key] != before[key] for key in before if key != "ca.crt")
    assert now["ca.crt"] == before["ca.crt"]
    assert made.secret("demo-operator-tls")["tls.crt"] != own["tls.crt"]
    assert issuing(made) == {}, "asked for once"
    assert made.why() is None
    made.renewal = "2"
    made.settle()
    assert set(issuing(made)) == ALL


def test_a_certificate_made_after_the_annotation_is_not_renewed() -> None:
    made = World()
    made.renewal = "1"
    made.settle()
    made.sign()
    made.settle()
    assert issuing(made) == {}
    mark = made.kube.objects["Certificate", "demo-0-issued"]["metadata"]["annotations"]
    assert mark[names.ANNOTATION_RENEW] == "1"
    assert names.ANNOTATION_REPLACES not in mark


@pytest.mark.without(
    "kraftquorum_operator.judge.renewal:replaced",
    "if issued.again.asked == facts.renewal else",
    "if True else",
)
def test_an_end_between_the_two_writes_loses_no_renewal_and_repeats_none() -> None:
    """The operator marks the Certificate first, and then has cert-manager issue it."""
    made = formed()
    made.renewal = "1"
    made.kube.errors["Certificate/status"] = KubeUnavailableError(0, "Unreachable", "gone")
    with pytest.raises(KubeUnavailableError):
        asyncio.run(made.step())
    marks = made.kube.objects["Certificate", "demo-0-issued"]["metadata"]["annotations"]
    assert marks[names.ANNOTATION_RENEW] == "1"
    assert issuing(made) == {}
    made.kube.errors.clear()
    # cert-manager renews one by itself meanwhile: that is the renewal.
    made.sign("demo-1-issued")
    made.settle()
    assert set(issuing(made)) == ALL - {"demo-1-issued"}


@pytest.mark.without(
    "kraftquorum_operator.judge.renewal:_is_due",
    "is_new or again.failed_at_s is None or facts.now_s - again.failed_at_s >= RETRY_S",
    "True",
)
def test_a_renewal_that_cert_manager_gave_up_is_reported_and_asked_for_again_later() -> None:
    made = formed()
    made.renewal = "1"
    made.settle()
    assert made.why() is None
    made.sign("demo-0-issued", "demo-2-issued", "demo-operator-issued")
    fail(made, "demo-1-issued", "the CA is locked", ago_s=600)
    made.settle()
    assert issuing(made)["demo-1-issued"]["status"] == "False", "not within an hour"
    reason, why = made.why() or ("", "")
    assert reason == "CertificateNotReady"
    assert why == (
        "Certificate demo-1-issued is not issued again, as the annotation "
        "kraftquorum.io/renew-certificates asks: the CA is locked"
    )
    assert certificate_faults(made.spec, made.facts()) == (), "the pods have certificates"
    fail(made, "demo-1-issued", "the CA is locked", ago_s=3700)
    made.settle()
    assert issuing(made)["demo-1-issued"]["status"] == "True"
    # A person who asks again does not wait for the hour.
    fail(made, "demo-1-issued", "a policy denied it", ago_s=600, reason="Denied")
    made.settle()
    assert issuing(made)["demo-1-issued"]["status"] == "False"
    made.renewal = "2"
    made.settle()
    assert set(issuing(made)) == ALL
    # Without the annotation none is asked for any more.
    fail(made, "demo-1-issued", "the CA is locked", ago_s=3700)
    made.renewal = ""
    made.settle()
    assert issuing(made)["demo-1-issued"]["status"] == "False"
    assert made.why() is None


@pytest.mark.parametrize("changes", [{"ca_crt": b""}, {"ca_crt": b"OTHER"}, {"tls_key": b"KEY"}])
@pytest.mark.without(
    "kraftquorum_operator.observe.cert_manager:read_issued",
    "content=_content(secret)",
    'content=""',
)
def test_a_certificate_that_cannot_be_used_is_issued_again_too(changes: dict[str, bytes]) -> None:
    """As when a person has put the issuer right, and asks for what it issues now."""
    made = formed()
    other = make_authority("other", 86_400, time.time())
    given = {b"KEY": other.key, b"OTHER": other.certificate}
    made.sign("demo-0-issued", **{key: given.get(v, v) for key, v in changes.items()})
    made.settle()
    assert (made.why() or ("",))[0] == "InvalidSecret"
    made.renewal = "1"
    made.settle()
    assert set(issuing(made)) == ALL
    made.sign()
    made.settle()
    assert issuing(made) == {}
    assert made.why() is None


@pytest.mark.without(
    "kraftquorum_operator.execute.objects:_apply", "if not _is_marked(body, written):", "if False:"
)
def test_without_its_mark_a_certificate_is_not_issued_over_and_over() -> None:
    """A webhook that takes annotations away hides that the renewal was asked for."""

    class Stripped(Kube):
        def put(self, body: Body) -> Body:
            meta = body["metadata"]
            if body["kind"] == "Certificate":
                body = body | {"metadata": meta | {"annotations": {}}}
            return super().put(body)

    made = formed()
    objects = made.kube.objects
    made.kube = Stripped(objects, version=made.kube.version)
    made.renewal = "1"
    for _ in range(3):
        with pytest.raises(RefusedError, match=r"Certificate/demo-0-issued differs .* webhook"):
            asyncio.run(made.step())
        assert issuing(made) == {}
        made.sign()


def test_a_renewal_that_cert_manager_does_not_begin_is_reported() -> None:
    made = formed()
    made.renewal = "1"
    made.settle()
    live = made.kube.objects["Certificate", "demo-1-issued"]
    for condition in live["status"]["conditions"]:
        if condition["type"] == "Issuing":
            condition["lastTransitionTime"] = moment(-90)
    why = made.why()
    assert why is not None
    assert why[0] == "CertificateNotReady"
    assert "is its controller running?" in why[1]


def test_a_renewal_without_the_right_is_an_object_that_cannot_be_written() -> None:
    """So repairs go on, and the status names the request that the API server refused."""
    made = formed()
    made.renewal = "1"
    refused = RefusedError(403, "Forbidden", "certificates/status")
    made.kube.errors["Certificate/status"] = refused
    with pytest.raises(RefusedError):
        asyncio.run(made.step())
    due = ObjectRef("Certificate", "demo-0-issued")
    assert due in made.facts().outdated
    memory = Refusals()
    memory.failed([due], str(refused), 1, 0)
    marked = memory.mark(replace(made.facts(), generation=1), 1)
    assert due not in marked.outdated
    assert (due, str(refused)) in marked.refused
