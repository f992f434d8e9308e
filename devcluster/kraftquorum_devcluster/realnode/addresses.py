"""The cluster's 10.N.0.0/16, by the number N that the loopback claim gives (pure).

```
10.N.0.1         the API server, on the machine itself
10.N.0.2         CoreDNS
10.N.0.11 …      the nodes
10.N.11.0/24 …   the pods of each node
10.N.240.0/20    Services
```
"""

from dataclasses import dataclass

NODES_MAX = 9


@dataclass(frozen=True, slots=True)
class RealNetwork:
    """Addresses of one cluster.

    Attributes:
        number: N; held by `network.claim_subnet` as long as the cluster lives.
    """

    number: int

    @property
    def device(self) -> str:
        """The machine's end of the link to the cluster."""
        return f"kq{self.number}"

    @property
    def everything(self) -> str:
        """All addresses of the cluster."""
        return f"10.{self.number}.0.0/16"

    @property
    def control(self) -> str:
        """Address of the API server."""
        return f"10.{self.number}.0.1"

    @property
    def dns(self) -> str:
        """Address of CoreDNS."""
        return f"10.{self.number}.0.2"

    @property
    def services(self) -> str:
        """Addresses of Services."""
        return f"10.{self.number}.240.0/20"

    @property
    def api_service(self) -> str:
        """The Service by which pods reach the API server."""
        return f"10.{self.number}.240.1"

    def node(self, index: int) -> str:
        """Address of a node; they count from 1."""
        return f"10.{self.number}.0.{10 + index}"

    def pods(self, index: int) -> str:
        """Addresses of a node's pods."""
        return f"10.{self.number}.{10 + index}.0/24"


def node_name(index: int) -> str:
    """Name of a node; they count from 1."""
    return f"node-{index}"
