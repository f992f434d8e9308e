"""Which quorums speak TLS without being asked to."""

from __future__ import annotations

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.tls import QuorumTls


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


@pytest.mark.without(
    "kraftquorum_operator.model.tls:QuorumTls.chosen",
    "defaults in names.DEFAULTS_WITH_TLS",
    "True",
)
def test_an_upgrade_of_the_operator_locks_out_no_plain_client_of_an_older_quorum() -> None:
    assert QuorumTls().chosen("2").level == "disabled"
    assert QuorumTls().chosen(names.DEFAULTS).level == "required"
