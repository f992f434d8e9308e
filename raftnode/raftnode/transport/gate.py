"""The gate judges each hello, before anything else of a replica is accepted (S3).

The transport asks the gate at each hello, on both ends, and again with each frame, because a
later start of the same storage may have been admitted meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from raftnode.transport.hello import Identity, Refusal


class Gate(Protocol):
    """Remembers the replicas that were let in."""

    async def admit(self, peer: Identity, /) -> Refusal | None:
        """Judge a peer and remember it durably; None: the peer is admitted.

        Raises:
            StorageError: the peer could not be remembered; the process exits.
        """
        ...

    def is_current(self, peer: Identity, /) -> bool:
        """Whether an admitted peer's connection belongs to its latest known start."""
        ...

    def refused(self, refusal: Refusal, /) -> None:
        """Take a peer's refusal of this replica; must not block and must not raise."""
        ...


class OpenGate:
    """Admits every replica."""

    async def admit(self, _peer: Identity) -> Refusal | None:
        """Admit the peer."""
        return None

    def is_current(self, _peer: Identity) -> bool:
        """Return True."""
        return True

    def refused(self, _refusal: Refusal) -> None:
        """Ignore the refusal."""
