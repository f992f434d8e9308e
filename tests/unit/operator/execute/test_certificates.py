"""Certificates on a model of Kubernetes: issued, renewed, moved to another CA, always accepted.

The Secrets, the keys and the certificates are real. A pod has a copy of its Secret, as its kubelet
mounted it last, and reports what it presents and trusts. After each step every pod must accept every
other, the operator and a client that has the CAs.
"""

from __future__ import annotations

import asyncio
import base64
import random
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from timeit import timeit
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError, KubeError, KubeUnavailableError, RefusedError
from kraftquorum_operator.execute.certificate_signing import (
    LeafNames,
    Pair,
    issue_leaf,
    make_authority,
)
from kraftquorum_operator.execute.run import run
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.judge.certificates import certificate_faults, why_failing
from kraftquorum_operator.judge.expiry import expiries, next_ca_expiry
from kraftquorum_operator.model.certificates import OPERATOR, KeyStore, ListenerCertificate
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.pem import read_bundle, read_leaf
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel
from kraftquorum_operator.observe.certificates import read_certificates
from kraftquorum_operator.plan.actions import describe
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.certificates import certificates
from kraftquorum_operator.plan.tls_level import next_level
from proofkit.certificates import HOUR, Authority
from proofkit.operatorworld.observations import CLUSTER, UID, blank, healthy, spec

OWNER = Owner("test", "demo", UID)
MANAGED = spec(tls={"mode": "Managed"})
PROVIDED = spec(tls={"mode": "Secret", "secretName": "mine"})


@dataclass
class Kube:
    """Secrets and ConfigMaps, with the preconditions of the API server."""

    objects: dict[tuple[str, str], Body] = field(default_factory=dict)
    errors: dict[str, KubeError] = field(default_factory=dict)
    version: int = 0

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        if name in self.errors:
            raise self.errors[name]
        return self.objects.get((kind, name))

    async def create(self, body: Body) -> Body:
        key = body["kind"], body["metadata"]["name"]
        if key in self.objects:
            raise ConflictError(409, "AlreadyExists", "there")
        return self._put(key, body | {"metadata": body["metadata"] | {"uid": f"uid-{key}"}})

    async def apply(self, body: Body) -> Body:
        key = body["kind"], body["metadata"]["name"]
        uid = {"uid": f"uid-{key}"}
        return self._put(key, body | {"metadata": body["metadata"] | uid})

    async def patch(self, kind: str, namespace: str, name: str, *, uid: str, change: Body) -> Body:
        live = self.objects[kind, name]
        meta = change["metadata"]
        if uid != live["metadata"]["uid"]:
            raise ConflictError(409, "Conflict", "uid")
        if meta.get("resourceVersion", self.of(live)) != self.of(live):
            raise ConflictError(409, "Conflict", "version")
        data = live["data"] | change.get("data", {})
        merged = {
            part: live["metadata"].get(part, {}) | meta.get(part, {})
            for part in ("labels", "annotations")
        }
        return self._put(
            (kind, name),
            live
            | {
                "data": {key: value for key, value in data.items() if value is not None},
                "metadata": live["metadata"] | merged,
            },
        )

    def of(self, body: Body) -> str:
        return body["metadata"]["resourceVersion"]

    def _put(self, key: tuple[str, str], body: Body) -> Body:
        self.version += 1
        version = {"resourceVersion": str(self.version)}
        self.objects[key] = body | {"metadata": body["metadata"] | version}
        return self.objects[key]


@dataclass
class Mounted:
    """What a pod has read of its Secret: it presents its own certificate, and trusts the CAs."""

    store: KeyStore
    refreshes: bool = True
    answers: bool = True


