"""cert-manager on a cluster of a test: its CRDs, and its controllers as one process.

The CRDs are those of its Go module. The web hook is left out: the schemas of the CRDs and our own
tests check what the operator applies.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

from .binaries import ensure_binaries
from .cluster import DevCluster
from .errors import CommandError
from .files import write_atomically
from .gomodules import GoModule, downloaded_module
from .paths import cache_root
from .progress import make_progress
from .versions import CERT_MANAGER, CERT_MANAGER_VERSION

_MODULE = "github.com/cert-manager/cert-manager"
_FOLDER = "deploy/crds"
KINDS = ("certificaterequests", "certificates", "clusterissuers", "issuers")
_LAUNCHER = str(Path(__file__).with_name("launch.py"))
_END_S = 10.0


def module_sum() -> str:
    """The hash of cert-manager's module, from the go.sum that its controllers are built with.

    Raises:
        ValueError: There is none of the pinned version.
    """
    line = re.search(
        rf"^{re.escape(_MODULE)} v{re.escape(CERT_MANAGER_VERSION)} (h1:\S+)$",
        CERT_MANAGER.module_file("go.sum"),
        re.MULTILINE,
    )
    if line is None:
        raise ValueError(f"go.sum has no hash of cert-manager {CERT_MANAGER_VERSION}")
    return line[1]


def ensure_crds() -> Path:
    """The folder with the CRDs; a few seconds and 4 MB the first time.

    Raises:
        DownloadError: They cannot be had.
    """
    folder = cache_root() / "devcluster" / "crds" / f"cert-manager-v{CERT_MANAGER_VERSION}"
    names = [f"cert-manager.io_{kind}.yaml" for kind in KINDS]
    if all((folder / name).is_file() for name in names):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    module = GoModule(
        _MODULE, f"v{CERT_MANAGER_VERSION}", module_sum(), CERT_MANAGER.go_version_min
    )
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
        make_progress() as progress,
        downloaded_module(
            module, Path(scratch), progress, "download the CRDs of cert-manager"
        ) as files,
    ):
        for name in names:
            text = (files / _FOLDER / name).read_text(encoding="utf-8")
            write_atomically(folder / name, text, 0o644)
    return folder


def install_crds(cluster: DevCluster) -> None:
    """Apply the CRDs, and wait until the API server serves them."""
    folder = ensure_crds()
    cluster.kubectl("apply", "--server-side", "-f", str(folder))
    crds = [f"crd/{kind}.cert-manager.io" for kind in KINDS]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
    cluster.kubectl("get", "certificates", "--all-namespaces")


def remove_crds(cluster: DevCluster) -> None:
    """Delete the CRDs, with all Certificates and issuers of the cluster."""
    with contextlib.suppress(CommandError):
        cluster.kubectl("delete", "-f", str(ensure_crds()), "--ignore-not-found")


@contextlib.contextmanager
def running_controllers(cluster: DevCluster, namespace: str, log: Path) -> Generator[None]:
    """cert-manager's controllers for one namespace; they end with the context or this process.

    Args:
        cluster: Has the CRDs.
        namespace: The only one that they serve.
        log: Gets their output.

    Raises:
        BuildError: They are not in the cache and cannot be built.
    """
    program = ensure_binaries(wanted=CERT_MANAGER) / "cert-manager-controller"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *[sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid())],
                *[str(program), f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}"],
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
