"""Which cluster the suite takes."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2elib import cluster
from e2elib.cluster import Choice, E2eCluster, NotHereError, OwnCluster, Tags, choose
from kraftquorum_devcluster import external
from kraftquorum_devcluster.errors import NotRunningError


@pytest.mark.parametrize("choice", list(Choice))
def test_what_is_asked_for_is_taken(choice):
    assert choose({"CLUSTER": str(choice)}) is choice


@pytest.mark.parametrize(("works", "choice"), [(True, Choice.KIND), (False, Choice.KUBELET)])
def test_kind_is_taken_where_it_can_be_had_else_our_own_nodes(monkeypatch, works, choice):
    monkeypatch.setattr(cluster, "_kind_works", lambda: works)
    assert choose({}) is choice


def test_an_unknown_cluster_is_refused():
    with pytest.raises(NotRunningError, match="current, kind, kubelet"):
        choose({"CLUSTER": "cloud"})


def test_images_are_named_by_target_and_tag():
    tags = Tags(registry="registry/here")
    assert tags.image("node", tags.next) == "registry/here/node:e2e-next"
    with pytest.raises(ValueError, match="node, operator"):
        tags.image("client", "e2e")


def test_kind_is_asked_for_workers_and_given_archives(monkeypatch, tmp_path):
    asked = []

    def kind(*arguments):
        asked.append(arguments)
        return ""

    monkeypatch.setattr(external, "_kind", kind)
    config = external.kind_up(tmp_path, workers=3)
    external.kind_load(tmp_path / "node-e2e.tar")
    made = next(words for words in asked if words[:2] == ("create", "cluster"))
    assert config == tmp_path / "kind.kubeconfig"
    assert str(config) in made
    nodes = json.loads(Path(made[made.index("--config") + 1]).read_text())["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane", *["worker"] * 3]
    assert asked[-1][:3] == ("load", "image-archive", str(tmp_path / "node-e2e.tar"))


def test_only_a_network_that_cannot_enforce_policies_excuses_an_open_port(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "ensure_binaries", lambda: tmp_path)
    kubeconfig, kernel = tmp_path / "kubeconfig", tmp_path / "bridge-nf-call-iptables"
    monkeypatch.setattr(cluster, "BRIDGE_FILTER", kernel)
    own = OwnCluster(SimpleNamespace(kubeconfig=kubeconfig, nodes=()), Tags())
    with pytest.raises(NotHereError, match="br_netfilter"):
        own.require_policies()
    kernel.write_text("1")
    own.require_policies()
    with pytest.raises(NotHereError, match="enforces no policies"):
        E2eCluster(kubeconfig, Tags(), "a cluster of others").require_policies()
