"""Which cluster ``CLUSTER`` names, and other people's: ``kind`` and ``current``.

Those are thin on purpose: they give a kubeconfig and no more. What only the process node
can do (volume directories, processes, loopback addresses) they cannot.
"""

import json
import os
import shutil
import subprocess
from enum import StrEnum
from pathlib import Path

from .errors import CommandError, NotRunningError
from .paths import private_dir

_KIND_NAME = "kraftquorum"


class ClusterChoice(StrEnum):
    """Values of the environment variable ``CLUSTER``."""

    DEVCLUSTER = "devcluster"
    KUBELET = "kubelet"
    KIND = "kind"
    CURRENT = "current"


def cluster_choice() -> ClusterChoice:
    """Which cluster the environment asks for.

    Raises:
        NotRunningError: ``CLUSTER`` has an unknown value.
    """
    value = os.environ.get("CLUSTER") or ClusterChoice.DEVCLUSTER
    try:
        return ClusterChoice(value)
    except ValueError:
        choices = ", ".join(ClusterChoice)
        raise NotRunningError(f"CLUSTER={value} is none of {choices}") from None


def current_kubeconfig() -> Path:
    """The kubeconfig that kubectl would use.

    Raises:
        NotRunningError: There is none.
    """
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(named) if named else Path.home() / ".kube" / "config"
    if not path.is_file():
        raise NotRunningError(f"CLUSTER=current, but there is no kubeconfig at {path}")
    return path


def kind_up(state_dir: Path, *, workers: int = 0) -> Path:
    """Create the kind cluster unless it is there; returns its kubeconfig.

    Args:
        state_dir: Where the kubeconfig is written to.
        workers: Nodes beside the control plane; with none, pods run on that.

    Raises:
        NotRunningError: There is no ``kind`` program.
        CommandError: It failed.
    """
    config = private_dir(state_dir) / "kind.kubeconfig"
    if _KIND_NAME in _kind("get", "clusters").split():
        _kind("export", "kubeconfig", "--name", _KIND_NAME, "--kubeconfig", str(config))
    else:
        nodes = private_dir(state_dir) / "kind.yaml"
        nodes.write_text(json.dumps(_kind_config(workers)), encoding="utf-8")
        place = ["--name", _KIND_NAME, "--kubeconfig", str(config)]
        _kind("create", "cluster", *place, "--config", str(nodes))
    return config


def kind_load(archive: Path) -> None:
    """Bring the images of an archive to the kind cluster's nodes.

    Raises:
        NotRunningError: There is no ``kind`` program.
        CommandError: It failed.
    """
    _kind("load", "image-archive", str(archive), "--name", _KIND_NAME)


def _kind_config(workers: int) -> dict[str, object]:
    roles = ["control-plane", *["worker"] * workers]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": role} for role in roles],
    }


def kind_down(state_dir: Path) -> None:
    """Delete the kind cluster."""
    _kind("delete", "cluster", "--name", _KIND_NAME)
    (state_dir / "kind.kubeconfig").unlink(missing_ok=True)


def _kind(*arguments: str) -> str:
    program = shutil.which("kind")
    if program is None:
        raise NotRunningError("CLUSTER=kind, but there is no `kind` program on PATH")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"kind {' '.join(arguments)}", done.returncode, done.stderr)
    return done.stdout
