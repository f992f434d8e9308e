"""Real kubelets: starting and stopping leaves nothing behind, volumes break as told."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from kraftquorum_devcluster.errors import AlreadyRunningError, CommandError, StartError
from kraftquorum_devcluster.images.build import REGISTRY
from kraftquorum_devcluster.processes import owned_pids
from kraftquorum_devcluster.realcluster import RealCluster
from kraftquorum_devcluster.realnode.cgroups import left_cgroups
from kraftquorum_devcluster.realnode.disks import VolumeFaultError
from kraftquorum_devcluster.realnode.nodes import DISK_CLASS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

IMAGE = f"{REGISTRY}/node:e2e"
KERNEL = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
WRITER = """
import os, time
file = open('/data/log', 'ab', buffering=0)
while True:
    try:
        file.write(bytes(4096))
        os.fsync(file.fileno())
    except OSError as error:
        print(error.errno, flush=True)
        time.sleep(0.5)
    time.sleep(0.02)
"""


def until(condition, what, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def leftovers(state_dir):
    """All that a cluster could leave, but files."""
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/self/mounts").read_text()
    inside = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if str(state_dir) in (entry / "cmdline").read_bytes().decode():
                    inside.append(entry.name)
    return [
        *owned_pids(str(state_dir)),
        *inside,
        *left_cgroups(state_dir),
        *(line for line in loops.splitlines() if str(state_dir) in line),
        *(line for line in mounts.splitlines() if str(state_dir) in line),
    ]


def device(number):
    return Path(f"/sys/class/net/kq{number}")


def pod(name, script, claim=None, **spec):
    source = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "securityContext": {"fsGroup": 10001},
                "containers": [
                    {
                        "name": "main",
                        "image": IMAGE,
                        "command": ["python", "-c", script],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
                "volumes": [{"name": "data", **source}],
                **spec,
            },
        }
    )


@pytest.fixture
def state_dir(tmp_path):
    """A directory that is a cluster's; whatever the test did, the cluster is ended."""
    path = tmp_path / "state"
    yield path
    RealCluster(path).stop()
    assert leftovers(path) == []
    assert not path.exists()


def test_stop_leaves_nothing_and_the_machine_as_it_was(state_dir):
    before = {name: Path("/proc/sys", name).read_text() for name in KERNEL}
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    with RealCluster(state_dir, nodes=1) as cluster:
        number = cluster.info.subnet
        assert device(number).exists()
        assert cluster.nodes == ["node-1"]
        with pytest.raises(AlreadyRunningError):
            RealCluster(state_dir).start()
        cluster.kubectl("wait", "--for=condition=Ready", "node/node-1", "--timeout=5s")
    assert leftovers(state_dir) == []
    assert not state_dir.exists()
    assert not device(number).exists()
    after = {name: Path("/proc/sys", name).read_text() for name in KERNEL}
    assert after == before
    now = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    assert set(now.splitlines()) <= set(routes.splitlines())


def test_killed_supervisor_takes_all_with_it_and_the_next_start_goes_on(state_dir):
    killed = RealCluster(state_dir, keep_data=True, nodes=1).start(detached=True)
    killed.kubectl("create", "namespace", "kept")
    number = killed.info.subnet
    os.kill(killed.info.pid, signal.SIGKILL)
    killed._process.wait()
    until(lambda: not device(number).exists(), "the network gone", timeout_s=20)
    until(lambda: owned_pids(str(state_dir)) == [], "children gone", timeout_s=20)
    with RealCluster(state_dir, keep_data=True, nodes=1) as cluster:
        assert "kept" in cluster.kubectl("get", "namespaces", "-o", "name")
        cluster.kubectl("wait", "--for=condition=Ready", "node/node-1", "--timeout=30s")


def test_cluster_ends_with_the_process_that_started_it(state_dir):
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from kraftquorum_devcluster.realcluster import RealCluster\n"
        "cluster = RealCluster(Path(sys.argv[1]), nodes=1).start()\n"
        "print(cluster.info.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(state_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        supervisor = int(starter.stdout.readline())
        starter.kill()
    until(lambda: not Path(f"/proc/{supervisor}").exists(), "the supervisor gone")
    assert leftovers(state_dir) == []


@pytest.mark.parametrize("moment", ["lock", "netns/node-1", "logs/node-1/kubelet.log"])
def test_start_that_is_interrupted_is_cleaned_up(state_dir, moment):
    program = str(Path(sys.executable).with_name("devcluster"))
    command = [program, "up", "--node=kubelet", "--nodes=1", f"--state-dir={state_dir}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as starting:
        until((state_dir / moment).exists, f"begun so far that there is {moment}")
        starting.send_signal(signal.SIGTERM)
    until(lambda: leftovers(state_dir) == [], "all gone", timeout_s=20)
    down = subprocess.run(
        [program, "down", f"--state-dir={state_dir}"], capture_output=True, text=True, check=True
    )
    assert "cleaned up" in down.stderr


def test_place_that_a_node_would_hide_is_refused():
    with pytest.raises(StartError, match="outside of"):
        RealCluster(Path("/var/lib/somewhere")).start()


def claim(cluster, namespace, name="data", storage_class=DISK_CLASS, size="24Mi"):
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(body))


@pytest.fixture
def real_namespace(realcluster):
    name = f"real-{uuid.uuid4().hex[:6]}"
    realcluster.kubectl("create", "namespace", name)
    until(
        lambda: realcluster.kubectl("-n", name, "get", "sa", "default", "--ignore-not-found"),
        "account",
    )
    yield name
    realcluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize(("how", "number"), [("full", 28), ("read-only", 30), ("dead", 5)])
