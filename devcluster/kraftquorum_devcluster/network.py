"""A loopback subnet of its own for each cluster, and free ports in it.

A cluster claims one of 127.77.0.0/16 … 127.126.0.0/16 by listening on a fixed
port of the subnet's first address for as long as it lives: the kernel lets one
process do that, of any user, and frees the port when the process dies. So two
clusters never share an address, and pods of the same name in both never meet.
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import StartError

FIRST_SUBNET = 77
LAST_SUBNET = 126
_CLAIM_PORT = 7077
_PORTS_TRIED = 50


@dataclass(frozen=True, slots=True)
class Subnet:
    """A claimed 127.N.0.0/16.

    Attributes:
        number: N.
        claim: The listening socket that holds the claim; close it to let go.
    """

    number: int
    claim: socket.socket

    @property
    def control_address(self) -> str:
        """Address of the control plane and of the node itself."""
        return f"127.{self.number}.0.1"


def claim_subnet(numbers: Iterable[int] | None = None) -> Subnet:
    """Claim the first free subnet.

    Raises:
        StartError: All are taken, or loopback addresses beyond 127.0.0.1 do
            not exist on this machine.
    """
    last_error: OSError | None = None
    for number in numbers or range(FIRST_SUBNET, LAST_SUBNET + 1):
        claim = socket.socket()
        try:
            claim.bind((f"127.{number}.0.1", _CLAIM_PORT))
            claim.listen(1)
        except OSError as error:
            claim.close()
            last_error = error
            continue
        return Subnet(number, claim)
    raise StartError("network", f"no free loopback subnet 127.77…126.0.0/16 ({last_error})")


def free_port(address: str, preferred: int) -> int:
    """The first port from ``preferred`` on that can be bound at ``address``.

    Below the ephemeral range and on an address that only this cluster uses,
    the port stays free until its owner starts, unless another process binds the
    wildcard address meanwhile; then that start fails and is tried again.

    Raises:
        StartError: None of the next ports is free.
    """
    for port in range(preferred, preferred + _PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise StartError("network", f"no free port from {preferred} on at {address}")
