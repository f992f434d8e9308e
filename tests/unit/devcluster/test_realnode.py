import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from kraftquorum_devcluster.errors import StartError
from kraftquorum_devcluster.processnode.provisioner import STORAGE_CLASS_OBJECT, disk_bytes
from kraftquorum_devcluster.realcluster import RealCluster
from kraftquorum_devcluster.realnode import packages
from kraftquorum_devcluster.realnode.addresses import NODES_MAX, RealNetwork, node_name
from kraftquorum_devcluster.realnode.cgroups import cgroup_name
from kraftquorum_devcluster.realnode.images import sandbox_archive
from kraftquorum_devcluster.realnode.links import is_routed
from kraftquorum_devcluster.realnode.nodes import plane_profile
from kraftquorum_devcluster.realnode.settings import (
    SANDBOX_IMAGE,
    NodePlan,
    cni_config,
    containerd_config,
    corefile,
    kubelet_config,
    proxy_config,
)

NETWORK = RealNetwork(77)
PLAN = NodePlan(2, NETWORK, "kraftquorum-x")


def test_no_two_ranges_of_a_cluster_overlap():
    import ipaddress  # noqa: PLC0415

    ranges = [NETWORK.pods(index) for index in range(1, NODES_MAX + 1)]
    ranges += ["10.77.0.0/24", NETWORK.services]
    nets = [ipaddress.ip_network(text) for text in ranges]
    assert all(not a.overlaps(b) for a in nets for b in nets if a is not b)
    whole = ipaddress.ip_network(NETWORK.everything)
    assert all(net.subnet_of(whole) for net in nets)
    singles = [NETWORK.control, NETWORK.dns, *(NETWORK.node(i) for i in range(1, NODES_MAX + 1))]
    assert len(set(singles)) == len(singles)
    assert all(ipaddress.ip_address(text) in nets[-2] for text in singles)
    assert ipaddress.ip_address(NETWORK.api_service) in nets[-1]


@pytest.mark.parametrize(
    ("route", "taken"),
    [
        ({"dst": "default", "dev": "eth0"}, False),
        ({"dst": "192.168.0.0/16", "dev": "eth0"}, False),
        ({"dst": "10.0.0.0/8", "dev": "vpn0"}, True),
        ({"dst": "10.77.3.4", "dev": "eth0"}, True),
        ({"dst": "10.77.11.0/24", "dev": "kq77"}, False),
    ],
)
def test_network_that_the_machine_routes_to_is_left_alone(route, taken):
    assert is_routed(NETWORK, [route]) is taken


def test_node_is_told_its_own_addresses_and_cgroup():
    kubelet = json.loads(kubelet_config(PLAN))
    assert kubelet["address"] == "10.77.0.12"
    assert kubelet["clusterDNS"] == ["10.77.0.2"]
    assert kubelet["cgroupRoot"] == "/kraftquorum-x/node-2"
    assert kubelet["authentication"]["anonymous"]["enabled"] is False
    assert json.loads(proxy_config(PLAN))["hostnameOverride"] == node_name(2)
    plugin = json.loads(cni_config(PLAN))["plugins"][0]
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.77.12.0/24"}]]
    assert plugin["ipMasq"] is False


def test_runtime_pulls_nothing_and_leaves_the_machines_scores_alone():
    cri = tomllib.loads(containerd_config())["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == SANDBOX_IMAGE
    assert cri["restrict_oom_score_adj"] is True


def test_names_outside_the_cluster_are_asked_of_no_server():
    assert "forward" not in corefile(Path("/k"))


def test_each_node_has_an_identity_of_its_own():
    profile = plane_profile(NETWORK, 2)
    nodes = {user for user, group in profile.identities.items() if group == "system:nodes"}
    assert nodes == {"system:node:node-1", "system:node:node-2"}
    assert {NETWORK.api_service, "10.77.0.11", "10.77.0.12"} <= set(profile.names)


def test_cgroup_is_the_same_for_the_same_place_only():
    assert cgroup_name(Path("/a")) == cgroup_name(Path("/a")) != cgroup_name(Path("/b"))


def test_only_root_may_and_is_told_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(StartError, match="root"):
        packages.ensure_packages()


def test_missing_programs_are_named_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(packages, "CNI_DIR", tmp_path)
    monkeypatch.setattr(packages, "search_path", lambda: str(tmp_path))
    assert shutil.which("apt-get", path=str(tmp_path)) is None
    with pytest.raises(StartError, match=r"apt-get install .*containerd containernetworking"):
        packages.ensure_packages()


def test_missing_sandbox_image_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KRAFTQUORUM_CACHE", str(tmp_path))
    with pytest.raises(StartError, match="build the images"):
        sandbox_archive()


@pytest.mark.parametrize("nodes", [0, NODES_MAX + 1])
def test_number_of_nodes_is_checked_first(nodes, tmp_path):
    with pytest.raises(StartError, match="nodes"):
        RealCluster(tmp_path / "state", nodes=nodes).start()


def claim(size):
    return {"spec": {"resources": {"requests": {"storage": size}}}}


def test_file_system_has_the_size_that_was_asked_for():
    own = {**STORAGE_CLASS_OBJECT, "parameters": {"ownFileSystem": "true"}}
    assert disk_bytes(claim("64Mi"), own) == 64 * 2**20
    assert disk_bytes(claim("1Gi"), own) == 2**30
    assert disk_bytes(claim("4096"), own) == 4096
    assert disk_bytes(claim("64Mi"), STORAGE_CLASS_OBJECT) is None
    with pytest.raises(ValueError, match="another form"):
        disk_bytes(claim("1.5G"), own)
