"""The cluster domain of a quorum: what a changed setting changes, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.judge.leaves import wanted_leaf
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import Claim, StatefulSet
from kraftquorum_operator.observe.cluster_domain import cluster_domain_of
from kraftquorum_operator.observe.kube import read_claims, read_statefulset
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.settings import Settings, load_settings
from proofkit.operatorworld.observations import UID, healthy, spec

OWNER = Owner("test", "demo", UID)
SET = StatefulSet("set-1", "7", 3)
CLAIM = Claim("data-demo-0", "claim-0", 0)


@pytest.mark.without(
    "kraftquorum_operator.observe.cluster_domain:cluster_domain_of",
    "if statefulset is not None:",
    "if False:",
)
def test_a_changed_setting_leaves_a_living_quorum_as_it_is() -> None:
    assert cluster_domain_of(SET, [], "corp.example") == "cluster.local"


@pytest.mark.parametrize(
    ("statefulset", "claims", "domain"),
    [
        (None, [], "corp.example"),
        (SET, [], "cluster.local"),
        (replace(SET, cluster_domain="old.example"), [], "old.example"),
        (replace(SET, cluster_domain="old.example"), [CLAIM], "old.example"),
        (None, [CLAIM], "cluster.local"),
        (None, [replace(CLAIM, cluster_domain="old.example")], "old.example"),
        (None, [replace(CLAIM, foreign_owner="uid-0")], "corp.example"),
    ],
)
def test_a_quorum_keeps_the_domain_that_it_was_made_with(
    statefulset: StatefulSet | None, claims: list[Claim], domain: str
) -> None:
    assert cluster_domain_of(statefulset, claims, "corp.example") == domain


def test_what_is_made_is_read_back() -> None:
    """The claim template of the StatefulSet, which cannot change, has the domain."""
    facts = replace(healthy(), name="demo", namespace="test", cluster_domain="corp.example")
    installed = Installation(cluster_domain="another.example")
    (body,) = (
        body
        for ref, body in compare(OWNER, spec(), facts, [], installed).bodies.items()
        if ref.kind == "StatefulSet"
    )
    read = read_statefulset(
        body | {"metadata": body["metadata"] | {"uid": "u", "resourceVersion": "1"}}
    )
    assert read is not None
    assert read.cluster_domain == "corp.example"
    claim = body["spec"]["volumeClaimTemplates"][0]
    claim["metadata"] |= {"name": "data-demo-0", "uid": "c"}
    (found,) = read_claims("demo", [claim])
    assert found.cluster_domain == "corp.example"
    text = str(body["spec"]["template"])
    assert "demo-0.demo-peers.test.svc.corp.example:9093" in text
    assert "cluster.local" not in text


def test_a_quorum_of_the_default_domain_has_no_label() -> None:
    """The claim template of a quorum from before the setting had none, and cannot change."""
    facts = replace(healthy(), name="demo", namespace="test")
    bodies = compare(OWNER, spec(), facts, [], Installation(cluster_domain="corp.example")).bodies
    (body,) = (body for ref, body in bodies.items() if ref.kind == "StatefulSet")
    claim = body["spec"]["volumeClaimTemplates"][0]
    assert names.LABEL_CLUSTER_DOMAIN not in claim["metadata"]["labels"]
    assert "demo-0.demo-peers.test.svc.cluster.local:9093" in str(body["spec"]["template"])


def test_the_certificates_have_the_names() -> None:
    facts = replace(healthy(), name="demo", namespace="test", cluster_domain="corp.example")
    hosts = wanted_leaf(facts, "c", "demo-1").hosts
    assert {"demo-1.demo-peers.test.svc.corp.example", "demo.test.svc.corp.example"} <= hosts
    assert not {host for host in hosts if host.endswith("cluster.local")}


@pytest.mark.parametrize("domain", ["", "Corp.example", "corp.example.", "a..b", "-a", "a" * 64])
def test_what_is_no_domain_is_refused(domain: str) -> None:
    with pytest.raises(SettingsError, match="KRAFTQUORUM_CLUSTER_DOMAIN"):
        load_settings(cluster_domain=domain)


def test_it_reaches_the_objects() -> None:
    assert Settings(cluster_domain="corp.example").installation.cluster_domain == "corp.example"
