"""Frames that wait for one connection to take them: bounded, in order, written by one task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable


class Outbox:
    """A queue of frames with a limit in bytes.

    The owner runs `run` as a task and cancels it when the connection ends.
    Invariant: `_bytes` counts the frame that is being written, too.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], *, bytes_max: int) -> None:
        self._send = send
        self._bytes_max = bytes_max
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()

    @property
    def waiting_bytes(self) -> int:
        """How many bytes the connection has not taken yet."""
        return self._bytes

    def put(self, frame: bytes) -> bool:
        """Add a frame; False, and nothing added, if that is too much for a slow reader.

        One frame always fits into an empty outbox, whatever its size.
        """
        if self._frames and self._bytes + len(frame) > self._bytes_max:
            return False
        self._frames.append(frame)
        self._bytes += len(frame)
        self._wake.set()
        return True

    async def run(self) -> None:
        """Write frames until cancelled or the connection is gone."""
        while True:
            while self._frames:
                try:
                    await self._send(self._frames[0])
                except (OSError, RuntimeError):
                    # The connection is closing: its reader sees that too, and ends it.
                    return
                self._bytes -= len(self._frames.popleft())
            self._wake.clear()
            await self._wake.wait()
