"""From plain connections to TLS and back: pods that understand each other at any time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.certificates import Certificates, highest
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel
from kraftquorum_operator.plan.actions import (
    ApplyObjects,
    CreateLatch,
    DeletePod,
    Done,
    IssueCertificates,
    SetReplicas,
    Wait,
)
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.plan.tls_level import next_level
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import CLUSTER, NOW_MS, UID, blank, healthy, pod, spec
from proofkit.operatorworld.tls_observations import certified

OFF = spec()
BOTH = spec(tls={"mode": "Managed", "plaintext": "Accepted"})
ON = spec(tls={"mode": "Managed"})
OWNER = Owner("test", "demo", UID)


def with_levels(template: TlsLevel, *pods: TlsLevel, presented: bool = True) -> Observation:
    """A quorum in the middle of a roll: the template has one level, each pod its own."""
    observation = certified(healthy(), template, presented=presented)
    return replace(
        observation,
        pods=tuple(
            replace(pod, tls=level) for pod, level in zip(observation.pods, pods, strict=True)
        ),
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.without(
    "kraftquorum_operator.plan.tls_level:next_level", 'or "disabled" in levels', ""
)
def test_no_pod_is_two_steps_from_another_however_often_the_wish_changes(seed: int) -> None:
    rng = random.Random(seed)
    template: TlsLevel = "disabled"
    pods: list[TlsLevel] = ["disabled"] * 3
    wanted = OFF
    for _ in range(200):
        if rng.random() < 0.15:
            wanted = rng.choice((OFF, BOTH, ON))
        template = next_level(wanted, with_levels(template, *pods))
        pods[rng.randrange(3)] = template  # its restart, or that of a pod that was evicted
        assert {"disabled", "required"} != {template, *pods} - {"permissive"}
    for _ in range(4):
        template = next_level(wanted, with_levels(template, *pods))
        pods = [template] * 3
    assert template == wanted.tls.level


@pytest.mark.parametrize(
    ("wanted", "template", "presented", "level"),
    [
        (ON, "disabled", True, "permissive"),
        (ON, "permissive", True, "required"),
        (ON, "permissive", False, "permissive"),
        (BOTH, "required", True, "permissive"),
        (OFF, "required", True, "permissive"),
        (OFF, "permissive", False, "disabled"),
    ],
)
def test_the_next_level(
    wanted: QuorumSpec, template: TlsLevel, presented: bool, level: TlsLevel
) -> None:
    observation = with_levels(template, template, template, template, presented=presented)
    assert next_level(wanted, observation) == level


def test_nothing_changes_while_certificates_are_missing_or_cannot_be_read() -> None:
    observation = with_levels("permissive", "permissive", "permissive", "permissive")
    for facts in (Certificates(0), Certificates(0, unreadable="403")):
        assert next_level(ON, replace(observation, certificates=facts)) == "permissive"


def test_a_template_with_tls_mounts_the_secret_and_one_without_is_as_before() -> None:
    plain = compare(OWNER, OFF, healthy(), ())
    body = next(b for ref, b in plain.bodies.items() if ref.kind == "StatefulSet")
    text = repr(body)
    assert "TLS" not in text
    assert "volumes'" not in text
    assert "scheme" not in text
    tls = compare(
        OWNER, ON, with_levels("permissive", "permissive", "permissive", "permissive"), ()
    )
    body = next(b for ref, b in tls.bodies.items() if ref.kind == "StatefulSet")
    pod_spec = body["spec"]["template"]["spec"]
    assert pod_spec["volumes"] == [
        {"name": "tls", "secret": {"secretName": "demo-node-tls", "defaultMode": 0o440}}
    ]
    (container,) = pod_spec["containers"]
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert env["RAFTNODE_PEER_TLS"] == env["RAFTNODE_API_TLS"] == "required"
    assert env["RAFTNODE_API_TLS_KEY_FILE"] == "/etc/kraftquorum/tls/$(POD_NAME).key"
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert container["volumeMounts"][1]["readOnly"] is True


def test_a_secret_that_cannot_be_used_holds_the_template_and_every_restart() -> None:
    wanted = spec(tls={"mode": "Secret", "secretName": "mine"}, image="new")
    observation = with_levels("permissive", "permissive", "permissive", "permissive")
    desired = compare(OWNER, wanted, observation, ())
    assert not [ref for ref in desired.bodies if ref.kind == "StatefulSet"]
    outdated = replace(pod(2), revision="r0", tls="permissive")
    decision = decide(wanted, replace(observation, pods=(*observation.pods[:2], outdated)), NOW_MS)
    assert isinstance(decision, Wait), decision
    assert decision.guard == "certificates_usable"
    assert "spec.tls.secretName: Secret mine does not exist" in decision.why
    assert not isinstance(decision, DeletePod)


def without_secrets(observation: Observation) -> Observation:
    """The CA alone: the operator has certificates to issue."""
    facts = observation.certificates
    assert facts is not None
    return replace(
        observation, certificates=replace(facts, nodes=None, operator=None, clients=None)
    )


@pytest.mark.without(
    "kraftquorum_operator.plan.decide:decide", "_first(UNCERTIFIED, case)", "certificates(case)"
)
def test_pods_come_back_although_no_secret_can_be_written() -> None:
    """A quota or a webhook may refuse the Secrets, and the operator tries again and again."""
    observation = without_secrets(certified(healthy(), "permissive"))
    silent = replace(observation, quorum=None, nodes=())
    decision = decide(ON, silent, NOW_MS)
    assert isinstance(decision, IssueCertificates), decision
    assert silent.statefulset is not None
    lowered = replace(silent, statefulset=replace(silent.statefulset, replicas=0), pods=())
    decision = decide(ON, lowered, NOW_MS)
    assert isinstance(decision, SetReplicas), decision


@pytest.mark.without(
    "kraftquorum_operator.plan.decide:_operate",
    "if case.observation.outdated:",
    "if case.observation.outdated and certificates(case) is None:",
)
def test_the_budget_is_written_although_no_secret_can_be_written() -> None:
    observation = without_secrets(certified(healthy(), "permissive"))
    assert isinstance(decide(ON, observation, NOW_MS), IssueCertificates)
    budget = ObjectRef("PodDisruptionBudget", "demo")
    decision = decide(ON, replace(observation, outdated=(budget,)), NOW_MS)
    assert decision == ApplyObjects((budget,))


def test_a_quorum_forms_with_the_cluster_id_of_its_certificates() -> None:
    decision = decide(ON, certified(blank(), "required"), NOW_MS)
    assert isinstance(decision, CreateLatch), decision
    assert decision.cluster_id == CLUSTER
    plain = decide(OFF, blank(), NOW_MS)
    assert isinstance(plain, CreateLatch)
    assert plain.cluster_id is None


def test_a_quorum_of_unknown_id_starts_without_tls_until_it_answers() -> None:
    """Its claims are there, and the CA with the id is gone."""
    observation = replace(
        healthy(),
        statefulset=None,
        pods=(),
        nodes=(),
        quorum=None,
        latch=None,
        certificates=Certificates(0),
    )
    assert next_level(ON, observation) == "disabled"


@pytest.mark.without(
    "kraftquorum_operator.plan.tls_level:next_level",
    "other_end in {pod.tls for pod in observation.pods}",
    "False",
)
@pytest.mark.parametrize(("wanted", "running"), [(ON, "disabled"), (OFF, "required")])
def test_pods_that_outlived_their_statefulset_understand_the_next_ones(
    wanted: QuorumSpec, running: TlsLevel
) -> None:
    observation = replace(with_levels(running, running, running, running), statefulset=None)
    assert next_level(wanted, observation) == "permissive"
    assert next_level(wanted, replace(observation, pods=())) == wanted.tls.level


def test_the_status_has_the_level_and_when_certificates_expire() -> None:
    observation = with_levels("permissive", "permissive", "permissive", "permissive")
    status = build_status(
        ON, observation, Done("x"), current_action=None, before=(), stamp=Stamp("now", 1)
    )
    assert status.tls is not None
    assert status.tls.level == "permissive"
    assert status.tls.next_expiry == "1970-04-17T00:00:00Z"
    assert status.tls.ca_expiry == "1971-04-11T00:00:00Z"
    plain = build_status(
        OFF, healthy(), Done("x"), current_action=None, before=(), stamp=Stamp("now", 1)
    )
    assert plain.tls is None


def test_the_strictest_level() -> None:
    assert highest(["disabled", "required", "permissive"]) == "required"
    assert highest([]) == "disabled"


def test_names_of_a_pod_s_certificate() -> None:
    hosts = names.hosts("prod", "demo", 2)
    assert "demo-2.demo-peers.prod.svc.cluster.local" in hosts
    assert "demo.prod.svc" in hosts
