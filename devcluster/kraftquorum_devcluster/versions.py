"""What is built, in which version; the module files beside this one pin the hashes."""

import hashlib
import platform
from importlib import resources

KUBERNETES_VERSION = "1.34.4"
ETCD_VERSION = "3.6.8"
GO_VERSION_MIN = (1, 24)

PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
"""Program name → Go package that it is built from."""

LINK_NAMES = {"go.etcd.io/etcd/server/v3": "server"}
"""The name that `go build -o DIR/` gives a program, where it is not ours."""


def module_file(name: str) -> str:
    """Text of ``go.mod`` or ``go.sum`` of the module that builds the programs."""
    return (
        resources.files("kraftquorum_devcluster")
        .joinpath("gomodule", name)
        .read_text(encoding="utf-8")
    )


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


def build_key() -> str:
    """Name of the directory of finished programs: a change of any pin changes it."""
    digest = hashlib.sha256()
    for part in (module_file("go.mod"), module_file("go.sum"), linker_flags()):
        digest.update(part.encode())
    machine = f"{platform.system()}-{platform.machine()}".lower()
    return f"v{KUBERNETES_VERSION}-{digest.hexdigest()[:12]}-{machine}"


BUILD_KEY = build_key()