class World:
    """Pods of a quorum that speaks TLS, and the operator's steps on their certificates."""

    def __init__(self, wanted: QuorumSpec = MANAGED, base: Observation | None = None) -> None:
        self.kube = Kube()
        self.spec = wanted
        self.base = base or healthy()
        self.marks: dict[str, str] = {}
        self.mounted: dict[str, Mounted] = {}
        self.level: TlsLevel = "required"
        self.done: list[str] = []

    async def look(self) -> Observation:
        resource: Body = {"metadata": {"annotations": self.marks}}
        facts, _ = await read_certificates(
            cast("Any", self.kube), OWNER, resource, self.spec.tls.secret_name
        )
        statefulset = self.base.statefulset
        level: TlsLevel = self.level if self.mounted else "disabled"
        return replace(
            self.base,
            certificates=facts,
            statefulset=replace(statefulset, tls=level) if statefulset else None,
            pods=tuple(replace(pod, tls=level) for pod in self.base.pods),
            nodes=tuple(
                replace(node, certificates=self._shown(names.pod("demo", node.replica.node_id)))
                for node in self.base.nodes
                if self._answers(names.pod("demo", node.replica.node_id))
            ),
        )

    def _answers(self, pod: str) -> bool:
        mounted = self.mounted.get(pod)
        return mounted is None or mounted.answers

    def _shown(self, pod: str) -> tuple[ListenerCertificate, ...]:
        mounted = self.mounted.get(pod)
        leaf = mounted.store.leaf(pod) if mounted is not None else None
        if mounted is None or leaf is None:
            return ()
        return tuple(
            ListenerCertificate(listener, leaf.fingerprint, mounted.store.trusted)
            for listener in ("peer", "api")
        )

    async def step(self) -> bool:
        """One step of the operator; False if it has none."""
        observation = await self.look()
        action = certificates(Case(self.spec, observation, 0))
        if action is None:
            return False
        self.done.append(describe(action))
        tools = Tools(
            cast("Any", self.kube), cast("Any", None), OWNER, observation, {}, 1, Failpoints(),
            self.spec,
        )  # fmt: skip
        await run(action, tools)
        return True

    async def settle(self, rng: random.Random | None = None) -> None:
        """Steps and refreshes in any order, until nothing changes; all is accepted throughout."""
        rng = rng or random.Random(0)
        for _ in range(200):
            current = await self.is_current()
            acted = await self.step()
            if self.mounted:
                await self.check()
            pods = list(self.mounted)
            rng.shuffle(pods)
            for pod in pods[: rng.randint(0, len(pods))]:
                await self.refresh(pod)
                await self.check()
            if not acted and current:
                return
        raise AssertionError(self.done)

    async def is_current(self) -> bool:
        store = await self.nodes() if self.mounted else None
        return all(m.store == store for m in self.mounted.values() if m.refreshes)

    async def nodes(self) -> KeyStore:
        facts = (await self.look()).certificates
        assert facts is not None
        assert facts.nodes is not None
        return facts.nodes

    async def start(self) -> None:
        """All pods start, with the Secret as it is."""
        store = await self.nodes()
        self.mounted = {pod.name: Mounted(store) for pod in self.base.pods}

    async def refresh(self, pod: str) -> None:
        if self.mounted[pod].refreshes:
            self.mounted[pod].store = await self.nodes()

    async def check(self) -> None:
        """Every pod accepts every other and the operator; operator and clients accept every pod."""
        facts = (await self.look()).certificates
        assert facts is not None
        ends = {pod: m.store for pod, m in self.mounted.items()}
        for pod, store in ends.items():
            leaf = store.leaf(pod)
            assert leaf is not None
            for other, trusting in ends.items():
                assert leaf.issuer in trusting.trusted, f"{other} refuses {pod}: {self.done}"
            for trusting in (facts.operator, facts.clients):
                assert trusting is not None
                assert leaf.issuer in trusting.trusted, f"{pod} is refused: {self.done}"
            own = facts.operator.leaf(OPERATOR) if facts.operator is not None else None
            if own is not None:
                assert own.issuer in store.trusted, f"{pod} refuses the operator: {self.done}"


def world(wanted: QuorumSpec = MANAGED) -> World:
    """A quorum with certificates, whose pods run."""
    made = World(wanted)

    async def begin() -> None:
        await made.settle()
        await made.start()
        made.done.clear()

    asyncio.run(begin())
    return made


def signers(made: World) -> set[str]:
    return {leaf.issuer for _, leaf in asyncio.run(made.nodes()).leaves}


