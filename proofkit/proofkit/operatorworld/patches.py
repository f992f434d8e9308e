"""The effect of a patch in the API server."""

from __future__ import annotations

from typing import Any, cast


def merged(target: Any, change: Any) -> Any:
    """An object after a merge patch, by RFC 7396; neither argument is changed."""
    if not isinstance(change, dict):
        return change
    result = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for key, value in cast("dict[str, Any]", change).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
