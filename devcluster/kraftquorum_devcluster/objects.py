"""Typed access to the JSON of Kubernetes objects, where fields may be absent or null."""

from typing import Any

Json = dict[str, Any]


def child(holder: Json, field: str) -> Json:
    """An object-valued field; empty if absent."""
    value: Json | None = holder.get(field)
    return value if value is not None else {}


def children(holder: Json, field: str) -> list[Json]:
    """A list-valued field; empty if absent."""
    value: list[Json] | None = holder.get(field)
    return value if value is not None else []


def texts(holder: Json, field: str) -> list[str]:
    """A field that is a list of texts; empty if absent."""
    value: list[str] | None = holder.get(field)
    return value if value is not None else []