def test_volume_breaks_under_its_pod_as_told(realcluster, real_namespace, how, number):
    claim(realcluster, real_namespace)
    kubectl = ["-n", real_namespace]
    realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=pod("writer", WRITER, "data"))
    realcluster.kubectl(*kubectl, "wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")
    time.sleep(0.5)
    assert realcluster.kubectl(*kubectl, "logs", "writer") == ""
    realcluster.break_volume(real_namespace, "data", how)
    until(
        lambda: str(number) in realcluster.kubectl(*kubectl, "logs", "writer").split(),
        f"error {number} in the pod",
    )


SYNCER = """
import os, time
file = os.open("/data/file", os.O_WRONLY | os.O_CREAT)
while True:
    os.write(file, b"x")
    print("written", flush=True)
    os.fdatasync(file)
    print("synced", flush=True)
    time.sleep(0.2)
"""


def test_volume_that_hangs_takes_writes_and_completes_no_sync(realcluster, real_namespace):
    claim(realcluster, real_namespace)
    kubectl = ["-n", real_namespace]
    realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=pod("writer", SYNCER, "data"))
    realcluster.kubectl(*kubectl, "wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")

    def said() -> list[str]:
        return realcluster.kubectl(*kubectl, "logs", "writer").split()

    until(lambda: "synced" in said(), "a sync")
    realcluster.break_volume(real_namespace, "data", "hung")
    try:
        until(lambda: said()[-1:] == ["written"], "a write behind the last sync")
        hung = said()
        time.sleep(3)
        assert said() == hung
    finally:
        realcluster.fix_volume(real_namespace, "data")
    until(lambda: said()[len(hung) :][:3] == ["synced", "written", "synced"], "more syncs")


def test_plain_directory_cannot_be_broken(realcluster, real_namespace):
    claim(realcluster, real_namespace, storage_class="kraftquorum-local")
    kubectl = ["-n", real_namespace]
    realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=pod("writer", WRITER, "data"))
    realcluster.kubectl(*kubectl, "wait", "--for=condition=Ready", "pod/writer", "--timeout=60s")
    for how in ("full", "read-only", "dead", "hung"):
        with pytest.raises(VolumeFaultError, match="file system"):
            realcluster.break_volume(real_namespace, "data", how)


def test_drain_heeds_the_budget_and_moves_what_it_may(realcluster, real_namespace):
    kubectl = ["-n", real_namespace]
    sleeper = pod("idle", "import time; time.sleep(600)")
    realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=sleeper)
    realcluster.kubectl(*kubectl, "wait", "--for=condition=Ready", "pod/idle", "--timeout=60s")
    jsonpath = "jsonpath={.spec.nodeName}"
    node = realcluster.kubectl(*kubectl, "get", "pod/idle", "-o", jsonpath)
    realcluster.kubectl(
        *kubectl, "create", "pdb", "idle", "--selector=app=idle", "--min-available=1"
    )
    drain = ["drain", node, "--force", "--delete-emptydir-data", "--pod-selector=app=idle"]
    try:
        with pytest.raises(CommandError, match="disruption budget"):
            realcluster.kubectl(*drain, "--timeout=4s")
        realcluster.kubectl(*kubectl, "delete", "pdb", "idle")
        realcluster.kubectl(*drain, "--timeout=60s")
        realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=sleeper)
        realcluster.kubectl(*kubectl, "wait", "--for=condition=Ready", "pod/idle", "--timeout=60s")
        assert realcluster.kubectl(*kubectl, "get", "pod/idle", "-o", jsonpath) != node
    finally:
        realcluster.kubectl("uncordon", node)


IN_CLUSTER = """
import json, ssl, urllib.request
base = '/var/run/secrets/kubernetes.io/serviceaccount/'
context = ssl.create_default_context(cafile=base + 'ca.crt')
token = open(base + 'token').read()
import os
host = os.environ['KUBERNETES_SERVICE_HOST'] + ':' + os.environ['KUBERNETES_SERVICE_PORT']
for name in (host, 'kubernetes.default.svc'):
    request = urllib.request.Request('https://' + name + '/version')
    request.add_header('Authorization', 'Bearer ' + token)
    answer = json.load(urllib.request.urlopen(request, context=context, timeout=10))
    print(answer['gitVersion'], flush=True)
import socket
try:
    socket.create_connection(('192.0.2.1', 80), timeout=3)
except OSError as error:
    print('outside:', error.errno, flush=True)
"""


def test_pod_reaches_the_api_server_and_nothing_outside(realcluster, real_namespace):
    kubectl = ["-n", real_namespace]
    body = pod("inside", IN_CLUSTER, restartPolicy="Never")
    realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=body)
    done = "--for=jsonpath={.status.phase}=Succeeded"
    realcluster.kubectl(*kubectl, "wait", done, "pod/inside", "--timeout=60s")
    said = realcluster.kubectl(*kubectl, "logs", "inside").splitlines()
    assert said == ["v1.34.4", "v1.34.4", "outside: 101"]


def test_api_server_comes_back_and_pods_do_not_notice(realcluster, real_namespace):
    kubectl = ["-n", real_namespace]
    sleeper = pod("idle", "import time; time.sleep(600)")
    realcluster.kubectl(*kubectl, "create", "-f", "-", stdin=sleeper)
    realcluster.kubectl(*kubectl, "wait", "--for=condition=Ready", "pod/idle", "--timeout=60s")
    pid = realcluster.pod_process(real_namespace, "idle")
    realcluster.restart_apiserver()
    assert realcluster.pod_process(real_namespace, "idle") == pid
    os.kill(pid, signal.SIGKILL)
    count = "jsonpath={.status.containerStatuses[0].restartCount}"
    until(
        lambda: realcluster.kubectl(*kubectl, "get", "pod/idle", "-o", count) == "1",
        "the kubelet still reports",
    )
