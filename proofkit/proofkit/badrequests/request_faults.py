"""A row of the table of wrong requests, and functions that make a good request wrong."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from raftnode.core.types import NodeId, ReplicaKey

if TYPE_CHECKING:
    from proofkit.badrequests.draft import Draft

CUT_OFF = "cut off"
"""The node closes the connection: it cannot find the next frame after such bytes."""
SILENCE = "no answer"
"""The node drops the request, as a network would: no answer would repair the damaged sender."""
TAKEN = "NONE"
"""The node allows the value or does not read it, and answers as usual."""

INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX = 2**7 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1
LONG = "x" * 255
"""As long as our own frame has room for."""
STRANGER = ReplicaKey(NodeId(77), uuid.UUID(int=77))

TO_LEADER = frozenset({"Fetch", "FetchSnapshot", "CompactFetch"})
"""These go to a leader, from who observes it; the others to a follower, from its leader."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One row: the fault and the expected answer."""

    request: str
    field: str
    value: str
    answer: str
    """The name of an error code, or CUT_OFF or SILENCE."""
    spoil: Callable[[Draft], None]
    spends_sender: bool = False
    """The sender says of itself what it cannot take back: it is not heard as before."""

    def __str__(self) -> str:
        return f"{self.request}: {self.field} {self.value}"


def body(path: str, value: Any) -> Callable[[Draft], None]:
    """Set a field of Kafka's message."""
    return lambda draft: draft.put(path, value)


def around(**changes: Any) -> Callable[[Draft], None]:
    """Set fields of the envelope."""
    return lambda draft: draft.wrap(**changes)


def own(tag: int, value: bytes | None) -> Callable[[Draft], None]:
    """Set a field of our own; None: leave it out."""
    return lambda draft: draft.extend(tag, value)


def together(*spoils: Callable[[Draft], None]) -> Callable[[Draft], None]:
    """Apply all of these changes."""

    def spoil(draft: Draft) -> None:
        for change in spoils:
            change(draft)

    return spoil


def raw(change: Callable[[bytes], bytes]) -> Callable[[Draft], None]:
    """Change the body's bytes."""

    def spoil(draft: Draft) -> None:
        draft.tail = change

    return spoil


def twice(path: str) -> Callable[[Draft], None]:
    """Repeat the only item of a list."""

    def spoil(draft: Draft) -> None:
        [only] = getattr(draft.body, path)
        draft.put(path, (only, only))

    return spoil


def earlier(path: str) -> Callable[[Draft], None]:
    """Lower a number by one."""

    def spoil(draft: Draft) -> None:
        draft.put(path, _at(draft.body, path) - 1)

    return spoil


def later(path: str) -> Callable[[Draft], None]:
    """Raise a number by one."""

    def spoil(draft: Draft) -> None:
        draft.put(path, _at(draft.body, path) + 1)

    return spoil


def _at(message: Any, path: str) -> int:
    for name in path.split("."):
        message = message[int(name)] if name.isdecimal() else getattr(message, name)
    return cast("int", message)
