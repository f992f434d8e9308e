"""What one session may use of the node: its turns, its part of the memory."""

from __future__ import annotations

from raftnode.api.client_connection import ClientConnection
from raftnode.api.guard import Guard
from raftnode.limits.model import Limit

_FRAME_BYTES = 14
"""What stands before a message, at most."""

_PONG_BYTES = 16


class SessionShare:
    """The part of a session in its holder's share.

    Args:
        guard: has the limits.
        holder: of the session.
        connection: of the session; None: what arrives is not counted.
    """

    def __init__(self, guard: Guard, holder: str, connection: ClientConnection | None) -> None:
        self._guard = guard
        self._holder = holder
        self._connection = connection
        self._arriving_bytes = 0
        if connection is not None:
            connection.on_received = self._received

    def _received(self, size: int) -> None:
        """Count bytes of a message that is not whole yet; without room the session ends."""
        connection = self._connection
        if size <= _PONG_BYTES:
            return  # pongs would add up
        if self._guard.arriving.take(self._holder, size):
            self._arriving_bytes += size
        elif connection is not None:
            connection.on_received = None
            self._guard.refused(Limit.BODIES, self._holder)
            connection.cut()

    def message_taken(self, size: int) -> None:
        """Note that a whole message was taken."""
        size = min(size + _FRAME_BYTES, self._arriving_bytes)
        self._arriving_bytes -= size
        if size:
            self._guard.arriving.give_back(self._holder, size)

    def close(self) -> None:
        """Give everything back that arrived."""
        if self._connection is not None:
            self._connection.on_received = None
        self.message_taken(self._arriving_bytes)

    async def turn(self) -> None:
        """Return once the session may begin the next part of a message.

        Meanwhile nothing more of the session is read: a thousand sessions that all send would
        fill the memory and the turns of the loop.
        """
        starts, connection = self._guard.session_starts, self._connection
        if connection is None or not starts.waits:
            await starts.start(self._holder)
            return
        connection.pause_reading()
        try:
            await starts.start(self._holder)
        finally:
            connection.resume_reading(resume_parser=False)

    async def room(self) -> None:
        """Return once a message of answers may be made; call `made` with it at once."""
        await self._guard.answers.room()

    def made(self, size: int) -> None:
        """Count a message until it is read."""
        self._guard.answers.add(size)

    def take(self, size: int) -> None:
        """Count the bytes of an operation until it is answered.

        Raises:
            RequestError: TOO_MANY_REQUESTS.
        """
        self._guard.take_operation(self._holder, size)

    def give_back(self, size: int) -> None:
        """Give the bytes of an answered operation back."""
        self._guard.bodies.give_back(self._holder, size)
