"""The finalizer: which change of a resource sets or removes it."""

from __future__ import annotations

from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.observe.deletion import deletes_claims
from kraftquorum_operator.resources.finalizer import finalizer_change


def resource(*finalizers: str) -> Any:
    meta: dict[str, Any] = {"name": "demo", "resourceVersion": "7"}
    return {"metadata": meta | ({"finalizers": list(finalizers)} if finalizers else {})}


@pytest.mark.parametrize(
    ("finalizers", "held", "wanted"),
    [
        ((), True, [names.FINALIZER]),
        (("a",), True, ["a", names.FINALIZER]),
        ((names.FINALIZER, "a"), False, ["a"]),
        ((names.FINALIZER,), False, []),
        ((), False, None),
        (("a",), False, None),
        ((names.FINALIZER,), True, None),
    ],
)
def test_the_finalizers_of_others_stay(
    finalizers: tuple[str, ...], held: bool, wanted: list[str] | None
) -> None:
    change = finalizer_change(resource(*finalizers), held=held)
    meta = None if wanted is None else {"finalizers": wanted, "resourceVersion": "7"}
    assert change == (None if meta is None else {"metadata": meta})


@pytest.mark.parametrize(
    ("deletion", "held"),
    [({"claims": "Delete"}, True), ({"claims": "Retain"}, False), ({}, False), ({"x": 1}, False)],
)
def test_it_is_held_only_where_claims_are_to_be_deleted(
    deletion: dict[str, Any], held: bool
) -> None:
    assert deletes_claims({"metadata": {}, "spec": {"deletion": deletion}}) is held
