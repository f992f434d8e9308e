"""What has expired is reported by what it does, and an expired CA masks no other."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kraftquorum_operator.judge.certificates import why_failing
from kraftquorum_operator.judge.expiry import (
    ca_expiries,
    expiries,
    expiry_faults,
    next_ca_expiry,
)
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.certificates import Authority, Certificates, KeyStore, Leaf
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.plan.actions import Done
from proofkit.operatorworld.observations import healthy, spec

MANAGED = spec(tls={"mode": "Managed"})
PROVIDED = spec(tls={"mode": "Secret", "secretName": "mine"})
NOW_S, YEAR_S = 10**9, 365 * 86_400
OLD = Authority("a" * 64, NOW_S - YEAR_S, NOW_S - 60)
NEW = Authority("b" * 64, NOW_S - 60, NOW_S + YEAR_S)
NEXT = Authority("c" * 64, NOW_S - 60, NOW_S + 2 * YEAR_S)
EXPIRY = "kraftquorum_operator.judge.expiry"


def signed_by(*cas: Authority, ends_s: int = NOW_S + YEAR_S) -> tuple[tuple[str, Leaf], ...]:
    leaves = (Leaf(f"{at}" * 64, ca.fingerprint, NOW_S - 60, ends_s) for at, ca in enumerate(cas))
    return tuple((f"demo-{at}", leaf) for at, leaf in enumerate(leaves))


def with_cas(
    *cas: Authority, leaves: tuple[tuple[str, Leaf], ...] = (), provided: tuple[Authority, ...] = ()
) -> Observation:
    facts = Certificates(
        NOW_S,
        nodes=KeyStore("1", "1", cas, leaves),
        source=KeyStore("2", "2", provided, signed_by(*[NEW] * 3)) if provided else None,
    )
    return replace(healthy(), certificates=facts)


@pytest.mark.without(f"{EXPIRY}:_late_authorities", 'elif reason == "Expired":', "elif signed:")
def test_an_expired_ca_that_signed_nothing_in_use_is_no_outage() -> None:
    observation = with_cas(OLD, NEW, leaves=signed_by(NEW, NEW, NEW))
    reason, text = why_failing(MANAGED, observation) or ("", "")
    assert reason == "UnusedCAExpired"
    assert text == (
        "the CA aaaaaaaaaaaaaaaa expired at 2001-09-09T01:45:40Z and signed none of the present certificates: "
        "the operator removes it once every pod reports the certificate that it has now"
    )


@pytest.mark.without(f"{EXPIRY}:_remedy", "ca.fingerprint in provided", "False")
@pytest.mark.without(f"{EXPIRY}:_remedy", "and ca.fingerprint in provided", "")
def test_the_remedy_is_where_the_expired_ca_stands() -> None:
    def remedy(*provided: Authority) -> str:
        observation = with_cas(OLD, NEW, leaves=signed_by(NEW), provided=provided)
        [(_, text)] = expiry_faults(PROVIDED, observation)
        return text.partition("certificates: ")[2]

    assert remedy(OLD, NEW) == "remove it from ca.crt of Secret mine"
    assert remedy(NEW).startswith("the operator removes it once every pod reports")


@pytest.mark.without(f"{EXPIRY}:_late_authorities", "if leaf.issuer == ca.fingerprint", "if False")
def test_an_expired_ca_that_signed_what_is_in_use_is_an_outage() -> None:
    observation = with_cas(OLD, NEW, leaves=signed_by(NEW, OLD, OLD))
    reason, text = why_failing(MANAGED, observation) or ("", "")
    assert reason == "Expired"
    assert text.endswith("and with it the certificates that it signed: demo-1, demo-2")


@pytest.mark.without(f"{EXPIRY}:expiry_faults", "REASONS.index(fault[0])", "0")
@pytest.mark.without(f"{EXPIRY}:_ending", "if end_s <= now_s:", "if False:")
def test_the_most_urgent_stands_first() -> None:
    ending = replace(NEW, not_before_s=NOW_S - YEAR_S, not_after_s=NOW_S + 60)
    observation = with_cas(OLD, ending, leaves=signed_by(ending))
    reason, text = why_failing(MANAGED, observation) or ("", "")
    assert reason == "Expiring"
    assert [*re.findall("expire[sd]", text)] == ["expires", "expired"]
    over = with_cas(OLD, ending, leaves=signed_by(ending, ends_s=NOW_S))
    assert (why_failing(MANAGED, over) or ("", ""))[0] == "Expired"


@pytest.mark.without(f"{EXPIRY}:next_ca_expiry", "if end > facts.now_s", "")
def test_the_next_ca_to_expire_is_not_masked_by_one_that_has() -> None:
    assert next_ca_expiry(with_cas(OLD, NEXT, NEW)) == NEW.not_after_s
    assert next_ca_expiry(with_cas(OLD)) == OLD.not_after_s
    assert next_ca_expiry(with_cas()) is None
    assert next_ca_expiry(healthy()) is None
    assert (expiries(healthy()), ca_expiries(healthy())) == ({}, {})


@pytest.mark.without(
    "kraftquorum_operator.metrics:Metrics._observe_certificates", "shown - trusted.keys()", "()"
)
def test_the_metric_has_each_ca_as_long_as_it_is_trusted() -> None:
    metrics = Metrics()

    def shown(observation: Observation) -> dict[str, float]:
        metrics.observe(observation, MANAGED, Done("x"), NOW_S)
        return {
            sample.labels["ca"]: sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "kraftquorum_ca_expiry_timestamp_seconds"
        }

    assert shown(with_cas(OLD, NEW)) == {"a" * 16: OLD.not_after_s, "b" * 16: NEW.not_after_s}
    assert shown(with_cas(NEW)) == {"b" * 16: NEW.not_after_s}
    metrics.forget("test", "demo")
    assert shown(with_cas(NEW, NEXT)) == {"b" * 16: NEW.not_after_s, "c" * 16: NEXT.not_after_s}
