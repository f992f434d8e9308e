"""Lists the wrong values that each field of a request can have, by its type alone.

The list comes from the messages and not from the table of wrong requests. So a test fails as soon
as Kafka's message, our envelope or our extensions have a field that the table does not cover.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
import uuid
from collections.abc import Iterator
from typing import Any, cast

from kio.static.primitive import i32, u16

from proofkit.badrequests.draft import ENTITIES, Draft
from raftnode.core.types import ReplicaKey
from raftnode.wire import extensions as ext
from raftnode.wire.envelope import Envelope

MISSING, NEGATIVE, HUGE, ANOTHER, MALFORMED = "missing", "negative", "huge", "another", "malformed"
LONG_TEXT = 255
"""From so many characters on a text is huge: more than our own frame has room for in one."""
INT16_MAX = 2**15 - 1

Spot = tuple[str, str]
"""A field, with dots between the names on the way to it, and a kind of wrong value."""

NOT_A_REQUESTS = frozenset({"leader", "leader_epoch", "leader_endpoint", "is_error"})
"""Fields of the envelope that only a response has: with one of them it is no request's frame."""

ALWAYS_RIGHT: dict[str, str] = {
    "envelope.correlation_id": "any number is told back",
    "forgotten_topics_data": "any at all is refused",
}
"""Fields, or the beginnings of their names, that have no wrong value of their own, and why."""

_TAGS = {
    tag: name
    for name, tag in vars(ext).items()
    if name.isupper() and isinstance(tag, int) and tag >= ext.ACKNOWLEDGED_OFFSET
}


def needed(good: Draft) -> set[Spot]:
    """Return every wrong value that a row must try, for a good request with all fields set."""
    now = _values(good)
    types = dict(_types(ENTITIES[good.request], ""))
    spots = {(path, kind) for path, of in types.items() for kind in _kinds(path, of)}
    spots.update(_of_envelope())
    for tag in good.envelope.extensions:
        number = tag not in {ext.ENDPOINT, ext.WANTS_HIGH_WATERMARK}
        kinds = (MISSING, MALFORMED, *((NEGATIVE, HUGE) if number else ()))
        spots.update((f"extension.{_TAGS[tag]}", kind) for kind in kinds)
    return {
        (path, kind)
        for path, kind in spots
        if not any(path.startswith(right) for right in ALWAYS_RIGHT)
        and (path not in now or kind != _kind(path, now[path], now[path], types))
    }


def spoilt(good: Draft, bad: Draft) -> set[Spot]:
    """Return the differences between a request and a good one."""
    was, now = _values(good), _values(bad)
    types = dict(_types(ENTITIES[good.request], ""))
    return {
        (path, _kind(path, now.get(path), was.get(path), types))
        for path in was.keys() | now.keys()
        if was.get(path) != now.get(path)
    }


# -- what there is -----------------------------------------------------------------


def _types(entity: type, path: str) -> Iterator[tuple[str, type]]:
    """Fields and their types; of a list that may be empty only what its items have."""
    hints = typing.get_type_hints(entity)
    for field in dataclasses.fields(entity):
        name, hint = path + field.name, hints[field.name]
        inner = [
            argument
            for argument in (hint, *typing.get_args(hint))
            if dataclasses.is_dataclass(argument)
        ]
        if not inner:
            yield name, _plain(hint)
            continue
        if hint is not inner[0] and not name.endswith(("_endpoints", "_data")):
            yield name, tuple
        yield from _types(cast("type", inner[0]), f"{name}.")


def _plain(hint: Any) -> type:
    return next(
        argument for argument in (*typing.get_args(hint), hint) if isinstance(argument, type)
    )


def _of_envelope() -> Iterator[Spot]:
    hints = typing.get_type_hints(Envelope)
    for field in dataclasses.fields(Envelope):
        if field.name == "extensions" or field.name in NOT_A_REQUESTS:
            continue
        name, hint = f"envelope.{field.name}", hints[field.name]
        of = _plain(hint)
        kinds = {ANOTHER} if of in {ReplicaKey, bool} else _kinds(name, of)
        if field.default is None:
            kinds |= {MISSING}
        yield from ((name, kind) for kind in kinds)


def _kinds(name: str, of: type) -> set[str]:
    if of is tuple:
        return {MISSING}
    if of is bool:
        return set()
    if issubclass(of, uuid.UUID):
        return {MISSING, ANOTHER}
    if issubclass(of, str):
        return {MISSING, ANOTHER, HUGE}
    if issubclass(of, u16):
        return {MISSING}
    if issubclass(of, dt.timedelta):
        return {NEGATIVE, HUGE}
    if issubclass(of, int):
        named = name.endswith(("_id", "epoch"))
        return {NEGATIVE, HUGE} | ({ANOTHER} if named else set())
    raise TypeError(f"what can be wrong with {name}, a {of}?")


# -- what is in one ------------------------------------------------------------------


def _values(draft: Draft) -> dict[str, Any]:
    values = dict(_leaves(draft.body, ""))
    for field in dataclasses.fields(Envelope):
        if field.name != "extensions":
            values[f"envelope.{field.name}"] = getattr(draft.envelope, field.name)
    for tag, value in draft.envelope.extensions.items():
        values[f"extension.{_TAGS[tag]}"] = value
    return values


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Fields and their values; of several items in a list, those of the last."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))
    elif isinstance(value, tuple) and value:
        for item in cast("tuple[Any, ...]", value):
            yield from _leaves(item, path)
    else:
        yield path, value


def _kind(path: str, value: Any, was: Any, types: dict[str, type]) -> str:
    if path.startswith("extension."):
        return _kind_of_bytes(path, value, was)
    if value is None or value in ((), ""):
        return MISSING
    if types.get(path) is u16:
        return MISSING if value == 0 else ANOTHER
    highest = int(getattr(types.get(path), "__high__", INT16_MAX))
    if isinstance(value, dt.timedelta):
        value, highest = value // dt.timedelta(milliseconds=1), i32.__high__
    if isinstance(value, str):
        return HUGE if len(value) >= LONG_TEXT else ANOTHER
    if isinstance(value, int) and value < 0:
        return NEGATIVE
    return HUGE if isinstance(value, int) and value >= highest else ANOTHER


def _kind_of_bytes(path: str, value: bytes | None, was: bytes | None) -> str:
    if value is None:
        return MISSING
    if was is None or len(value) != len(was) or path.endswith(".ENDPOINT"):
        return MALFORMED
    number = int.from_bytes(value, "big", signed=True)
    if number < 0:
        return NEGATIVE
    return HUGE if number == 2 ** (8 * len(value) - 1) - 1 else ANOTHER