def test_a_new_quorum_gets_a_ca_and_a_certificate_for_each_pod() -> None:
    made = World(base=replace(blank(), statefulset=None, pods=(), nodes=(), claims=()))
    asyncio.run(made.settle())
    assert [step.split()[0] for step in made.done] == ["CreateAuthority", "IssueCertificates"]
    observation = asyncio.run(made.look())
    facts = observation.certificates
    assert facts is not None
    assert facts.authority is not None
    assert facts.nodes is not None
    assert [name for name, _ in facts.nodes.leaves] == ["demo-0", "demo-1", "demo-2"]
    leaf = facts.nodes.leaf("demo-1")
    assert leaf is not None
    assert leaf.uris == {names.node_identity(facts.authority.cluster_id, 1)}
    assert {"demo-1.demo-peers.test.svc.cluster.local", "demo.test.svc", "localhost", "::1"} <= set(
        leaf.hosts
    )
    assert next_level(MANAGED, observation) == "required"
    assert expiries(observation)["node"] < (next_ca_expiry(observation) or 0)
    assert why_failing(MANAGED, observation) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_ca_is_replaced_and_everything_is_accepted_at_any_time(seed: int) -> None:
    made = world()
    before = signers(made)
    made.marks[names.ANNOTATION_ROTATE_CA] = "now"
    asyncio.run(made.settle(random.Random(seed)))
    steps = [step.split(" (")[0] for step in made.done]
    assert steps == [
        "ChangeAuthority prepare",
        "IssueCertificates",
        "ChangeAuthority promote",
        "IssueCertificates",
        "IssueCertificates",
    ]
    assert signers(made).isdisjoint(before)
    assert asyncio.run(made.nodes()).trusted == signers(made)


@pytest.mark.without(
    "kraftquorum_operator.plan.certificates:_depends_on_others",
    "or not_presenting(case.observation)",
    "",
)
def test_a_pod_whose_volume_is_not_refreshed_keeps_the_old_ca_trusted() -> None:
    made = world()
    old = signers(made)
    made.mounted["demo-2"].refreshes = False
    made.marks[names.ANNOTATION_ROTATE_CA] = "now"
    asyncio.run(made.settle())
    assert made.done[-1].startswith("IssueCertificates (trusted CAs)")
    assert signers(made) == old  # it does not trust the next one, so that signs nothing yet
    made.mounted["demo-2"].refreshes = True
    asyncio.run(made.refresh("demo-2"))
    # Between the new certificates and the end of the old CA.
    assert asyncio.run(made.step())
    assert asyncio.run(made.step())
    made.mounted["demo-2"].refreshes = False
    asyncio.run(made.settle())
    assert old < asyncio.run(made.nodes()).trusted
    made.mounted["demo-2"].refreshes = True  # restarted
    asyncio.run(made.settle())
    assert not old & asyncio.run(made.nodes()).trusted


@pytest.mark.without(
    "kraftquorum_operator.plan.certificates:_rotate",
    "and not not_trusting(case.observation, prepared.fingerprint)",
    "",
)
def test_a_node_that_does_not_answer_holds_the_rotation_until_it_is_gone() -> None:
    made = world()
    made.mounted["demo-2"].answers = False
    made.mounted["demo-2"].refreshes = False
    made.marks[names.ANNOTATION_ROTATE_CA] = "now"
    asyncio.run(made.settle())
    assert "ChangeAuthority promote" not in made.done
    # The replica is removed: neither its pod nor its certificate holds anything back.
    made.base = healthy(2)
    made.spec = spec(voters=2, tls={"mode": "Managed"})
    del made.mounted["demo-2"]
    asyncio.run(made.settle())
    assert "ChangeAuthority promote" in made.done
    assert [name for name, _ in asyncio.run(made.nodes()).leaves] == ["demo-0", "demo-1"]
    assert asyncio.run(made.nodes()).trusted == signers(made)


