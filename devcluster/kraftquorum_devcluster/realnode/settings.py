"""What the programs of a node are told: their configuration files (pure).

JSON is YAML, so nothing here writes YAML by hand.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_devcluster.objects import Json

from .addresses import RealNetwork, node_name
from .packages import CNI_DIR

SANDBOX_IMAGE = "kraftquorum.local/pause:1"
RUNTIME_SOCKET = "/run/containerd/containerd.sock"
INSIDE = "/run/kraftquorum"
"""Where a node finds its files and our programs, whatever lies over the rest."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node.

    Attributes:
        index: They count from 1.
        cgroup: Parent of everything that runs in a container here.
    """

    index: int
    network: RealNetwork
    cgroup: str

    @property
    def name(self) -> str:
        """Name of the Node object."""
        return node_name(self.index)

    @property
    def address(self) -> str:
        """The node's own address."""
        return self.network.node(self.index)


def containerd_config() -> str:
    """Text of containerd's ``config.toml``; everything else is in its usual place."""
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{RUNTIME_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
# A machine that may not lower oom_score_adj could start no sandbox without this.
restrict_oom_score_adj = true
disable_tcp_service = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_DIR}"
conf_dir = "{INSIDE}/cni"
"""


def cni_config(plan: NodePlan) -> str:
    """A bridge for the node's pods, without translation of addresses: every node has routes."""
    bridge: Json = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": plan.network.pods(plan.index)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "kraftquorum", "plugins": [bridge]})


def kubelet_config(plan: NodePlan) -> str:
    """The kubelet's configuration.

    Disk space is the machine's and not the cluster's, so the kubelet neither evicts pods nor
    removes images for the lack of it before the last percent.
    """
    config: Json = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": plan.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{INSIDE}/pki/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": f"{INSIDE}/pki/server.crt",
        "tlsPrivateKeyFile": f"{INSIDE}/pki/server.key",
        "containerRuntimeEndpoint": f"unix://{RUNTIME_SOCKET}",
        "clusterDomain": "cluster.local",
        "clusterDNS": [plan.network.dns],
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.cgroup}/{plan.name}",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }
    return json.dumps(config)


def proxy_config(plan: NodePlan) -> str:
    """kube-proxy's configuration; limits of the machine's connection tracking stay."""
    config: Json = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": plan.address,
        "healthzBindAddress": "",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": f"{INSIDE}/kube-proxy.kubeconfig"},
        "hostnameOverride": plan.name,
        "mode": "iptables",
        "clusterCIDR": plan.network.everything,
        "oomScoreAdj": 0,
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    return json.dumps(config)


def corefile(kubeconfig: Path) -> str:
    """CoreDNS's configuration: the cluster's names and no others, fresh within a second.

    It listens on every address of its namespace.
    """
    return f"""cluster.local:53 {{
    errors
    ready
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
    loadbalance
}}
"""


_GIB = 2**30
_MEMORY_LEFT = 6 * _GIB
_MEMORY_PER_NODE = 2 * _GIB


def images_in_memory(available_bytes: int, nodes: int) -> bool:
    """Whether images and the containers' file systems may lie in memory.

    It spares most of the teardown, which otherwise deletes thousands of files on each node (6 s
    instead of 28 s on a busy machine); volumes stay on disk. Measured: 0.4 GB on each node for
    the node's image and the operator's.
    """
    return available_bytes >= _MEMORY_LEFT + nodes * _MEMORY_PER_NODE


def init_config(
    plan: NodePlan, node_dir: Path, logs_dir: Path, binaries: Path, *, in_memory: bool
) -> str:
    """What `nodeinit` is told."""
    programs = [
        {
            "name": "containerd",
            "command": ["containerd", "--config", f"{INSIDE}/containerd.toml"],
            "creates": RUNTIME_SOCKET,
        },
        {
            "name": "kubelet",
            "command": [
                "kubelet",
                f"--config={INSIDE}/kubelet.json",
                f"--kubeconfig={INSIDE}/kubelet.kubeconfig",
                f"--hostname-override={plan.name}",
                f"--node-ip={plan.address}",
                f"--node-labels=topology.kubernetes.io/zone=zone-{plan.index}",
            ],
        },
        {
            "name": "kube-proxy",
            "command": ["kube-proxy", f"--config={INSIDE}/kube-proxy.json"],
        },
    ]
    config: Json = {
        "inside": INSIDE,
        "node_dir": str(node_dir),
        "logs_dir": str(logs_dir),
        "binaries": str(binaries),
        "images_in_memory": in_memory,
        "programs": programs,
    }
    return json.dumps(config)
