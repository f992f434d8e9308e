"""Frames for one connection: bounded, in order, written at once while the connection takes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

Send = Callable[[bytes], Coroutine[Any, Any, None]]
"""Writes a frame, then waits as long as the connection wants no more of them."""


class Outbox:
    """A queue of frames with a limit in bytes.

    A frame is written within `put`, unless others wait before it. The owner runs `run` as a task,
    which waits for a slow connection, and cancels it when the connection ends.
    Invariant: `_bytes` counts the frames that the connection has not taken, also the one that
    waits.
    """

    def __init__(self, send: Send, *, bytes_max: int) -> None:
        self._send = send
        self._bytes_max = bytes_max
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._begun: _Begun | None = None
        self._gone = False
        self._wake = asyncio.Event()

    @property
    def waiting_bytes(self) -> int:
        """How many bytes the connection has not taken yet."""
        return self._bytes

    def put(self, frame: bytes) -> bool:
        """Write or queue a frame; False, and nothing done, if that is too much for a slow reader.

        One frame always fits into an empty outbox, whatever its size.
        """
        if self._frames:
            if self._bytes + len(frame) > self._bytes_max:
                return False
        elif not self._gone:
            try:
                self._begun = _begin(self._send(frame))
            except (OSError, RuntimeError):
                # The connection is closing: its reader sees that too, and ends it.
                self._gone = True
            else:
                if self._begun is None:
                    return True
        self._frames.append(frame)
        self._bytes += len(frame)
        self._wake.set()
        return True

    async def run(self) -> None:
        """Write the frames that wait until cancelled or the connection is gone."""
        while not self._gone:
            while self._frames:
                begun, self._begun = self._begun, None
                try:
                    await (begun or self._send(self._frames[0]))
                except (OSError, RuntimeError):
                    self._gone = True
                    return
                self._bytes -= len(self._frames.popleft())
            self._wake.clear()
            await self._wake.wait()


class _Begun:
    """A coroutine that has run up to its first wait, for a task to go on with."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waits_for
        except BaseException as error:
            self._coroutine.throw(error)
            raise
        yield from self._coroutine.__await__()


def _begin(coroutine: Coroutine[Any, Any, None]) -> _Begun | None:
    """Run a coroutine up to its first wait; None: it has ended."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration:
        return None
    return _Begun(coroutine, waits_for)
