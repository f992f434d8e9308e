"""A fuzz target: a function of bytes, the error that it may raise, and the first inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class FuzzError(AssertionError):
    """A decoder broke its promise without raising, such as a value that does not come back."""


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder.

    Attributes:
        name: such as `wire-frame`.
        decode: takes any bytes; checks what it made of them.
        refuses: what it may raise instead; anything else is a fault.
        seeds: sound input, from which mutations begin.
        covers: the functions that it fuzzes, `module.function` below `raftnode`, or from
            `kraftquorum_operator` on.
    """

    name: str
    decode: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]
    covers: tuple[str, ...]

    def run(self, data: bytes) -> bool:
        """Decode; return whether the decoder accepted the bytes.

        Raises:
            Exception: anything that the decoder does not promise.
        """
        try:
            self.decode(data)
        except self.refuses:
            return False
        return True


def same(first: object, second: object) -> None:
    """Check that the encoded value decodes to the same value."""
    if first != second:
        raise FuzzError(f"came back different: {first!r} then {second!r}")
