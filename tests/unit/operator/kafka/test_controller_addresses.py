"""Which addresses a KafkaQuorum names, and which controllers there should be."""

from __future__ import annotations

from typing import Any

import pytest

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.controller_addresses import controller_addresses, selector_of
from kraftquorum_operator.model.kafka_spec import KafkaQuorumSpec

DIRECTORY = "jzIrVDQ0QXu0bBSbPcyDpA"
PODS = {"matchLabels": {"app": "kafka", "a": "b"}, "port": 9094}


def spec(**fields: Any) -> KafkaQuorumSpec:
    return KafkaQuorumSpec.model_validate(fields)


def pod(name: str, ip: str | None, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"podIP": ip, "phase": phase}}


def test_addresses_alone() -> None:
    controllers = controller_addresses(spec(addresses=["a:1", "[::1]:2"]), [])
    assert controllers.addresses == (Address("a", 1), Address("::1", 2))
    assert controllers.wanted == ()
    assert selector_of(spec(addresses=["a:1"])) == ""


def test_pods_are_asked_at_their_addresses() -> None:
    given = spec(pods=PODS)
    pods = [pod("k-1", "10.0.0.2"), pod("k-0", "10.0.0.1"), pod("k-2", None)]
    done = pod("old", "10.0.0.9", "Failed")
    controllers = controller_addresses(given, [*pods, done])
    assert controllers.addresses == (Address("10.0.0.1", 9094), Address("10.0.0.2", 9094))
    assert selector_of(given) == "a=b,app=kafka"


def test_an_id_map_by_pods_and_addresses() -> None:
    id_map = [
        {"id": 0, "pod": "k-0", "directoryId": DIRECTORY},
        {"id": 1, "pod": "k-1"},
        {"id": 2, "address": "c:9093"},
    ]
    controllers = controller_addresses(
        spec(pods=PODS, controllers=id_map), [pod("k-0", "10.0.0.1")]
    )
    first, second, third = controllers.wanted
    assert first.address == Address("10.0.0.1", 9094)
    assert first.directory_id is not None
    assert third.address == Address("c", 9093)
    assert controllers.addresses == (first.address, third.address)
    assert controllers.node_ids[first.address] == 0
    assert second.node_id == 1
    assert "pod k-1:9094: there is no such pod" in str(controllers.absent[second.address])


def test_a_pod_without_address_is_never_connected_to() -> None:
    given = spec(pods=PODS, controllers=[{"id": 0, "pod": "k-0"}])
    controllers = controller_addresses(given, [])
    assert controllers.addresses == ()
    assert len(controllers.absent) == 1


@pytest.mark.parametrize(
    ("fields", "pods", "message"),
    [
        ({"addresses": ["a:0"]}, [], "port 0 is not 1 to 65535"),
        ({"addresses": ["a:1", "a:1"]}, [], "spec.addresses has address a:1 twice"),
        ({"pods": PODS}, [], "spec.pods selects no pod with an address"),
        (
            {"pods": PODS},
            [pod(f"k-{number}", f"10.0.0.{number}") for number in range(65)],
            "65 controllers are given: at most 64",
        ),
        (
            {"controllers": [{"id": 0, "address": "a:1"}, {"id": 1, "address": "a:1"}]},
            [],
            "spec.controllers has address a:1 twice",
        ),
    ],
)
def test_what_cannot_be_asked_is_named(
    fields: dict[str, Any], pods: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        controller_addresses(spec(**fields), pods)
