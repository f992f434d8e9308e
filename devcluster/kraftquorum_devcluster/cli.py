"""The ``devcluster`` command."""

import os
import signal
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .binaries import ensure_binaries
from .cluster import DevCluster
from .errors import DevClusterError, NotRunningError
from .external import ClusterChoice, cluster_choice, current_kubeconfig, kind_down, kind_up
from .images.cli import app as image_app
from .paths import binaries_dir, default_state_dir
from .realcluster import RealCluster
from .realnode.addresses import NODES_MAX
from .state import is_locked
from .versions import (
    BENCH_TOOLS,
    CERT_MANAGER,
    CHART_TOOLS,
    CONTROL_PLANE,
    LINT_TOOLS,
    NODE,
    SCAN_TOOLS,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="A real Kubernetes API on one machine, whose pods are local processes.",
)
app.add_typer(image_app, name="image")


class NodeKind(StrEnum):
    """What runs the pods."""

    PROCESS = "process"
    KUBELET = "kubelet"


StateDir = Annotated[
    Path,
    typer.Option(
        default_factory=default_state_dir,
        show_default="$XDG_STATE_HOME/kraftquorum/devcluster",
        help="Where the cluster keeps all it has.",
    ),
]


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


@app.command()
def up(
    state_dir: StateDir,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and stop the cluster at Ctrl-C.")
    ] = False,
    node: Annotated[
        NodeKind, typer.Option(help="Pods as local processes, or containers under kubelets (root).")
    ] = NodeKind.PROCESS,
    nodes: Annotated[
        int, typer.Option(min=1, max=NODES_MAX, help="How many nodes with a kubelet.")
    ] = 3,
    image: Annotated[
        list[Path] | None,
        typer.Option(help="Archive with images for the nodes; give it again for more."),
    ] = None,
) -> None:
    """Start a cluster; it goes on in the background."""
    match cluster_choice():
        case ClusterChoice.CURRENT:
            typer.echo(f"export KUBECONFIG={current_kubeconfig()}")
            return
        case ClusterChoice.KIND:
            typer.echo(f"export KUBECONFIG={kind_up(state_dir)}")
            return
        case ClusterChoice.KUBELET:
            node = NodeKind.KUBELET
        case ClusterChoice.DEVCLUSTER:
            pass
    if node is NodeKind.KUBELET:
        cluster = RealCluster(state_dir, keep_data=True, nodes=nodes, images=image or [])
    else:
        cluster = DevCluster(state_dir, keep_data=True)
    # A signal while it starts: it cleans up, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if is_locked(cluster.state_dir):
        _say(f"already up: {cluster.attach().server_url}")
    else:
        cluster.start(detached=not foreground)
        _say(f"up in {cluster.info.ready_after_s} s: {cluster.server_url}")
    typer.echo(f"export KUBECONFIG={cluster.kubeconfig}")
    if foreground:
        sys.stdout.flush()
        try:
            cluster.wait()
        except KeyboardInterrupt:
            _say("stopping")
        finally:
            cluster.stop()


@app.command()
def down(
    state_dir: StateDir,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Leave volumes, logs and objects for the next up.")
    ] = False,
) -> None:
    """Stop the cluster and remove what it left."""
    match cluster_choice():
        case ClusterChoice.CURRENT:
            _say("CLUSTER=current is not ours to stop")
        case ClusterChoice.KIND:
            kind_down(state_dir)
        case ClusterChoice.DEVCLUSTER | ClusterChoice.KUBELET:
            was_up = is_locked(state_dir)
            DevCluster(state_dir, keep_data=keep_data).stop()
            _say("down" if was_up else "was not up; cleaned up")


@app.command()
def status(state_dir: StateDir) -> None:
    """Say whether a cluster is up, and what runs on it. Exit code 3 if none is."""
    cluster = DevCluster(state_dir, keep_data=True)
    try:
        cluster.attach()
    except NotRunningError as error:
        _say(str(error))
        raise typer.Exit(3) from None
    typer.echo(f"up: {cluster.server_url} (process {cluster.info.pid})")
    typer.echo(f"kubeconfig: {cluster.kubeconfig}")
    typer.echo(f"logs: {cluster.logs_dir}")
    typer.echo(cluster.kubectl("get", "nodes,pods,pvc", "-A"))


@app.command()
def build(
    tools: Annotated[
        bool, typer.Option("--tools", help="Helm and kubeconform instead, to check the chart.")
    ] = False,
    lint_tools: Annotated[
        bool, typer.Option("--lint-tools", help="actionlint instead, to check the workflows.")
    ] = False,
    scan_tools: Annotated[
        bool, typer.Option("--scan-tools", help="Grype instead, to scan the images' contents.")
    ] = False,
    bench_tools: Annotated[
        bool, typer.Option("--bench-tools", help="etcd and its benchmark instead, to measure it.")
    ] = False,
    cert_manager: Annotated[
        bool, typer.Option("--cert-manager", help="cert-manager's controllers instead.")
    ] = False,
    node: Annotated[
        NodeKind, typer.Option(help="With kubelet: the kubelet, its companions and CoreDNS too.")
    ] = NodeKind.PROCESS,
) -> None:
    """Build the programs of the control plane into the cache, if they are not there."""
    choices = (
        (tools, CHART_TOOLS),
        (lint_tools, LINT_TOOLS),
        (scan_tools, SCAN_TOOLS),
        (bench_tools, BENCH_TOOLS),
        (cert_manager, CERT_MANAGER),
    )
    wanted = next((programs for chosen, programs in choices if chosen), CONTROL_PLANE)
    typer.echo(str(ensure_binaries(wanted=wanted)))
    if node is NodeKind.KUBELET:
        typer.echo(str(ensure_binaries(wanted=NODE)))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def kubectl(context: typer.Context) -> None:
    """Run kubectl on the cluster: ``devcluster kubectl get pods``."""
    cluster = DevCluster(default_state_dir(), keep_data=True).attach()
    done = subprocess.run(
        [str(binaries_dir() / "kubectl"), *context.args], env=cluster.kubectl_env(), check=False
    )
    raise typer.Exit(done.returncode)


def main() -> None:
    """Entry point: errors of ours are said in one line, without a traceback."""
    os.umask(0o077)
    try:
        app()
    except DevClusterError as error:
        _say(f"devcluster: {error}")
        sys.exit(1)
