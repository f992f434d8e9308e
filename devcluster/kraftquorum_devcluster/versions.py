"""What is built, in which version; the module files beside this one pin the hashes."""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources

KUBERNETES_VERSION = "1.34.4"
ETCD_VERSION = "3.6.8"
GO_VERSION_MIN = (1, 24)
COREDNS_VERSION = "1.12.2"
HELM_VERSION = "3.19.5"
CERT_MANAGER_VERSION = "1.21.2"
GRYPE_VERSION = "0.119.0"


@dataclass(frozen=True)
class ProgramSet:
    """Programs that are built together, from one Go module.

    Attributes:
        name: One word, for directories of the cache.
        title: What is built, and how long that takes, for people.
        module: Folder of ``go.mod`` and ``go.sum`` in this package.
        programs: Program name → Go package that it is built from.
        linker_flags: Flags of ``-ldflags``.
        key_prefix: How the name of the directory of finished programs begins.
        megabytes: What is downloaded, about.
        free_gib_first: Free space for a build from nothing, GiB.
        free_gib_resume: The same, for one that goes on.
        link_names: The name that ``go build -o DIR/`` gives a program, where it is not ours.
        sources: Go files of our own in the module.
        go_version_min: The oldest Go that builds it.
    """

    name: str
    title: str
    module: str
    programs: Mapping[str, str]
    linker_flags: str
    key_prefix: str
    megabytes: int
    free_gib_first: float
    free_gib_resume: float
    link_names: Mapping[str, str] = field(default_factory=dict[str, str])
    sources: tuple[str, ...] = ()
    go_version_min: tuple[int, int] = GO_VERSION_MIN

    def module_file(self, name: str) -> str:
        """Text of ``go.mod``, ``go.sum`` or one of the `sources` of the module."""
        file = resources.files("kraftquorum_devcluster").joinpath(self.module, name)
        return file.read_text(encoding="utf-8")

    @cached_property
    def key(self) -> str:
        """Name of the directory of finished programs: a change of any pin changes it."""
        digest = hashlib.sha256()
        files = ("go.mod", "go.sum", *self.sources)
        for part in (*map(self.module_file, files), self.linker_flags):
            digest.update(part.encode())
        machine = f"{platform.system()}-{platform.machine()}".lower()
        return f"{self.key_prefix}-{digest.hexdigest()[:12]}-{machine}"


def linker_flags() -> str:
    """Flags that give the programs the version they were made from."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    package = "k8s.io/component-base/version"
    stamps = {
        "gitVersion": f"v{KUBERNETES_VERSION}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return " ".join(["-s", "-w", *(f"-X {package}.{k}={v}" for k, v in stamps.items())])


CONTROL_PLANE = ProgramSet(
    name="go",
    title=f"Kubernetes {KUBERNETES_VERSION} and etcd, once: five to ten minutes on two cores",
    module="gomodule",
    programs={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    },
    linker_flags=linker_flags(),
    key_prefix=f"v{KUBERNETES_VERSION}",
    megabytes=120,
    # 3.0 GB of build cache, 0.6 GB of modules, 0.3 GB of programs were measured; all but the
    # programs is removed at the end.
    free_gib_first=5,
    free_gib_resume=3,
    link_names={"go.etcd.io/etcd/server/v3": "server"},
)

NODE = ProgramSet(
    name="go-node",
    title=f"kubelet {KUBERNETES_VERSION}, its companions and CoreDNS {COREDNS_VERSION}, once: "
    "five to ten minutes on two cores",
    module="gomodule_node",
    programs={
        "coredns": "kraftquorum.dev/devcluster/nodetools/coredns",
        "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    },
    linker_flags=linker_flags(),
    key_prefix=f"node-v{KUBERNETES_VERSION}",
    megabytes=110,
    free_gib_first=4,
    free_gib_resume=2,
    sources=("coredns/main.go",),
)
"""What a node with a kubelet needs beside the control plane and containerd."""

CHART_TOOLS = ProgramSet(
    name="go-charttools",
    title=f"Helm {HELM_VERSION} and kubeconform, once: a few minutes on two cores",
    module="gomodule_charttools",
    programs={
        "helm": "helm.sh/helm/v3/cmd/helm",
        "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
    },
    linker_flags=f"-s -w -X helm.sh/helm/v3/internal/version.version=v{HELM_VERSION}",
    key_prefix="charttools",
    megabytes=60,
    free_gib_first=2,
    free_gib_resume=1,
)
"""What the chart is checked with."""

LINT_TOOLS = ProgramSet(
    name="go-linttools",
    title="actionlint, once: half a minute on two cores",
    module="gomodule_linttools",
    programs={"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
    linker_flags="-s -w",
    key_prefix="linttools",
    megabytes=10,
    free_gib_first=1,
    free_gib_resume=1,
)
"""What the workflows in .github are checked with."""

SCAN_TOOLS = ProgramSet(
    name="go-scantools",
    title=f"Grype {GRYPE_VERSION}, once: about ten minutes on two cores",
    module="gomodule_scantools",
    programs={"grype": "github.com/anchore/grype/cmd/grype"},
    linker_flags=f"-s -w -X main.version={GRYPE_VERSION}",
    key_prefix="scantools",
    megabytes=470,
    free_gib_first=5,
    free_gib_resume=3,
    go_version_min=(1, 26),
)
"""What the images' contents are scanned with."""

BENCH_TOOLS = ProgramSet(
    name="go-benchtools",
    title=f"etcd {ETCD_VERSION} and its benchmark, once: a few minutes on two cores",
    module="gomodule_benchtools",
    programs={
        "etcd": "go.etcd.io/etcd/server/v3",
        "etcd-benchmark": "go.etcd.io/etcd/v3/tools/benchmark",
    },
    linker_flags="-s -w",
    key_prefix="benchtools",
    megabytes=40,
    free_gib_first=2,
    free_gib_resume=1,
    link_names={
        "go.etcd.io/etcd/server/v3": "server",
        "go.etcd.io/etcd/v3/tools/benchmark": "benchmark",
    },
)
"""etcd and its own load generator, which `make bench` measures."""

CERT_MANAGER = ProgramSet(
    name="go-certmanager",
    title=f"the controllers of cert-manager {CERT_MANAGER_VERSION}, once: a few minutes on two "
    "cores",
    module="gomodule_certmanager",
    programs={
        "cert-manager-controller": "kraftquorum.dev/devcluster/certmanager/cert-manager-controller"
    },
    linker_flags="-s -w",
    key_prefix=f"certmanager-v{CERT_MANAGER_VERSION}",
    megabytes=150,
    free_gib_first=3,
    free_gib_resume=2,
    sources=("cert-manager-controller/main.go",),
    go_version_min=(1, 26),
)
"""cert-manager for a test: its controllers without ACME, Vault and the web hook."""
