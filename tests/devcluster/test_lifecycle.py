"""Starting and stopping: nothing is ever left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.errors import AlreadyRunningError, NotRunningError, StartError
from kraftquorum_devcluster.processes import owned_pids

pytestmark = pytest.mark.cluster

SLEEPER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "none",
                # a grandchild in a session of its own, which no signal to a group reaches
                "command": ["sh", "-c", "setsid sleep 600 & sleep 600"],
            }
        ],
    },
}


def until(condition, what, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def run_sleeper(cluster):
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(SLEEPER))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    until(lambda: len(owned_pids(str(cluster.state_dir))) >= 6, "the grandchild")


def test_second_cluster_runs_beside_and_stop_leaves_nothing(devcluster, tmp_path):
    state_dir = tmp_path / "state"
    with DevCluster(state_dir) as other:
        assert other.server_url != devcluster.server_url
        run_sleeper(other)
        host, port = other.server_url.removeprefix("https://").split(":")
        assert other.pod_address("default", "sleeper").startswith(host.rsplit(".", 2)[0])
        with pytest.raises(AlreadyRunningError):
            DevCluster(state_dir).start()
        assert DevCluster(state_dir, keep_data=True).attach().token == other.token
    assert owned_pids(str(state_dir)) == []
    assert not state_dir.exists()
    with socket.socket() as probe:
        assert probe.connect_ex((host, int(port))) != 0
    assert "devcluster" in devcluster.kubectl("get", "nodes"), "the first is untouched"


def test_killed_supervisor_takes_all_with_it_and_the_next_start_goes_on(tmp_path):
    state_dir = tmp_path / "state"
    cluster = killed = DevCluster(state_dir, keep_data=True).start()
    try:
        run_sleeper(cluster)
        os.kill(cluster.info.pid, signal.SIGKILL)
        killed._process.communicate()
        until(lambda: len(owned_pids(str(state_dir))) <= 2, "children gone")
        with pytest.raises(NotRunningError):
            DevCluster(state_dir, keep_data=True).attach()

        cluster = DevCluster(state_dir).start()
        # What no death signal reached is ended, and the pod started again.
        cluster.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
        until(
            lambda: (
                json.loads(cluster.kubectl("get", "pod/sleeper", "-o", "json"))["status"][
                    "containerStatuses"
                ][0]["restartCount"]
                == 1
            ),
            "counted as a restart",
        )
        assert cluster.pod_process("default", "sleeper")
    finally:
        cluster.stop()
    assert owned_pids(str(state_dir)) == []
    assert not state_dir.exists()


def test_cluster_dies_with_the_process_that_started_it(tmp_path):
    state_dir = tmp_path / "state"
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from kraftquorum_devcluster import DevCluster\n"
        "cluster = DevCluster(Path(sys.argv[1])).start()\n"
        "print(cluster.info.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(state_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        supervisor = int(starter.stdout.readline())
        starter.kill()
    until(lambda: not Path(f"/proc/{supervisor}").exists(), "the supervisor gone")
    assert owned_pids(str(state_dir)) == []
    DevCluster(state_dir).stop()
    assert not state_dir.exists()


def test_a_directory_of_another_user_is_neither_used_nor_removed(tmp_path):
    (tmp_path / "precious").touch()
    cluster = DevCluster(tmp_path)
    with pytest.raises(StartError, match="not empty"):
        cluster.start()
    cluster.stop()
    assert (tmp_path / "precious").exists()


def test_node_answers_only_those_who_prove_themselves(devcluster):
    import ssl  # noqa: PLC0415

    context = ssl.create_default_context(cafile=str(devcluster.ca_file))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(
            devcluster.info.kubelet_url + "/devcluster/pods/a/b", context=context
        )


def test_command_line(tmp_path):
    env = {**os.environ, "KRAFTQUORUM_DEVCLUSTER_STATE": str(tmp_path / "state")}
    env.pop("CLUSTER", None)
    program = str(Path(sys.executable).with_name("devcluster"))

    def devcluster(*words):
        return subprocess.run(
            [program, *words], env=env, capture_output=True, text=True, timeout=60, check=False
        )

    assert devcluster("status").returncode == 3
    try:
        first = devcluster("up")
        assert first.returncode == 0, first.stderr
        assert first.stdout.startswith("export KUBECONFIG=")
        assert "already up" in devcluster("up").stderr
        assert "node/devcluster" in devcluster("status").stdout
        assert devcluster("kubectl", "get", "nodes", "-o", "name").stdout == "node/devcluster\n"
        assert devcluster("kubectl", "get", "nonsense").returncode == 1
    finally:
        down = devcluster("down")
    assert "down" in down.stderr
    assert not (tmp_path / "state").exists()
    assert owned_pids(str(tmp_path / "state")) == []
    again = devcluster("down")
    assert again.returncode == 0
    assert "was not up" in again.stderr
