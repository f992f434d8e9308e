"""`spec` of a KafkaQuorum: where the controllers of an Apache Kafka are, and which there should be.

The docstring under each field becomes its description in the CRD and in
`docs/reference/kafka-crd.md`. The API server checks the CEL rules at apply.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from kraftquorum_operator.model.spec import OBJECT_NAME
from kraftquorum_operator.model.spec_base import SpecModel, rules

ADDRESSES_MAX = 64
NODE_ID_MAX = 2**31 - 1

_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_ADDRESS = r"^(\[[0-9A-Fa-f:.%A-Za-z]+\]|[^\[\]:,@\s]+):[0-9]{1,5}$"

_BY_ID: dict[str, JsonValue] = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["id"],
}
"""The API server refuses a list with an id twice."""

AddressText = Annotated[str, Field(pattern=_ADDRESS, max_length=320)]
"""`host:port`, an IPv6 address in brackets."""


class KafkaPods(SpecModel):
    """Pods of controllers in the resource's namespace."""

    match_labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)]],
        Field(min_length=1, max_length=16),
    ]
    """Labels that the pods have, all of them."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 9093
    """Port of the controllers' listener. The operator connects to the addresses of the pods."""


class KafkaController(SpecModel):
    """An entry of the id map: which node id is where, and optionally on which directory."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "has(self.address) != has(self.pod)",
                "message": "a controller has either an address or a pod",
            }
        )
    )

    id: Annotated[int, Field(ge=0, le=NODE_ID_MAX)]
    """The node id."""
    address: AddressText | None = None
    """`host:port` of its listener."""
    pod: Annotated[str | None, Field(max_length=253, pattern=OBJECT_NAME)] = None
    """Name of its pod, which `pods` selects."""
    directory_id: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_-]{22}$")] = None
    """Its directory id, 22 characters as Kafka prints it; unset: any directory."""


class KafkaQuorumSpec(SpecModel):
    """Where the controllers are, and which there should be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "has(self.addresses) || has(self.pods) || has(self.controllers)",
                "message": "set addresses, pods or controllers: the operator connects to them",
            },
            {
                "rule": "!has(self.controllers) || has(self.pods) || "
                "self.controllers.all(controller, !has(controller.pod))",
                "message": "a controller with a pod needs pods, which has the port",
            },
        )
    )

    addresses: (
        Annotated[list[AddressText], Field(max_length=ADDRESSES_MAX, min_length=1)] | None
    ) = None
    """Addresses of all controllers, `host:port`."""
    pods: KafkaPods | None = None
    """Selects the pods of all controllers."""
    controllers: (
        Annotated[
            list[KafkaController],
            Field(max_length=ADDRESSES_MAX, min_length=1, json_schema_extra=_BY_ID),
        ]
        | None
    ) = None
    """The id map: the controllers that there should be. Unset: the current voters. With it, the
    operator gives no advice while a voter, an id or a directory is another one."""
    cluster_id: Annotated[str | None, Field(min_length=1, max_length=64)] = None
    """Cluster id that the controllers must have; unset: any, but all the same."""
    credentials_secret: Annotated[str | None, Field(max_length=253, pattern=OBJECT_NAME)] = None
    """Secret of the same namespace with Kafka's client properties under `client.properties`. Their
    `ssl.*.location` name keys of the Secret. Unset: plain connections."""
    grace_seconds: Annotated[int, Field(ge=0, le=86_400)] = 300
    """Silence after which the advice is to replace a voter."""
