"""Whether another client changed the pod template of a StatefulSet.

The API server fills in defaults and an admission webhook may rewrite an image, so that the live
template always differs from the one written. But the API server records which manager wrote which
field last. So a template was changed if a field that another manager owns differs from the wanted
one, or if a wanted field is missing. Pure.
"""

from __future__ import annotations

import json
from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.quantity import amount
from kraftquorum_operator.resources.ownership import owned

RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""Annotation of `kubectl rollout restart`: the operator restarts the pods, and keeps it."""

DEFAULTS: dict[str, object] = {
    "apiVersion": "v1",
    "dnsPolicy": "ClusterFirst",
    "protocol": "TCP",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "scheme": "HTTP",
    "successThreshold": 1,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
"""Values that the API server fills in; another manager that writes them changes nothing."""

KEYS = ("name", "mountPath", "containerPort")
"""Fields that identify the items of a list."""


def template_changed(wanted: Body, live: Body) -> bool:
    """Whether a live StatefulSet's template is not as the operator wrote it.

    Args:
        wanted: the body that the operator writes.
        live: the live object, with `managedFields`; without them all values are compared.
    """
    want = cast("Body", wanted["spec"]["template"])
    have = cast("Body", cast("Body", live.get("spec") or {}).get("template") or {})
    written = owned(live, "spec", "template")
    ours = any(manager == names.MANAGER for manager, _ in written)
    if not _covers(want, have, values=not ours):
        return True
    return any(
        _differs(fields, want, have) for manager, fields in written if manager != names.MANAGER
    )


def template_change(want: Body, have: Body) -> Body:
    """A merge patch from a live template to the wanted one; it removes additions."""
    change: Body = {}
    for key, value in have.items():
        if key not in want and key != RESTARTED:
            kept = isinstance(value, dict) and RESTARTED in cast("Body", value)
            change[key] = template_change({}, cast("Body", value)) if kept else None
    for key, value in want.items():
        known = have.get(key)
        both = isinstance(value, dict) and isinstance(known, dict)
        change[key] = template_change(cast("Body", value), cast("Body", known)) if both else value
    return change


def _covers(want: object, have: object, *, values: bool, key: str = "") -> bool:
    """Whether all wanted fields are there, with their values if no manager is recorded for them."""
    if isinstance(want, dict):
        parts = cast("Body", want)
        there = cast("Body", have) if isinstance(have, dict) else {}
        return all(
            _is_empty(part)  # need not be shown
            or (name in there and _covers(part, there[name], values=values, key=name))
            for name, part in parts.items()
        )
    if isinstance(want, list):
        items = cast("list[object]", want)
        there = cast("list[object]", have) if isinstance(have, list) else []
        if not all(isinstance(item, dict) for item in items):
            return not values or items == there
        return all(
            (counterpart := _item(there, _identity(cast("Body", item)))) is not None
            and _covers(item, counterpart, values=values)
            for item in items
        )
    return not values or _same(key, want, have)


def _is_empty(part: object) -> bool:
    return part is None or part in ("", {}, [])


def _identity(item: Body) -> Body:
    key = next((name for name in KEYS if name in item), None)
    return {} if key is None else {key: item[key]}


def _item(items: object, identity: Body) -> Body | None:
    """The item of a list that has these fields; a default need not be shown."""
    if not isinstance(items, list):
        return None
    bodies = (cast("Body", item) for item in cast("list[object]", items) if isinstance(item, dict))
    return next(
        (
            body
            for body in bodies
            if all(body.get(key, DEFAULTS.get(key)) == value for key, value in identity.items())
        ),
        None,
    )


def _differs(fields: Body, want: Any, have: Any) -> bool:
    """Whether a field that another manager owns is not as it is wanted."""
    return any(_field_differs(key, inner, want, have) for key, inner in fields.items())


def _field_differs(key: str, inner: Body, want: Any, have: Any) -> bool:
    kind, _, rest = key.partition(":")
    if kind == "k":
        identity = cast("Body", json.loads(rest))
        there = _item(have, identity)
        wanted = _item(want, identity)
        return there is not None and (wanted is None or _differs(inner, wanted, there))
    if kind != "f" or not isinstance(have, dict) or rest not in have or rest == RESTARTED:
        return False
    there = cast("Body", have)[rest]
    wanted = cast("Body", want).get(rest) if isinstance(want, dict) else None
    if set(inner) - {"."}:
        return _differs(inner, wanted, there)
    if inner and isinstance(there, dict | list):
        return False  # it owns the existence of the part, and none of its fields
    if _is_empty(there) and _is_empty(wanted):
        return False
    return not _same(rest, wanted, there) and not (wanted is None and there == DEFAULTS.get(rest))


def _same(key: str, want: object, have: object) -> bool:
    if want == have:
        return True
    if key in {"cpu", "memory"}:
        try:
            return amount(str(want)) == amount(str(have))
        except ValueError:
            return False
    return False
