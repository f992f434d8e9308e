"""The cluster's network: a bridge in a namespace of its own, the nodes and the machine on it.

```
machine ── kqN ⇄ root ┐
                      ├ bridge (namespace "hub", CoreDNS) ── eth0 of each node's namespace
                      ┘                                        └ bridge of its pods (CNI)
```

The machine keeps one device and a route for each node; both go when the namespaces do. Nothing
is forwarded by the machine, and no node has a default route: what a pod sends stays in here.
"""

import contextlib
import ipaddress
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from kraftquorum_devcluster.errors import StartError
from kraftquorum_devcluster.network import (
    FIRST_SUBNET,
    LAST_SUBNET,
    Subnet,
    claim_subnet,
)
from kraftquorum_devcluster.objects import Json
from kraftquorum_devcluster.paths import private_dir

from .addresses import RealNetwork, node_name
from .packages import search_path

HUB = "hub"
_GONE_S = 10.0
BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
"""Makes policies hold between two pods of one node, too, whose packets only a bridge forwards.

Only a kernel with `br_netfilter` has it.
"""


def claim_network() -> tuple[Subnet, RealNetwork]:
    """Claim a number whose addresses have no route on this machine.

    Raises:
        StartError: There is none.
    """
    for number in range(FIRST_SUBNET, LAST_SUBNET + 1):
        network = RealNetwork(number)
        if is_routed(network, json.loads(_run(["ip", "-j", "-4", "route", "show"]) or "[]")):
            continue
        with contextlib.suppress(StartError):  # another cluster has it
            return claim_subnet([number]), network
    raise StartError("network", "no free network 10.77…126.0.0/16")


def is_routed(network: RealNetwork, routes: Sequence[Json]) -> bool:
    """Whether this machine reaches an address of the network already, other than by default.

    Args:
        network: The network in question.
        routes: As ``ip -j route show`` tells them.
    """
    wanted = ipaddress.ip_network(network.everything)
    return any(
        ipaddress.ip_network(route["dst"]).overlaps(wanted)
        for route in routes
        if route["dst"] != "default" and route.get("dev") != network.device
    )


class Links:
    """Makes the namespaces under ``directory`` and joins them.

    Must run in a mount namespace of the cluster's own: a namespace is kept by a mount.
    """

    def __init__(self, directory: Path, network: RealNetwork, nodes: int) -> None:
        self._directory = directory
        self._network = network
        self._nodes = range(1, nodes + 1)

    def path(self, name: str) -> Path:
        """The namespace's file, to enter it by."""
        return self._directory / name

    def create(self) -> None:
        """Create all namespaces and links, after removing old ones.

        Raises:
            StartError: A command failed.
        """
        self.remove()
        private_dir(self._directory)
        for name in (HUB, *map(node_name, self._nodes)):
            self.path(name).touch()
            _run(["unshare", f"--net={self.path(name)}", "true"])
        network = self._network
        routes = [
            f"route add {network.pods(index)} via {network.node(index)}" for index in self._nodes
        ]
        self._ip(
            None,
            [
                f"link add {network.device} type veth peer name root netns {self.path(HUB)}",
                f"addr add {network.control}/24 dev {network.device}",
                f"link set {network.device} up",
                *routes,
            ],
        )
        self._ip(
            HUB,
            [
                "link set lo up",
                "link add br0 type bridge",
                f"addr add {network.dns}/24 dev br0",
                "link set br0 up",
                "link set root master br0 up",
                *routes,
            ],
        )
        for index in self._nodes:
            self._join(index)

    def _join(self, index: int) -> None:
        network, name = self._network, node_name(index)
        peer = self.path(name)
        self._ip(
            HUB,
            [
                f"link add {name} type veth peer name eth0 netns {peer}",
                f"link set {name} master br0 up",
            ],
        )
        self._ip(
            name,
            [
                "link set lo up",
                f"addr add {network.node(index)}/24 dev eth0",
                "link set eth0 up",
                # A packet to a Service has to have a way before kube-proxy gives it another end.
                f"route add {network.services} via {network.control}",
                *(
                    f"route add {network.pods(other)} via {network.node(other)}"
                    for other in self._nodes
                    if other != index
                ),
            ],
        )
        commands = (
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            f"test ! -e {BRIDGE_FILTER} || echo 1 > {BRIDGE_FILTER}",
        )
        _run(["nsenter", f"--net={peer}", "sh", "-c", "; ".join(commands)])

    def remove(self) -> None:
        """Take the machine's device and routes away, also those that a killed cluster left.

        The kernel does it too, once the last namespace has gone, but in its own time.

        Raises:
            StartError: The device cannot be removed.
        """
        deadline = time.monotonic() + _GONE_S
        while Path("/sys/class/net", self._network.device).exists():
            with contextlib.suppress(StartError):
                _run(["ip", "link", "del", self._network.device])
            if time.monotonic() > deadline:
                raise StartError("network", f"device {self._network.device} cannot be removed")
            time.sleep(0.05)

    def _ip(self, name: str | None, commands: Sequence[str]) -> None:
        enter = ["nsenter", f"--net={self.path(name)}"] if name else []
        _run([*enter, "ip", "-batch", "-"], stdin="\n".join(commands) + "\n")


def _run(command: Sequence[str], stdin: str = "") -> str:
    done = subprocess.run(
        command,
        input=stdin,
        env={"PATH": search_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StartError("network", f"`{' '.join(command)}`: {done.stderr.strip()}")
    return done.stdout
