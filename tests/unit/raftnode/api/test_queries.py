"""Query parameters are checked before the core is asked."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from raftnode.api.model import ApiModel
from raftnode.api.queries import (
    KEY_MAX_BYTES,
    ListKeysQuery,
    QuorumQuery,
    ReadKeyQuery,
    ReadLogQuery,
    TimeoutQuery,
)


def test_without_parameters_a_read_is_linearizable_and_bounded():
    assert ReadKeyQuery().consistency == "linearizable"
    assert ReadKeyQuery().timeout_ms == 10_000
    assert ReadLogQuery() == ReadLogQuery(offset=0, max_bytes=1 << 20, max_wait_ms=0)
    assert QuorumQuery().confirmed is False
    assert ListKeysQuery() == ListKeysQuery(prefix="", after=None, limit=100)


@pytest.mark.parametrize(
    ("model", "name", "low", "high"),
    [
        (TimeoutQuery, "timeout_ms", 1, 600_000),
        (ReadLogQuery, "offset", 0, 2**63 - 1),
        (ReadLogQuery, "max_bytes", 1, 16 << 20),
        (ReadLogQuery, "max_wait_ms", 0, 60_000),
        (ListKeysQuery, "limit", 1, 1000),
    ],
)
def test_numbers_have_bounds(model: type[ApiModel], name: str, low: int, high: int):
    for value in (low, high):
        assert getattr(model.model_validate({name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValidationError, match=name):
            model.model_validate({name: value})


@pytest.mark.parametrize("given", [{"consistency": "eventual"}, {"unknown": 1}, {"prefix": "x"}])
def test_other_values_and_names_are_refused(given: dict[str, Any]):
    with pytest.raises(ValidationError):
        ReadKeyQuery.model_validate(given)


@pytest.mark.parametrize("name", ["prefix", "after"])
def test_what_no_key_can_begin_with_is_refused(name: str):
    ListKeysQuery.model_validate({name: "k" * KEY_MAX_BYTES})
    with pytest.raises(ValidationError, match=name):
        ListKeysQuery.model_validate({name: "k" * (KEY_MAX_BYTES + 1)})
