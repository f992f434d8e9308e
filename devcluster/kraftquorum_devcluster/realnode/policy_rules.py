"""What the cluster's NetworkPolicies allow, as rules of iptables for each node (pure).

A node filters the packets to and from its own pods. What the node itself sends, such as a probe of
the kubelet, is not forwarded and passes, as Kubernetes demands.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kraftquorum_devcluster.objects import Json, child, children, texts

CHAIN = "KQ-POLICY"
"""The chain that every forwarded packet goes through."""

Direction = Literal["Ingress", "Egress"]
_PEERS: dict[Direction, str] = {"Ingress": "from", "Egress": "to"}
_RULES: dict[Direction, str] = {"Ingress": "ingress", "Egress": "egress"}
_OWN: dict[Direction, str] = {"Ingress": "-d", "Egress": "-s"}
_OTHER: dict[Direction, str] = {"Ingress": "-s", "Egress": "-d"}
_EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True)
class Policies:
    """The objects that decide.

    Attributes:
        policies: NetworkPolicies.
        namespaces: for selectors of namespaces.
        pods: of all namespaces.
    """

    policies: Sequence[Json]
    namespaces: Sequence[Json]
    pods: Sequence[Json]

    def rules_of(self, node: str) -> str:
        """Input of ``iptables-restore --noflush`` for one node."""
        jumps: list[str] = []
        chains: dict[str, list[str]] = {}
        for pod in self.pods:
            address = _address(pod)
            if address is None or pod["spec"].get("nodeName") != node:
                continue
            for direction in ("Ingress", "Egress"):
                applied = [p for p in self.policies if _applies(p, pod, direction)]
                if not applied:
                    continue
                name = _chain_name(direction, address)
                jumps.append(f"-A {CHAIN} {_OWN[direction]} {address} -j {name}")
                allowed = (r for p in applied for r in self._allowed(p, pod, direction))
                chains[name] = [*(f"-A {name} {rule} -j RETURN" for rule in dict.fromkeys(allowed))]
                chains[name].append(f"-A {name} -j DROP")
        lines = [
            "*filter",
            f":{CHAIN} - [0:0]",
            *(f":{name} - [0:0]" for name in chains),
            f"-A {CHAIN} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
            *jumps,
            *(rule for rules in chains.values() for rule in rules),
            "COMMIT",
        ]
        return "\n".join(lines) + "\n"

    def _allowed(self, policy: Json, pod: Json, direction: Direction) -> Iterator[str]:
        """Matches of the packets that a policy allows."""
        namespace = str(policy["metadata"]["namespace"])
        for rule in children(policy["spec"], _RULES[direction]):
            peers = children(rule, _PEERS[direction])
            places = (
                [place for peer in peers for place in self._places(peer, namespace)]
                if peers
                else [_EVERYWHERE]
            )
            for place in places:
                for port in self._ports(rule, pod, direction, place):
                    yield f"{_OTHER[direction]} {place}{port}"

    def _places(self, peer: Json, namespace: str) -> Iterator[str]:
        """Addresses of a peer."""
        if "ipBlock" in peer:
            block = child(peer, "ipBlock")
            if ":" not in block["cidr"]:
                left_out = [part for part in texts(block, "except") if ":" not in part]
                yield from map(str, _without(block["cidr"], left_out))
            return
        if "namespaceSelector" in peer:
            selected = {
                str(body["metadata"]["name"])
                for body in self.namespaces
                if _matches(peer["namespaceSelector"], body)
            }
        else:
            selected = {namespace}
        for pod in self.pods:
            address = _address(pod)
            inside = pod["metadata"]["namespace"] in selected
            if address and inside and _matches(peer.get("podSelector") or {}, pod):
                yield f"{address}/32"

    def _ports(self, rule: Json, pod: Json, direction: Direction, place: str) -> Iterator[str]:
        """Matches of a rule's ports; a named port is that of the pod that receives."""
        ports = children(rule, "ports")
        if not ports:
            yield ""
        for entry in ports:
            protocol = str(entry.get("protocol", "TCP")).lower()
            number: object = entry.get("port")
            if isinstance(number, str):
                receivers = [pod] if direction == "Ingress" else self._pods_at(place)
                for known in (_named_port(each, number) for each in receivers):
                    if known is not None:
                        yield f" -p {protocol} --dport {known}"
            elif number is None:
                yield f" -p {protocol}"
            else:
                end = f":{entry['endPort']}" if "endPort" in entry else ""
                yield f" -p {protocol} --dport {number}{end}"

    def _pods_at(self, place: str) -> list[Json]:
        return [pod for pod in self.pods if f"{_address(pod)}/32" == place]


def _applies(policy: Json, pod: Json, direction: Direction) -> bool:
    spec = policy["spec"]
    types: list[str] = spec.get("policyTypes") or ["Ingress", *(["Egress"] * ("egress" in spec))]
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return direction in types and same and _matches(spec.get("podSelector") or {}, pod)


def _matches(selector: Json, thing: Json) -> bool:
    """Whether labels meet a selector; an empty one selects all."""
    labels = child(thing["metadata"], "labels")
    wanted = child(selector, "matchLabels")
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_meets(rule, labels) for rule in children(selector, "matchExpressions"))


def _meets(rule: Json, labels: Json) -> bool:
    value, values = labels.get(rule["key"]), texts(rule, "values")
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _address(pod: Json) -> str | None:
    """The address of a pod that has a network of its own and has not ended."""
    status = child(pod, "status")
    ended = status.get("phase") in {"Succeeded", "Failed"}
    own = not pod["spec"].get("hostNetwork")
    return str(status["podIP"]) if own and not ended and status.get("podIP") else None


def _named_port(pod: Json, name: str) -> int | None:
    ports = (p for c in children(pod["spec"], "containers") for p in children(c, "ports"))
    return next((int(port["containerPort"]) for port in ports if port.get("name") == name), None)


def _without(cidr: str, left_out: Iterable[str]) -> list[ipaddress.IPv4Network]:
    """A range without parts of it, as ranges."""
    ranges = [ipaddress.IPv4Network(cidr, strict=False)]
    for text in left_out:
        hole = ipaddress.IPv4Network(text, strict=False)
        ranges = [
            part
            for whole in ranges
            for part in (whole.address_exclude(hole) if hole.subnet_of(whole) else [whole])
            if not part.subnet_of(hole)
        ]
    return ranges


def _chain_name(direction: Direction, address: str) -> str:
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    return f"KQ-{direction[0]}-{digest}"
