"""What is kept of a case that failed: objects, events, logs of pods and of the nodes."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kraftquorum_devcluster.errors import DevClusterError

from .cluster import E2eCluster

_KINDS = "kraftquorums,statefulsets,pods,persistentvolumeclaims,poddisruptionbudgets,configmaps"
_SHOWN = 12


def keep(e2e_cluster: E2eCluster, namespaces: Iterable[str], folder: Path) -> str:
    """Write everything that explains a failure into a folder; returns the short of it.

    What cannot be had is left out with a line that says why: the cluster itself may be broken.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    short: list[str] = []
    for namespace in namespaces:
        short += _keep_namespace(e2e_cluster, namespace, folder / namespace)
    for source in e2e_cluster.logs():
        shutil.copytree(source, folder / "cluster", dirs_exist_ok=True)
    return "\n".join(short)


def _keep_namespace(e2e_cluster: E2eCluster, namespace: str, folder: Path) -> list[str]:
    folder.mkdir()

    def ask(*arguments: str) -> str:
        try:
            return e2e_cluster.kubectl("--namespace", namespace, *arguments, timeout_s=30)
        except (DevClusterError, OSError, ValueError) as error:
            return f"kubectl {' '.join(arguments)}: {error}\n"

    (folder / "objects.yaml").write_text(ask("get", _KINDS, "-o", "yaml"), encoding="utf-8")
    (folder / "describe.txt").write_text(ask("describe", _KINDS), encoding="utf-8")
    events = ask("get", "events", "--sort-by=.lastTimestamp")
    (folder / "events.txt").write_text(events, encoding="utf-8")
    pods: list[str] = []
    with suppress(DevClusterError, OSError, ValueError):
        pods = [str(one["metadata"]["name"]) for one in e2e_cluster.api.all("pods", namespace)]
    ends: list[str] = []
    for pod in pods:
        text = ask("logs", pod, "--all-containers", "--timestamps")
        (folder / f"{pod}.log").write_text(text, encoding="utf-8")
        before = ask("logs", pod, "--previous", "--timestamps")
        (folder / f"{pod}.previous.log").write_text(before, encoding="utf-8")
        ends += [f"--- the end of {pod}'s log", *text.splitlines()[-_SHOWN:]]
    return [
        f"--- {namespace}: pods and quorums",
        *ask("get", "kraftquorums,pods,persistentvolumeclaims", "-o", "wide").splitlines(),
        f"--- {namespace}: the last events",
        *events.splitlines()[-_SHOWN:],
        *ends,
    ]