def test_certificates_are_renewed_in_time_and_when_a_person_asks() -> None:
    made = world()
    before = {name: leaf.fingerprint for name, leaf in asyncio.run(made.nodes()).leaves}
    made.marks[names.ANNOTATION_RENEW] = "1"
    asyncio.run(made.settle())
    after = {name: leaf.fingerprint for name, leaf in asyncio.run(made.nodes()).leaves}
    assert not set(before.values()) & set(after.values())
    observation = asyncio.run(made.look())
    facts = observation.certificates
    assert facts is not None
    week_s = 7 * 86_400
    for age_s, renewed in ((week_s // 2, False), (week_s * 2 // 3, True)):
        later = replace(observation, certificates=replace(facts, now_s=facts.now_s + age_s))
        assert (certificates(Case(MANAGED, later, 0)) is not None) is renewed
    late = replace(observation, certificates=replace(facts, now_s=facts.now_s + week_s - 60))
    assert (why_failing(MANAGED, late) or ("", ""))[0] == "Expiring"


def test_a_ca_is_replaced_after_two_thirds_of_its_life() -> None:
    made = world()
    observation = asyncio.run(made.look())
    facts = observation.certificates
    assert facts is not None
    for days, step in ((240, "IssueCertificates"), (245, "ChangeAuthority prepare")):
        later = replace(facts, now_s=facts.now_s + days * 86_400)
        action = certificates(Case(MANAGED, replace(observation, certificates=later), 0))
        assert action is not None
        assert describe(action).startswith(step)


@pytest.mark.without(
    "kraftquorum_operator.plan.certificates:_authority",
    "or authority.signing.not_after_s <= facts.now_s",
    "",
)
def test_a_quorum_whose_ca_has_expired_gets_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No operator ran for months: no node accepts another, and none answers the operator."""
    made = world()
    for mounted in made.mounted.values():
        mounted.answers = False
    now_s = time.time() + 366 * 86_400
    monkeypatch.setattr(time, "time", lambda: now_s)
    while asyncio.run(made.step()):
        assert len(made.done) < 10, made.done
        for pod, mounted in made.mounted.items():
            asyncio.run(made.refresh(pod))
            leaf = mounted.store.leaf(pod)
            mounted.answers = leaf is not None and leaf.not_after_s > now_s + 60
    assert made.done[0] == "ChangeAuthority renew"
    assert all(mounted.answers for mounted in made.mounted.values())
    assert asyncio.run(made.nodes()).trusted == signers(made)


def test_the_next_ca_signs_at_once_if_the_one_before_has_expired() -> None:
    made = world()
    made.marks[names.ANNOTATION_ROTATE_CA] = "now"
    asyncio.run(made.step())
    made.mounted["demo-2"].answers = False
    observation = asyncio.run(made.look())
    facts = observation.certificates
    assert facts is not None
    assert facts.authority is not None
    assert facts.authority.signing is not None
    expired = replace(facts.authority.signing, not_after_s=facts.now_s)
    late = replace(facts, authority=replace(facts.authority, signing=expired))
    action = certificates(Case(MANAGED, replace(observation, certificates=late), 0))
    assert action is not None
    assert describe(action) == "ChangeAuthority promote"


def test_an_earlier_resource_s_ca_names_the_quorum_that_its_claims_may_hold() -> None:
    earlier = World()
    asyncio.run(earlier.settle())
    made = World(base=replace(healthy(), uid="resource-2", statefulset=None, pods=(), nodes=(),
                              quorum=None, latch=None))  # fmt: skip
    made.kube = earlier.kube
    asyncio.run(made.settle())
    facts = asyncio.run(made.look()).certificates
    assert facts is not None
    assert facts.authority is not None
    assert facts.authority.cluster_id == CLUSTER
    assert facts.authority.owner_uid == UID
    # All its nodes turn out to be blank: the quorum that forms gets an id of its own (S18).
    made.base = replace(blank(), uid="resource-2")
    observation = asyncio.run(made.look())
    action = certificates(Case(MANAGED, observation, 0))
    assert action is not None
    assert describe(action) == "ChangeAuthority identify"
    assert "cluster_id=None" in repr(action)


ABSENT = b"absent"
"""A key that a person's Secret lacks."""


def provide(
    made: World, pair: Pair, bundle: bytes, cluster_id: str = CLUSTER, **more: bytes
) -> None:
    """A person's Secret, with one certificate for all pods."""
    uris = frozenset(names.node_identity(cluster_id, n) for n in range(3))
    hosts = frozenset({"*.demo-peers.test.svc.cluster.local", "localhost"})
    leaf = issue_leaf(pair, LeafNames("all", uris, hosts), 86_400, time.time())
    data = {"ca.crt": bundle, "tls.crt": leaf.certificate, "tls.key": leaf.key} | more
    there = {key: value for key, value in data.items() if value != ABSENT}
    body = {
        "kind": "Secret",
        "metadata": {"name": "mine"},
        "data": {key: base64.b64encode(value).decode() for key, value in there.items()},
    }
    asyncio.run(made.kube.apply(body))


def test_a_person_s_certificates_are_copied_and_replaced_with_overlap() -> None:
    first, second = make_authority("a", 10**6, time.time()), make_authority("b", 10**6, time.time())
    made = World(PROVIDED)
    provide(made, first, first.certificate)
    asyncio.run(made.settle())
    asyncio.run(made.start())
    before = signers(made)
    # The CA and the certificate are replaced at once: the operator still does it in steps.
    provide(made, second, second.certificate)
    asyncio.run(made.settle(random.Random(1)))
    assert signers(made).isdisjoint(before)
    assert asyncio.run(made.nodes()).trusted == signers(made)


@pytest.mark.without(
    "kraftquorum_operator.plan.certificates:_is_outdated",
    "or not not_trusting(case.observation, signer)\n    wanted",
    "or bool(signer)\n    wanted",
)
def test_from_the_operator_s_certificates_to_a_person_s_and_back() -> None:
    made = world()
    own = make_authority("a", 10**6, time.time())
    provide(made, own, own.certificate)
    managed = signers(made)
    made.spec = PROVIDED
    asyncio.run(made.settle(random.Random(2)))
    assert signers(made).isdisjoint(managed)
    made.spec = MANAGED
    asyncio.run(made.settle(random.Random(3)))
    assert signers(made) == managed


BROKEN: dict[str, tuple[dict[str, bytes], str]] = {
    "missing": ({}, "does not exist"),
    "key": ({"tls.key": b"other"}, "tls.crt: the key does not belong to the certificate"),
    "no key": ({"tls.key": b""}, "tls.crt: the key cannot be read"),
    "ca": ({"ca.crt": b"text"}, "ca.crt: it has no PEM certificate"),
    "no ca": ({"ca.crt": ABSENT}, "ca.crt: the key is missing"),
    "other ca": ({"ca.crt": b"other"}, "nodes would refuse tls.crt: "),
    "cluster": ({"cluster": b"other"}, "lacks the URI spiffe://kraftquorum/cluster/cluster-a"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_secret_that_cannot_be_used_changes_nothing(fault: str) -> None:
    change, message = BROKEN[fault]
    made = world()
    made.spec = PROVIDED
    before = asyncio.run(made.nodes())
    first, other = make_authority("a", 10**6, time.time()), make_authority("b", 10**6, time.time())
    if change:
        values = {
            key: {"tls.key": other.key, "ca.crt": other.certificate}[key]
            if value == b"other"
            else value
            for key, value in change.items()
            if key != "cluster"
        }
        cluster_id = "other" if "cluster" in change else CLUSTER
        provide(made, first, first.certificate, cluster_id, **values)
    observation = asyncio.run(made.look())
    reason, why = why_failing(PROVIDED, observation) or ("", "")
    assert reason == "InvalidSecret"
    assert why.startswith("spec.tls.secretName: Secret mine")
    assert message in why
    assert not asyncio.run(made.step())
    assert asyncio.run(made.nodes()) == before


def test_a_certificate_that_nodes_would_refuse_is_refused() -> None:
    """Its subject is its CA's, so that it looks as if it had signed itself."""
    made = world()
    made.spec = PROVIDED
    own = make_authority("all", 10**6, time.time())
    provide(made, own, own.certificate)
    faults = "; ".join(certificate_faults(PROVIDED, asyncio.run(made.look())))
    assert "nodes would refuse tls.crt: self-signed certificate" in faults


def test_an_expired_certificate_is_refused() -> None:
    made = world()
    made.spec = PROVIDED
    own = make_authority("a", 10**6, time.time())
    provide(made, own, own.certificate)
    observation = asyncio.run(made.look())
    facts = observation.certificates
    assert facts is not None
    assert certificate_faults(PROVIDED, observation) == ()
    late = replace(observation, certificates=replace(facts, now_s=facts.now_s + 86_400))
    assert "expired at" in "; ".join(certificate_faults(PROVIDED, late))


def test_two_operators_do_not_write_over_each_other() -> None:
    made = world()
    made.marks[names.ANNOTATION_RENEW] = "1"
    observation = asyncio.run(made.look())
    action = certificates(Case(MANAGED, observation, 0))
    assert action is not None
    assert asyncio.run(made.step())
    after = asyncio.run(made.nodes())
    tools = Tools(
        cast("Any", made.kube), cast("Any", None), OWNER, observation, {}, 1, Failpoints(), MANAGED
    )
    with pytest.raises(ConflictError):
        asyncio.run(run(action, tools))
    assert asyncio.run(made.nodes()) == after


# --- objects that cannot be read -------------------------------------------------------------

FORBIDDEN = RefusedError(403, "Forbidden", "secrets is forbidden")
UNDECRYPTABLE = KubeUnavailableError(500, "InternalError", "no matching key was found")


def read(made: World) -> tuple[str, bool]:
    """Why the certificates cannot be read, and whether the operator has its own."""
    resource: Body = {"metadata": {}}
    reading = read_certificates(cast("Any", made.kube), OWNER, resource, made.spec.tls.secret_name)
    facts, access = asyncio.run(reading)
    return facts.unreadable, access is not None and bool(access.certificate)


@pytest.mark.parametrize("name", ["demo-ca", "demo-node-tls", "demo-client-ca"])
def test_the_operator_reaches_the_nodes_while_it_may_not_read_another_object(name: str) -> None:
    """Repairs go on: they need what the operator presents, and no other certificate."""
    made = world()
    assert read(made) == ("", True)
    made.kube.errors[name] = FORBIDDEN
    why, reaches = read(made)
    assert why.startswith("secrets is forbidden")
    assert reaches
    made.kube.errors["demo-operator-tls"] = FORBIDDEN
    why, reaches = read(made)
    assert why.startswith("secrets is forbidden")
    assert not reaches


def test_a_missing_right_on_secrets_is_named_once_with_what_to_grant() -> None:
    made = world()
    for name in ("demo-ca", "demo-node-tls", "demo-operator-tls"):
        made.kube.errors[name] = RefusedError(403, "Forbidden", f'secrets "{name}" is forbidden')
    assert read(made)[0] == (
        'secrets "demo-ca" is forbidden; grant the operator\'s role get, create, patch, delete on '
        "secrets in namespace test"
    )
    made.kube.errors = {"demo-ca": RefusedError(400, "BadRequest", "not valid")}
    assert read(made)[0] == "not valid"


def test_the_operator_reaches_the_nodes_while_another_owner_has_a_name() -> None:
    made = world()
    taken = made.kube.objects["ConfigMap", "demo-client-ca"]
    made.kube.objects["ConfigMap", "demo-client-ca"] = taken | {
        "metadata": {"name": "demo-client-ca", "uid": "another", "resourceVersion": "1"}
    }
    why, reaches = read(made)
    assert "ConfigMap/demo-client-ca belongs to another owner" in why
    assert reaches
    own = made.kube.objects["Secret", "demo-operator-tls"]
    made.kube.objects["Secret", "demo-operator-tls"] = own | {
        "metadata": {"name": "demo-operator-tls", "uid": "another", "resourceVersion": "1"}
    }
    assert not read(made)[1], "what another owner has put there is presented to no node"


def test_a_person_s_secret_that_cannot_be_decrypted_is_a_fact_and_the_operator_s_own_is_not() -> (
    None
):
    made = world()
    made.spec = PROVIDED
    made.kube.errors["mine"] = UNDECRYPTABLE
    assert read(made) == ("no matching key was found", True)
    assert why_failing(PROVIDED, asyncio.run(made.look())) == (
        "Unreadable",
        (
            "spec.tls.secretName: Secret mine: the Secrets with the certificates cannot be read: "
            "no matching key was found"
        ),
    )
    made.spec = spec(tls={"mode": "Managed"})
    made.kube.errors = {"demo-ca": FORBIDDEN}
    reason, why = why_failing(made.spec, asyncio.run(made.look())) or ("", "")
    assert reason == "Unreadable"
    assert why.startswith(
        "spec.tls.mode: Managed: the Secrets with the certificates cannot be read"
    )
    made.kube.errors["demo-operator-tls"] = UNDECRYPTABLE
    with pytest.raises(KubeUnavailableError):
        read(made)


@pytest.mark.without(
    "kraftquorum_operator.model.pem:_public_bytes_of_key",
    ", unsafe_skip_rsa_key_validation=True",
    "",
)
def test_a_person_s_rsa_key_is_read_at_every_look_without_its_check() -> None:
    """With the check the operator did nothing but that: a Secret is read nine times and more."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "all")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .subject_name(name)
        .issuer_name(name)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    checked, unchecked = (
        timeit(
            lambda skip=skip: serialization.load_pem_private_key(
                pem, None, unsafe_skip_rsa_key_validation=skip
            ),
            timer=time.thread_time,
            number=5,
        )
        for skip in (False, True)
    )
    chain = certificate.public_bytes(serialization.Encoding.PEM)
    read_s = timeit(lambda: read_leaf(chain, pem, []), timer=time.thread_time, number=5)
    assert read_s - unchecked < checked / 2


@pytest.mark.without(
    "kraftquorum_operator.model.pem:_issuer", "max(signers, key", "min(signers, key"
)
def test_a_ca_that_was_renewed_with_its_key_counts_by_its_renewal(tmp_path: Path) -> None:
    authority = Authority(valid_for=-HOUR)
    before = authority.pem
    authority.renew()
    files = authority.issue(tmp_path)
    for bundle in (before + authority.pem, authority.pem + before):
        cas, facts = read_bundle(bundle)
        leaf = read_leaf(files.certificate.read_bytes(), files.key.read_bytes(), cas)
        assert leaf.issuer == max(facts, key=lambda ca: ca.not_after_s).fingerprint
