"""What is measured, as harness and events know it: a quorum of ours or of a peer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from kraftquorum_bench.loads import Errand, Load, Sample


class PeerMissingError(RuntimeError):
    """A peer cannot be had on this machine; the message says why and what would bring it."""


class UnsupportedLoadError(ValueError):
    """A contender's client cannot make this load."""


class Contender(Protocol):
    """A running quorum that takes loads."""

    name: str
    """Such as `etcd 3.6.8`."""

    @abstractmethod
    async def measure(self, load: Load, seconds: float) -> Sample:
        """Run a load for about so long; returns `per_s` and what else the client tells.

        Raises:
            UnsupportedLoadError, ToolError: as they say.
        """

    @abstractmethod
    async def fill(self, count: int, value_bytes: int, keys: int) -> None:
        """Write so many values, round so many keys."""


class Cluster(Contender, Protocol):
    """A quorum whose members can be killed, emptied and added to."""

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes of the members that run."""

    @abstractmethod
    def errand(self, load: Load, seconds: float) -> Errand:
        """A load under a fault: `timeline`, `keeps_on`, and all members as endpoints."""

    @abstractmethod
    async def leader(self) -> int:
        """The number of the member that leads, from 0."""

    @abstractmethod
    def kill(self, member: int) -> None:
        """End a member by SIGKILL."""

    @abstractmethod
    def start_again(self, member: int) -> None:
        """Start a member on what its directory holds, without waiting."""

    @abstractmethod
    async def wait_serving(self, member: int) -> None:
        """Wait until a member serves and has caught up."""

    @abstractmethod
    async def grow(self, size: int) -> None:
        """Make it a quorum of `size` voters; returns when all of them vote and have caught up."""
