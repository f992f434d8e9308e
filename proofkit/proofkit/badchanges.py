"""Wrong requests over HTTP to form a quorum or to change its voters, and their answers.

Rows follow from the models of `raftnode.api.model`: each field of each operation is left out, and
is put in negative, huge, of another type, and as another replica's or record's. A row's answer is
INVALID_REQUEST, which names the field, unless `OTHERWISE` says so: there the value is one that the
model allows, and a rule of the quorum decides. `docs/evidence/bad-changes.md` is made from it,
and `tests/node/test_bad_changes.py` sends each to a real leader.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from raftnode.api.model import (
    AddVoterRequest,
    ApiModel,
    CancelReassignmentRequest,
    FormRequest,
    JoinRequest,
    ReassignRequest,
    RemoveVoterRequest,
    ResignRequest,
    UpgradeRequest,
)

DONE = "done"
"""Carried out by rule: no row."""
LEFT_OUT = object()
ANOTHER_ID, ANOTHER_UUID = 77, "AAAAAAAAAAAAAAAAAAAATQ"
HUGE, LONG = 2**63, "x" * 10_000

OPERATIONS: dict[str, tuple[str, type[ApiModel]]] = {
    "AddVoter": ("/v1/quorum/voters", AddVoterRequest),
    "RemoveVoter": ("/v1/quorum/voters/remove", RemoveVoterRequest),
    "Reassign": ("/v1/quorum/reassignment", ReassignRequest),
    "CancelReassignment": ("/v1/quorum/reassignment/cancel", CancelReassignmentRequest),
    "Upgrade": ("/v1/quorum/raft-version", UpgradeRequest),
    "Resign": ("/v1/quorum/resign", ResignRequest),
    "Form": ("/v1/form", FormRequest),
    "Join": ("/v1/join", JoinRequest),
}
"""Path and body of each."""

_RECORDS = tuple(
    (f"expected.{field}", value) for field in ("offset", "epoch") for value in ("negative", "huge")
)

OTHERWISE: dict[tuple[str, str, str], str] = {
    **{
        (operation, *record): "STALE_VOTER_RECORD"
        for operation in ("AddVoter", "RemoveVoter", "Reassign", "CancelReassignment")
        for record in _RECORDS
    },
    **{
        (operation, "cluster_id", "another"): "INCONSISTENT_CLUSTER_ID"
        for operation in ("AddVoter", "RemoveVoter", "Reassign", "CancelReassignment")
    },
    ("AddVoter", "voter.node_id", "another"): "NOT_AN_OBSERVER",
    ("AddVoter", "voter.directory_id", "another"): "NOT_AN_OBSERVER",
    # It adds, and removes no voter: what it replaces is gone already, or never was.
    ("AddVoter", "replaces.node_id", "another"): DONE,
    ("AddVoter", "replaces.directory_id", "another"): DONE,
    ("RemoveVoter", "voter.node_id", "another"): "VOTER_ALREADY_REMOVED",
    ("RemoveVoter", "voter.directory_id", "another"): "VOTER_ALREADY_REMOVED",
    ("Reassign", "targets.0.node_id", "another"): "NOT_AN_OBSERVER",
    ("Reassign", "targets.0.directory_id", "another"): "NOT_AN_OBSERVER",
    ("Resign", "preferred.node_id", "another"): "WAITING",
    ("Resign", "preferred.directory_id", "another"): "WAITING",
    ("Form", "cluster_id", "another"): "ALREADY_FORMED",
    ("Form", "voters.0.node_id", "another"): "ALREADY_FORMED",
    ("Form", "voters.0.directory_id", "another"): "ALREADY_FORMED",
    ("Join", "cluster_id", "another"): "INCONSISTENT_CLUSTER_ID",
}
"""What a rule of the quorum says to a value that the model allows; CancelReassignment's rows are of
a target that is under way, for without one there is nothing to take back, and nothing to refuse."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WrongChange:
    """One row: the fault in an operation's body, and the expected answer."""

    operation: str
    field: str
    value: str
    answer: str
    put: object
    """What stands in the field instead; LEFT_OUT: nothing."""

    def __str__(self) -> str:
        return f"{self.operation}: {self.field} {self.value}"

    def spoil(self, good: Json) -> Json:
        """Return a good body with this one fault."""
        body: Any = copy.deepcopy(good)
        *way, last = self.field.split(".")
        node = body
        for name in way:
            node = node[int(name)] if name.isdecimal() else node[name]
        if self.put is LEFT_OUT:
            del node[last]
        else:
            node[last] = self.put
        return cast("Json", body)


def wrong_changes() -> Iterator[WrongChange]:
    """Return the whole table, operation by operation."""
    for operation, (_, model) in OPERATIONS.items():
        schema = model.model_json_schema()
        for field, value, put in _of_object(schema, schema, ""):
            answer = OTHERWISE.get((operation, field, value), "INVALID_REQUEST")
            if answer != DONE:
                yield WrongChange(operation, field, value, answer, put)


Spoilt = tuple[str, str, object]
"""A field, what is wrong with it in words, and the value."""


def _of_object(schema: Json, whole: Json, before: str) -> Iterator[Spoilt]:
    required = cast("list[str]", schema.get("required", []))
    for name, described in cast("dict[str, Json]", schema["properties"]).items():
        field = f"{before}{name}"
        if name in required:
            yield field, "missing", LEFT_OUT
        options = [_resolved(option, whole) for option in described.get("anyOf", [described])]
        if all(option.get("type") != "null" for option in options):
            yield field, "null", None
        for option in options:
            yield from _of_value(option, whole, field)
    yield f"{before}more", "a field that is not known", 1


def _of_value(described: Json, whole: Json, field: str) -> Iterator[Spoilt]:
    match described["type"]:
        case "integer":
            yield field, "negative", -1
            yield field, "huge", HUGE
            yield field, "a text", "x"
            if field.endswith("node_id"):
                yield field, "another", ANOTHER_ID
        case "string":
            yield field, "empty", ""
            yield field, "huge", LONG
            yield field, "a number", 1
            if field.endswith("directory_id"):
                yield field, "another", ANOTHER_UUID
            if field == "cluster_id":
                yield field, "another", "Another"
        case "array":
            yield field, "empty", []
            yield field, "a text", "x"
            item = _resolved(described["items"], whole)
            yield from _of_object(item, whole, f"{field}.0.")
        case "object":
            yield field, "a text", "x"
            yield from _of_object(described, whole, f"{field}.")
        case _:
            return


def _resolved(described: Json, whole: Json) -> Json:
    name = described.get("$ref")
    if name is None and "allOf" in described:
        name = described["allOf"][0]["$ref"]
    return described if name is None else whole["$defs"][str(name).rsplit("/", 1)[-1]]
