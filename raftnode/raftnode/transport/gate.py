"""Who may talk at all: each hello is judged before anything else is taken (S3).

The transport asks the gate at each hello, on both ends, and again with each frame, because a
later start of the same storage may have been admitted meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from raftnode.transport.hello import Identity, Refusal


class Gate(Protocol):
    """Remembers the replicas that were let in."""

    async def admit(self, peer: Identity, /) -> Refusal | None:
        """Judge a peer and remember it durably; None: it is welcome.

        Raises:
            StorageError: it could not be remembered; the process ends.
        """
        ...

    def is_current(self, peer: Identity, /) -> bool:
        """Whether a peer that was admitted speaks from the latest start known of it."""
        ...

    def refused(self, refusal: Refusal, /) -> None:
        """A peer would not talk to this replica; must not block and must not raise."""
        ...


class OpenGate:
    """Lets everybody in."""

    async def admit(self, _peer: Identity) -> Refusal | None:
        """Welcome."""
        return None

    def is_current(self, _peer: Identity) -> bool:
        """Yes."""
        return True

    def refused(self, _refusal: Refusal) -> None:
        """Nothing follows from it."""
