"""Shell commands for the quorum of a demo that is left running, and their variables."""

import shlex
import sys
from pathlib import Path

from kraftquorum_devcluster.paths import binaries_dir
from kraftquorum_operator import names

from .credentials import APP, PROMETHEUS
from .environment import NAMESPACE, Environment

_NODES_SHOWN = 3
ENV_FILE = "env"


def write_env(environment: Environment) -> Path:
    """Write the file that sets a shell up for this cluster; returns it."""
    path = environment.places.out / ENV_FILE
    servers = ",".join(str(environment.endpoint(node)) for node in range(_NODES_SHOWN))
    files = environment.client_files
    programs = f"{Path(sys.executable).parent}:{binaries_dir()}"
    lines = [
        f"export PATH={shlex.quote(programs)}:$PATH",
        f"export KUBECONFIG={shlex.quote(str(environment.cluster.kubeconfig))}",
        f"export KRAFTQUORUM_HOSTS_FILE={shlex.quote(str(environment.cluster.hosts_file))}",
        f"export RAFTNODE_BOOTSTRAP_SERVER={servers}",
        f"export RAFTNODE_CLIENT_CA_FILE={shlex.quote(str(files.ca_file))}",
        f"export RAFTNODE_CLIENT_TOKEN_FILE={shlex.quote(str(files.token_file(APP)))}",
        f"export METRICS_TOKEN_FILE={shlex.quote(str(files.token_file(PROMETHEUS)))}",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def commands(environment: Environment, env: Path) -> list[str]:
    """Lines to copy into another terminal."""
    return [
        f". {env}",
        f"kubectl --kubeconfig {environment.cluster.kubeconfig} get krq,pods",
        f"kubectl describe krq {environment.name}",
        f"kubectl scale krq/{environment.name} --replicas=5",
        "raftnode metadata-quorum describe --status",
        "raftnode metadata-quorum describe --replication",
        "raftnode kv get Europe/Berlin | tail -1",
        "raftnode kv put hello world",
        f"curl -s {environment.operator.metrics_url} | grep ^kraftquorum",
        (
            "curl -s --cacert $RAFTNODE_CLIENT_CA_FILE "
            '-H "Authorization: Bearer $(cat $METRICS_TOKEN_FILE)" '
            f"--connect-to localhost:{names.API_PORT}:{_api(environment, 0)} "
            f"https://localhost:{names.API_PORT}/metrics | grep ^raft"
        ),
        f"find {environment.volume(0)} -mindepth 1 -delete   # a disk, under its running process",
        (
            f"echo sync hang > {environment.disk_faults(0).path}   "
            "# a disk hangs until this file is deleted"
        ),
    ]


def _api(environment: Environment, node_id: int) -> str:
    address = environment.cluster.pod_address(NAMESPACE, environment.pod(node_id))
    return f"{address}:{names.API_PORT}"
