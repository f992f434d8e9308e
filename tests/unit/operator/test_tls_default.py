"""Which quorums speak TLS without being asked to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.crd import schema_of
from kraftquorum_operator.model.defaults import defaults_of
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import QuorumTls
from proofkit.operatorworld.observations import claim


@pytest.mark.parametrize(
    ("given", "defaults", "mode"),
    [
        ({}, names.DEFAULTS, "Managed"),
        ({}, "2", "Disabled"),
        ({}, "1", "Disabled"),
        ({}, None, "Disabled"),
        ({"mode": "Disabled"}, names.DEFAULTS, "Disabled"),
        ({"mode": "Managed"}, None, "Managed"),
        ({"mode": "Secret", "secretName": "mine"}, names.DEFAULTS, "Secret"),
    ],
)
def test_the_resource_or_else_the_age_of_the_quorum_decides_on_tls(
    given: dict[str, str], defaults: str | None, mode: str
) -> None:
    chosen = QuorumTls.model_validate(given).chosen(defaults)
    assert chosen.mode == mode
    assert chosen == QuorumTls.model_validate(given | {"mode": mode})


def test_the_crd_has_no_default_for_it_which_would_show_in_older_resources_too() -> None:
    tls = schema_of(QuorumSpec)["properties"]["tls"]
    assert "default" not in tls["properties"]["mode"]
    assert "mode" not in tls["default"]


def test_a_claim_of_another_resource_says_nothing_about_the_defaults() -> None:
    foreign = replace(claim(0), defaults="1", foreign_owner="another")
    assert defaults_of(None, [foreign]) == names.DEFAULTS
    assert defaults_of(None, [foreign, replace(claim(1), defaults="2")]) == "2"


@pytest.mark.without(
    "kraftquorum_operator.model.tls:QuorumTls.chosen",
    "defaults in names.DEFAULTS_WITH_TLS",
    "True",
)
def test_an_upgrade_of_the_operator_locks_out_no_plain_client_of_an_older_quorum() -> None:
    assert QuorumTls().chosen("2").level == "disabled"
    assert QuorumTls().chosen(names.DEFAULTS).level == "required"
