"""The state beside an access file: read back as it was written, and empty if it is something else."""

from __future__ import annotations

import json

import pytest

from kraftquorum_operator.model.access_state import OPERATOR, AccessState, OwnName, Tokens

STATE = AccessState(
    {OPERATOR: Tokens("a", {}), "shop": Tokens("b", {"c": 12})}, OwnName("spiffe://own", 7)
)


def test_a_state_is_read_as_it_was_written() -> None:
    assert AccessState.parse(json.dumps(STATE.document())) == STATE
    plain = AccessState(STATE.tokens)
    assert AccessState.parse(json.dumps(plain.document())) == plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"shop": 1}',
        '{"shop": {"current": 1}}',
        '{"kraftquorum:operator": {"current": "a", "before": {}, "uri": "u"}}',
        '{"kraftquorum:operator": {"current": "a", "before": {}, "uri": "u", "since_s": "soon"}}',
        '{"kraftquorum:operator": {"current": "a", "before": {}, "uri": "u", "since_s": 1e999}}',
        '{"shop": {"current": "a", "before": {"b": 1e999}}}',
        "[" * 100_000,
    ],
)
def test_a_state_that_a_person_has_changed_is_empty(text: str) -> None:
    assert AccessState.parse(text) == AccessState()


def test_a_name_is_in_force_once_the_kubelets_have_brought_the_file() -> None:
    assert STATE.name_in_force(186) is None
    assert STATE.name_in_force(187) == "spiffe://own"
    assert AccessState().name_in_force(10**9) is None
