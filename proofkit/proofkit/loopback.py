"""Loopback addresses for a single run of tests, however many runs are under way.

A run claims one of the networks 127.128.0.0/24 … 127.191.255.0/24 by a listening socket on a
fixed port of the network's last address: the kernel lets one process do that, of whichever
user and checkout, and frees it when the last process that holds the socket has ended. Listeners
of a test belong on such an address, with a fixed port or with port 0: on 127.0.0.1 a port that
was free when it was chosen may be another's when it is bound, or bound again.

127.77.0.0/16 … 127.126.0.0/16 are clusters' (`kraftquorum_devcluster.network`), claimed likewise.
"""

from __future__ import annotations

import errno
import itertools
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_CLAIM_PORT = 7077
_CLAIM_HOST = 254
_PREFIXES = (128, 191)
"""First and last second part of an address."""


class NoNetworkError(RuntimeError):
    """All networks are taken, or this machine has no loopback addresses but 127.0.0.1."""


@dataclass(frozen=True, slots=True)
class LoopbackNetwork:
    """A claimed 127.a.b.0/24. A context manager that releases the claim.

    Attributes:
        prefix: "127.a.b".
        claim: holds the claim. A child that listens on an address of the network inherits it
            (`pass_fds`): so the network stays claimed while an orphan still listens.
    """

    prefix: str
    claim: socket.socket

    def host(self, number: int) -> str:
        """An address of the network, by a number from 1 to 250."""
        assert 0 < number <= 250, number
        return f"{self.prefix}.{number}"

    def release(self) -> None:
        """Release the claim. Duty of the caller: nothing of this process listens here any more."""
        self.claim.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def claim_loopback(prefixes: Iterable[str] | None = None) -> LoopbackNetwork:
    """Claim the first network that is free.

    Args:
        prefixes: which may be claimed; None: all of this module.

    Raises:
        NoNetworkError: none is.
    """
    first, last = _PREFIXES
    everything = (f"127.{a}.{b}" for a, b in itertools.product(range(first, last + 1), range(256)))
    refused: OSError | None = None
    for prefix in everything if prefixes is None else prefixes:
        claim = socket.socket()
        try:
            claim.bind((f"{prefix}.{_CLAIM_HOST}", _CLAIM_PORT))
            claim.listen(1)
        except OSError as error:
            claim.close()
            refused = error
            if error.errno != errno.EADDRINUSE:
                break  # no other network is any better
            continue
        return LoopbackNetwork(prefix, claim)
    raise NoNetworkError(f"no loopback network 127.{first}.0 … 127.{last}.255 is free: {refused}")
