"""The CustomResourceDefinitions, generated from the models of `spec` and `status`.

`python -m kraftquorum_operator.model.crd crds/` writes them; a test keeps the
files current. The schema is structural: no `$ref`, no `anyOf` with null, every
default written out, so that the API server checks all of it at apply. Unknown
fields are refused by the API server under strict field validation, which is
kubectl's default; a structural schema has no way to demand that of callers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml
from pydantic import BaseModel

from kraftquorum_operator import names
from kraftquorum_operator.model.kafka_spec import KafkaQuorumSpec
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import PAGE_ONLY, QuorumStatus

Json = dict[str, object]

NAME_RULES: list[Json] = [
    {
        "rule": "size(self.metadata.name) <= 40",
        "message": "metadata.name must have at most 40 characters: names of pods, claims and "
        "services contain it",
    },
    {
        "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "metadata.name must be a DNS label that begins with a letter: a Service has "
        "the same name",
    },
]

# Without `-o wide`, a line with a namespace has room in 100 characters.
COLUMNS: list[Json] = [
    {"name": "Voters", "type": "integer", "jsonPath": ".spec.voters", "description": "Wanted"},
    {"name": "Actual", "type": "integer", "jsonPath": ".status.replicas", "description": "Voters"},
    {"name": "Leader", "type": "string", "jsonPath": ".status.leader.pod"},
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {"name": "Doing", "type": "string", "jsonPath": ".status.doing"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Epoch", "type": "integer", "jsonPath": ".status.epoch", "priority": 1},
    {
        "name": "Tolerance",
        "type": "integer",
        "jsonPath": ".status.faultTolerance",
        "priority": 1,
        "description": "How many more voters may fail",
    },
    {"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1},
]

KAFKA_NAME_RULES: list[Json] = [
    {
        "rule": "size(self.metadata.name) <= 63",
        "message": "metadata.name must have at most 63 characters",
    },
]

KAFKA_COLUMNS: list[Json] = [
    {"name": "Voters", "type": "integer", "jsonPath": ".status.voters"},
    {
        "name": "Spare",
        "type": "integer",
        "jsonPath": ".status.spareVoters",
        "description": "How many more voters may be lost",
    },
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {
        "name": "Reason",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].reason',
    },
    {
        "name": "Safe",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Safe")].status',
    },
    {"name": "Advice", "type": "string", "jsonPath": ".status.advice.kind"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Leader", "type": "integer", "jsonPath": ".status.leaderId", "priority": 1},
    {"name": "Epoch", "type": "integer", "jsonPath": ".status.epoch", "priority": 1},
    {"name": "Message", "type": "string", "jsonPath": ".status.advice.message", "priority": 1},
]


def _structural(node: object, definitions: Json) -> object:
    """Turn a piece of pydantic's JSON schema into what a structural schema allows."""
    if isinstance(node, list):
        return [_structural(item, definitions) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    source = dict(cast("Json", node))
    reference = source.pop("$ref", None)
    if isinstance(reference, str):
        target = dict(cast("Json", definitions[reference.rpartition("/")[2]]))
        source = target | source
    alternatives = source.pop("anyOf", None)
    if isinstance(alternatives, list):
        present = [a for a in cast("list[Json]", alternatives) if a.get("type") != "null"]
        if len(present) != 1:
            msg = f"a structural schema has no alternatives: {alternatives}"
            raise ValueError(msg)
        description = source.get("description")
        source = cast("Json", _structural(present[0], definitions)) | source
        if description:
            source["description"] = description
    source.pop("title", None)
    if isinstance(source.get("additionalProperties"), bool):
        del source["additionalProperties"]  # a structural schema has no way to say it
    if source.get("default", 0) is None:
        del source["default"]
    if isinstance(source.get("description"), str):
        source["description"] = " ".join(cast("str", source["description"]).split())
    result: Json = {}
    for key, value in source.items():
        if key == "properties":
            properties = cast("Json", value)
            result[key] = {
                name: _structural(sub, definitions)
                for name, sub in properties.items()
                if PAGE_ONLY not in cast("Json", sub)
            }
        elif key == "items":
            result[key] = _structural(value, definitions)
        elif key == "default":
            # Written out in full: the API server checks a default against the rules, too.
            result[key] = _without_none(value)
        else:
            result[key] = value
    if result.get("type") == "integer":
        result["format"] = "int64"
    return result


def _without_none(value: object) -> object:
    if not isinstance(value, dict):
        return value
    items = cast("Json", value).items()
    return {key: _without_none(item) for key, item in items if item is not None}


def schema_of(model: type[BaseModel]) -> Json:
    """The structural schema of one pydantic model."""
    raw = cast("Json", model.model_json_schema(by_alias=True))
    definitions = cast("Json", raw.pop("$defs", {}))
    return cast("Json", _structural(raw, definitions))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource.

    Attributes:
        name: of the kind.
        plural: in URLs, and in the name of the definition.
        singular: for kubectl.
        short_name: for kubectl.
        description: of the whole.
        spec: its model.
        status: its model.
        columns: of `kubectl get`.
        name_rules: of `metadata.name`.
        subresources: besides `status`.
        categories: by which kubectl lists it.
    """

    name: str
    plural: str
    singular: str
    short_name: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: list[Json]
    name_rules: Sequence[Json]
    subresources: Json = field(default_factory=Json)
    categories: tuple[str, ...] = ()


QUORUM = Kind(
    name=names.KIND,
    plural=names.PLURAL,
    singular=names.SINGULAR,
    short_name=names.SHORT_NAME,
    description="A Raft quorum that the operator runs and repairs.",
    spec=QuorumSpec,
    status=QuorumStatus,
    columns=COLUMNS,
    name_rules=NAME_RULES,
    subresources={
        "scale": {
            "specReplicasPath": ".spec.voters",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        },
    },
    categories=("all",),
)

KAFKA_QUORUM = Kind(
    name=names.KAFKA_KIND,
    plural=names.KAFKA_PLURAL,
    singular=names.KAFKA_SINGULAR,
    short_name=names.KAFKA_SHORT_NAME,
    description="Controllers of an Apache Kafka, about which the operator gives advice.",
    spec=KafkaQuorumSpec,
    status=KafkaQuorumStatus,
    columns=KAFKA_COLUMNS,
    name_rules=KAFKA_NAME_RULES,
)

KINDS = {kind.name: kind for kind in (QUORUM, KAFKA_QUORUM)}


def crd(kind: Kind = QUORUM) -> Json:
    """The whole CustomResourceDefinition."""
    spec = schema_of(kind.spec)
    status = schema_of(kind.status)
    properties = cast("Json", status["properties"])
    conditions = cast("Json", properties["conditions"])
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    if "config" in properties:
        # Replaced whole: server-side apply makes null of a map whose last key it takes away.
        cast("Json", properties["config"])["x-kubernetes-map-type"] = "atomic"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{names.GROUP}",
            "labels": {names.LABEL_APP: names.APP},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": [kind.short_name],
                **({"categories": list(kind.categories)} if kind.categories else {}),
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, **kind.subresources},
                    "additionalPrinterColumns": kind.columns,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": kind.description,
                            "required": ["spec"],
                            "x-kubernetes-validations": kind.name_rules,
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": status,
                            },
                        }
                    },
                }
            ],
        },
    }


def render(kind: Kind = QUORUM) -> str:
    """The CRD as the YAML text of `crds/`."""
    text = yaml.safe_dump(crd(kind), sort_keys=False, width=100, allow_unicode=True)
    return f"# Generated by `make crds` from kraftquorum_operator/model/. Do not edit.\n{text}"


def main(arguments: list[str]) -> int:
    """Write a file for each kind that is named, by default all, or print a CRD as JSON.

    The first argument is the directory; without it the CRD of KRaftQuorums is printed.
    """
    if not arguments:
        sys.stdout.write(json.dumps(crd(), indent=2) + "\n")
        return 0
    directory, *wanted = arguments
    for name in wanted or KINDS:
        path = Path(directory) / f"{KINDS[name].plural}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(KINDS[name]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
