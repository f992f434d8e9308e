"""The addresses of a KafkaQuorum's controllers, from its spec and its pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.errors import KafkaError, KafkaUnreachableError
from kraftquorum_operator.kafka.facts import MappedController
from kraftquorum_operator.kafka.id_map import parse_bootstrap
from kraftquorum_operator.model.kafka_spec import ADDRESSES_MAX, KafkaController, KafkaQuorumSpec
from kraftquorum_operator.model.objects import Body
from raftnode.core.types import parse_directory_id


@dataclass(frozen=True, slots=True)
class ControllerAddresses:
    """The controllers to ask.

    Attributes:
        addresses: of the controllers.
        wanted: the id map; empty: the current voters.
        absent: why a controller of the id map has no address.
    """

    addresses: tuple[Address, ...]
    wanted: tuple[MappedController, ...]
    absent: Mapping[Address, KafkaError] = field(default_factory=dict[Address, KafkaError])

    @property
    def node_ids(self) -> dict[Address, int]:
        """Which id the id map gives to an address."""
        return {controller.address: controller.node_id for controller in self.wanted}


def selector_of(spec: KafkaQuorumSpec) -> str:
    """The label selector of the pods; empty: the spec selects none."""
    labels = spec.pods.match_labels if spec.pods is not None else {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def controller_addresses(spec: KafkaQuorumSpec, pods: Sequence[Body]) -> ControllerAddresses:
    """The controllers that a spec names.

    Args:
        spec: of the resource.
        pods: those that it selects.

    Raises:
        SettingsError: an address is malformed, or there are none, or too many.
    """
    text = ",".join(spec.addresses or ())
    given = parse_bootstrap(text, "spec.addresses") if text else ()
    of_pods = _pod_addresses(spec, pods)
    wanted: list[MappedController] = []
    absent: dict[Address, KafkaError] = {}
    for controller in spec.controllers or ():
        address = _address(controller, spec, of_pods)
        if controller.pod is not None and controller.pod not in of_pods:
            absent[address] = KafkaUnreachableError(
                f"{address}: there is no such pod with an address among those that pods selects"
            )
        directory_id = controller.directory_id
        exact = None if directory_id is None else parse_directory_id(directory_id)
        wanted.append(MappedController(controller.id, address, exact))
    mapped = [controller.address for controller in wanted]
    for address in mapped:
        if mapped.count(address) > 1:
            raise SettingsError(f"spec.controllers has address {address} twice")
    asked = dict.fromkeys((*given, *of_pods.values(), *mapped))
    addresses = tuple(address for address in asked if address not in absent)
    if not addresses and not absent:
        raise SettingsError("spec.pods selects no pod with an address")
    if len(addresses) > ADDRESSES_MAX:
        raise SettingsError(f"{len(addresses)} controllers are given: at most {ADDRESSES_MAX}")
    return ControllerAddresses(addresses, tuple(wanted), absent)


def _pod_addresses(spec: KafkaQuorumSpec, pods: Sequence[Body]) -> dict[str, Address]:
    """By the pod's name; a pod that is ending counts, because its controller still answers."""
    if spec.pods is None:
        return {}
    addresses: dict[str, Address] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        status = cast("Body", pod.get("status") or {})
        if status.get("podIP") and status.get("phase") not in ("Succeeded", "Failed"):
            addresses[str(pod["metadata"]["name"])] = Address(str(status["podIP"]), spec.pods.port)
    return addresses


def _address(
    controller: KafkaController, spec: KafkaQuorumSpec, of_pods: Mapping[str, Address]
) -> Address:
    if controller.address is not None:
        return parse_bootstrap(controller.address, "spec.controllers")[0]
    name, port = str(controller.pod), spec.pods.port if spec.pods is not None else 0
    # Without the pod the name stands in messages alone: it is never connected to.
    return of_pods.get(name, Address(f"pod {name}", port))
