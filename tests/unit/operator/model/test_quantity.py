"""Quantities: what they amount to, and that their notation changes nothing."""

from __future__ import annotations

import pytest

from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.quantity import canonical, size_bytes
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.metadata import stamped
from kraftquorum_operator.resources.node_config import node_config
from kraftquorum_operator.resources.statefulset import statefulset

OWNER = Owner("space", "demo", "uid-1")

SAME = [
    ("1Gi", ["1024Mi", "1048576Ki", "1073741824", 1 << 30]),
    ("1536Mi", ["1.5Gi"]),
    ("500m", ["0.5", "0.500"]),
    ("1", ["1000m", 1, "1.0", "001"]),
    ("2G", ["2000M", 2_000_000_000, "2000000000"]),
    ("16", [16, "16000m"]),
    ("1500", ["1.5k", 1500, "15e2"]),
    ("1024", [1024, "1Ki"]),
    ("0", ["0", 0, "0Gi"]),
    ("9999999999999999999Ei", ["9999999999999999999Ei"]),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1Gi", 1 << 30),
        ("1.5Gi", 3 << 29),
        ("2G", 2 * 10**9),
        ("100", 100),
        ("5000m", 5),
        ("1e9", 10**9),
        ("1.5E3", 1500),
        ("2E", 2 * 10**18),
        ("1Ei", 1 << 60),
        ("5000000u", 5),
        ("5000000000n", 5),
        ("12e-1", 1),
    ],
)
def test_sizes_are_read_as_kubernetes_writes_them(text: str, found: int) -> None:
    assert size_bytes(text) == found


@pytest.mark.parametrize("text", ["", "Gi", "1KiB", "-1Gi", "1e", "1e3Gi", "1mi", "1..5Gi"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "given"), [(text, given) for text, all_given in SAME for given in (text, *all_given)]
)
def test_all_notations_of_an_amount_have_one_text(text: str, given: str | int) -> None:
    assert canonical(given) == text


@pytest.mark.parametrize("given", ["big", "", "-1", -1, True, 0.5, None, "1e", "0.0001"])
def test_what_has_no_notation_of_its_own_stays_as_it_is(given: object) -> None:
    assert canonical(given) is given


@pytest.mark.without(
    "kraftquorum_operator.model.quantity:canonical",
    "if isinstance(quantity, bool) or not isinstance(quantity, int | str):",
    "if True:",
)
def test_another_notation_changes_no_object() -> None:
    """Neither the digest of the StatefulSet, by which the operator writes it, nor the template."""

    def made(size: str | int, cpu: str | int, memory: str | int) -> object:
        resources = {"limits": {"cpu": cpu, "memory": memory}}
        spec = QuorumSpec.model_validate({"storage": {"size": size}, "resources": resources})
        return stamped(statefulset(OWNER, spec, node_config(spec, None)))

    first = made("1Gi", "1", "512Mi")
    assert made("1024Mi", "1000m", "0.5Gi") == first
    assert made(1 << 30, 1, 512 << 20) == first
    assert made("1Gi", "1001m", "512Mi") != first
