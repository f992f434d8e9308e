import pytest

from kraftquorum_devcluster.errors import NotReadyToRunError, UnsupportedPodError
from kraftquorum_devcluster.processnode.environment import (
    Sources,
    container_environment,
    expand,
    own_address,
)

POD = {
    "metadata": {
        "name": "web-0",
        "namespace": "ns",
        "uid": "u1",
        "labels": {"app": "web", "apps.kubernetes.io/pod-index": "0"},
    },
    "spec": {"nodeName": "devcluster"},
}
SOURCES = Sources({"settings": {"a": "1", "b": "2"}}, {"keys": {"token": "t"}})


def environment(*env, env_from=()):
    container = {"name": "main", "env": list(env), "envFrom": list(env_from)}
    return container_environment(container, POD, SOURCES, "127.77.1.1", "127.77.0.1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)/x", "1/x"),
        ("$(A)$(B)", "12"),
        ("$$(A)", "$(A)"),
        ("$(MISSING)", "$(MISSING)"),
        ("$A", "$A"),
        ("100$", "100$"),
    ],
)
def test_references_expand_as_in_kubernetes(text, expected):
    assert expand(text, {"A": "1", "B": "2"}) == expected


def test_fields_of_the_pod():
    fields = {
        "NAME": "metadata.name",
        "NS": "metadata.namespace",
        "UID": "metadata.uid",
        "IP": "status.podIP",
        "HOST": "status.hostIP",
        "INDEX": "metadata.labels['apps.kubernetes.io/pod-index']",
        "NONE": "metadata.annotations['absent']",
    }
    entries = [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in fields.items()]
    assert environment(*entries) == {
        "NAME": "web-0",
        "NS": "ns",
        "UID": "u1",
        "IP": "127.77.1.1",
        "HOST": "127.77.0.1",
        "INDEX": "0",
        "NONE": "",
    }


def test_later_variables_see_earlier_ones_and_win_over_env_from():
    result = environment(
        {"name": "a", "value": "own"},
        {"name": "URL", "value": "http://$(a):$(b)"},
        env_from=[{"configMapRef": {"name": "settings"}}],
    )
    assert result == {"a": "own", "b": "2", "URL": "http://own:2"}


def test_prefix_and_secret():
    result = environment(env_from=[{"prefix": "S_", "secretRef": {"name": "keys"}}])
    assert result == {"S_token": "t"}


@pytest.mark.parametrize(
    "reference",
    [
        {"configMapKeyRef": {"name": "absent", "key": "a"}},
        {"configMapKeyRef": {"name": "settings", "key": "absent"}},
        {"secretKeyRef": {"name": "absent", "key": "a"}},
    ],
)
def test_missing_source_waits_unless_optional(reference):
    with pytest.raises(NotReadyToRunError, match="absent"):
        environment({"name": "X", "valueFrom": reference})
    optional = {kind: {**body, "optional": True} for kind, body in reference.items()}
    assert environment({"name": "X", "valueFrom": optional}) == {}


def test_unknown_sources_are_refused():
    with pytest.raises(UnsupportedPodError, match="resourceFieldRef"):
        environment({"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}})
    with pytest.raises(UnsupportedPodError, match=r"status\.phase"):
        environment({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}})


def test_a_node_listens_on_its_pod_s_address_where_no_pod_has_a_network_of_its_own():
    ports = [{"name": "peer", "containerPort": 9093}, {"name": "api", "containerPort": 9080}]
    assert own_address({"ports": [*ports, {"containerPort": 1}]}, "127.77.1.2") == {
        "RAFTNODE_PEER_LISTEN": "127.77.1.2:9093",
        "RAFTNODE_API_LISTEN": "127.77.1.2:9080",
        "RAFTNODE_BOOTSTRAP_SERVER": "127.77.1.2:9080",
    }
    assert own_address({}, "127.77.1.2") == {}
