"""Which manager wrote which field last, as the API server records it in `managedFields`. Pure."""

from __future__ import annotations

from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body


def owned(live: Body, *path: str) -> list[tuple[str, Body]]:
    """The managers of the fields below a path, each with its fields in the form of `fieldsV1`.

    Args:
        live: the live object; without `managedFields` no field has a manager.
        path: names of the fields down to the part, such as `spec`, `template`.
    """
    entries = cast("list[Body]", live["metadata"].get("managedFields") or [])
    parts = [(str(entry.get("manager")), _below(entry, path)) for entry in entries]
    return [(manager, fields) for manager, fields in parts if fields]


def _below(entry: Body, path: tuple[str, ...]) -> Body:
    fields = cast("Body", entry.get("fieldsV1") or {})
    for name in path:
        fields = cast("Body", fields.get(f"f:{name}") or {})
    return fields


def earlier_keys(wanted: Body, live: Body, part: str) -> set[str]:
    """Labels or annotations that an earlier version of the operator wrote and this one does not.

    Only keys that no other manager owns too. The operator's own annotations stay: they are notes,
    such as the records of claims (S3), and those of a newer version must survive a rollback.

    Args:
        wanted: the body that the operator writes.
        live: the live object.
        part: `labels` or `annotations`.
    """
    ours, others = set[str](), set[str]()
    for manager, fields in owned(live, "metadata", part):
        keys = ours if manager == names.MANAGER else others
        keys |= {key.removeprefix("f:") for key in fields if key != "."}
    unwanted = ours - others - set(wanted["metadata"][part])
    notes = f"{names.GROUP}/"
    return {key for key in unwanted if part == "labels" or not key.startswith(notes)}
