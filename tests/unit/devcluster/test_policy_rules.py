"""NetworkPolicies as rules of iptables: who is let in, to which port, and what is left alone."""

import ipaddress
from typing import Any

import pytest

from kraftquorum_devcluster.realnode.policy_rules import CHAIN, Policies

NODE, OTHER = "node-1", "node-2"


def pod(name: str, address: str, node: str = NODE, namespace: str = "a", **labels: str) -> Any:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [{"ports": [{"name": "api", "containerPort": 9080}]}],
        },
        "status": {"podIP": address, "phase": "Running"},
    }


def space(name: str, **labels: str) -> Any:
    return {"metadata": {"name": name, "labels": labels}}


def policy(selector: Any, namespace: str = "a", **spec: Any) -> Any:
    return {
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"podSelector": selector, **spec},
    }


NODES = [
    pod("n0", "10.0.1.1", app="quorum"),
    pod("n1", "10.0.2.1", OTHER, app="quorum"),
    pod("web", "10.0.1.9", app="web"),
    pod("far", "10.0.2.9", OTHER, namespace="b", app="web"),
]
SPACES = [space("a"), space("b", team="x")]
QUORUM = {"matchLabels": {"app": "quorum"}}


def filter_of(text: str, source: str, target: str, port: int) -> bool:
    """Whether a packet of a new TCP connection passes, by the rules in order."""
    chains: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("-A "):
            _, name, *words = line.split()
            chains.setdefault(name, []).append(words)

    def passes(name: str) -> bool:
        for words in chains.get(name, []):
            options = dict(zip(words[::2], words[1::2], strict=False))
            if "--ctstate" in options:
                continue
            for option, address in (("-s", source), ("-d", target)):
                if option in options and ipaddress.ip_address(address) not in ipaddress.ip_network(
                    options[option]
                ):
                    break
            else:
                first, _, last = options.get("--dport", f"{port}").partition(":")
                if options.get("-p", "tcp") != "tcp":
                    continue
                if not int(first) <= port <= int(last or first):
                    continue
                match options["-j"]:
                    case "RETURN":
                        return True
                    case "DROP":
                        return False
                    case chain if not passes(chain):
                        return False
        return True

    return passes(CHAIN)


def allows(policies: list[Any], source: str, target: str, port: int = 9080) -> bool:
    """By the rules of both nodes."""
    known = Policies(policies, SPACES, NODES)
    return all(filter_of(known.rules_of(node), source, target, port) for node in (NODE, OTHER))


N0, N1, WEB, FAR, OUTSIDE = "10.0.1.1", "10.0.2.1", "10.0.1.9", "10.0.2.9", "192.0.2.1"


def test_a_pod_without_a_policy_is_open_and_an_isolated_one_is_closed() -> None:
    assert allows([], WEB, N0)
    closed = [policy(QUORUM, policyTypes=["Ingress"])]
    for source in (WEB, FAR, N1, OUTSIDE):
        assert not allows(closed, source, N0)
    assert allows(closed, N0, WEB), "its own connections are not its ingress"
    assert not allows([policy({}, policyTypes=["Ingress"])], OUTSIDE, WEB), "{} selects all"
    assert allows([policy({}, "b", policyTypes=["Ingress"])], OUTSIDE, WEB), "another namespace"


@pytest.mark.parametrize(
    ("peer", "let_in"),
    [
        ({"podSelector": {}}, {WEB, N1}),
        ({"podSelector": QUORUM}, {N1}),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, {FAR}),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}, {WEB, FAR}),
        ({"ipBlock": {"cidr": "192.0.2.0/24"}}, {OUTSIDE}),
        ({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.1.0/24", "192.0.2.0/25"]}}, {FAR, N1}),
        ({"ipBlock": {"cidr": "::/0"}}, set()),
        (
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn",
                                                   "values": ["web"]}]}},
            {N1},
        ),
        ({"podSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}},
         {WEB, N1}),
        ({"podSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, set()),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In",
                                                "values": ["web"]}]}}, {WEB}),
    ],
)  # fmt: skip
def test_peers_are_let_in_and_no_others(peer: Any, let_in: set[str]) -> None:
    rules = [policy(QUORUM, policyTypes=["Ingress"], ingress=[{"from": [peer]}])]
    assert {s for s in (WEB, FAR, N1, OUTSIDE) if allows(rules, s, N0)} == let_in


@pytest.mark.parametrize(
    ("port", "opened"),
    [
        ({"port": 9080, "protocol": "TCP"}, {9080}),
        ({"port": "api"}, {9080}),
        ({"port": "unknown"}, set()),
        ({"port": 9000, "endPort": 9085}, {9080}),
        ({"protocol": "TCP"}, {9080, 9093}),
        ({"port": 9080, "protocol": "UDP"}, set()),
    ],
)
def test_only_the_listed_ports_are_open(port: Any, opened: set[int]) -> None:
    rules = [policy(QUORUM, policyTypes=["Ingress"], ingress=[{"ports": [port]}])]
    assert {p for p in (9080, 9093) if allows(rules, OUTSIDE, N0, p)} == opened


def test_policies_add_up() -> None:
    one = policy(QUORUM, policyTypes=["Ingress"], ingress=[{"ports": [{"port": 9080}]}])
    other = policy(QUORUM, policyTypes=["Ingress"], ingress=[{"ports": [{"port": 9093}]}])
    assert allows([one, other], WEB, N0, 9080)
    assert allows([one, other], WEB, N0, 9093)
    assert not allows([one], WEB, N0, 9093)


def test_egress_is_filtered_where_the_pod_is() -> None:
    rules = [policy(QUORUM, policyTypes=["Egress"], egress=[{"to": [{"podSelector": QUORUM}]}])]
    assert allows(rules, N0, N1)
    assert not allows(rules, N0, WEB)
    assert not allows(rules, N1, OUTSIDE)
    assert allows(rules, WEB, N0), "what comes in is not its egress"


def test_a_connection_needs_both_ends_to_allow_it() -> None:
    out = policy(QUORUM, policyTypes=["Egress"], egress=[{}])
    closed = policy({"matchLabels": {"app": "web"}}, policyTypes=["Ingress"])
    assert allows([out], N1, WEB)
    assert not allows([out, closed], N1, WEB)


def test_types_are_those_that_kubernetes_takes_without_them() -> None:
    assert not allows([policy(QUORUM)], WEB, N0)
    assert allows([policy(QUORUM)], N0, WEB)
    assert not allows([policy(QUORUM, egress=[])], N0, WEB)


def test_pods_that_have_ended_or_share_the_nodes_network_are_left_alone() -> None:
    ended = pod("ended", "10.0.1.7", app="quorum")
    ended["status"]["phase"] = "Succeeded"
    shared = pod("shared", "10.0.0.11", app="quorum")
    shared["spec"]["hostNetwork"] = True
    text = Policies([policy(QUORUM)], SPACES, [ended, shared]).rules_of(NODE)
    assert "10.0" not in text
    answers = f"-A {CHAIN} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
    assert answers in text.splitlines()
