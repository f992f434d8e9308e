"""The process node under a real API server and controller manager."""

import contextlib
import os
import signal
import time
import urllib.error
from pathlib import Path

import pytest

from kraftquorum_devcluster.errors import CommandError, UnknownPodError

pytestmark = pytest.mark.cluster


def simple_pod(name, *, script, **spec):
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    container.update(spec.pop("container", {}))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, **spec, "containers": [container]},
    }


def test_stateful_set_becomes_ready_on_volumes_of_its_own(web):
    web.apply(replicas=3)
    for ordinal in range(3):
        volume = web.cluster.volume_dir(web.namespace, f"data-web-{ordinal}")
        (volume / "name").write_text(f"web-{ordinal}")
        assert web.fetch("name", f"web-{ordinal}") == f"web-{ordinal}".encode()
    addresses = {web.cluster.pod_address(web.namespace, f"web-{n}") for n in range(3)}
    assert len(addresses) == 3
    pod = web.get("pod/web-0")
    assert pod["status"]["podIP"] == web.cluster.pod_address(web.namespace, "web-0")
    hosts = web.cluster.hosts_file.read_text()
    assert f"{pod['status']['podIP']}\tweb-0.web.{web.namespace}.svc.cluster.local" in hosts


def test_claim_deleted_before_pod_gives_an_empty_volume(web):
    web.apply()
    volume = web.cluster.volume_dir(web.namespace, "data-web-0")
    (volume / "old").write_text("data")
    old = web.get("pod/web-0")["metadata"]["uid"]

    web.kubectl("delete", "pvc/data-web-0", "--wait=false")
    assert web.get("pvc/data-web-0")["metadata"]["deletionTimestamp"]
    assert web.fetch("old") == b"data", "the claim stays under its running pod"
    assert web.get("pvc/data-web-0")["status"]["phase"] == "Bound"

    web.kubectl("delete", "pod/web-0", "--wait=false")

    web.until(lambda: web.found().get("metadata", {}).get("uid", old) != old, "a new pod")
    web.wait_ready(1)
    assert web.cluster.volume_dir(web.namespace, "data-web-0") != volume
    with pytest.raises(urllib.error.HTTPError, match="404"):
        web.fetch("old")
    web.until(lambda: not volume.exists(), "the old directory removed")


def test_killed_process_is_started_again_and_counted(web):
    web.apply()
    before = web.process()
    os.killpg(before, signal.SIGKILL)
    web.until(lambda: web.container().get("restartCount") == 1, "a restart")
    web.wait_ready(1)
    assert web.process() != before
    ended = web.container()["lastState"]["terminated"]
    assert ended["exitCode"] == 137
    assert ended["reason"] == "Error"


def test_stopped_process_is_not_ready_until_it_goes_on(web):
    web.apply()
    pid = web.process()
    os.killpg(pid, signal.SIGSTOP)
    web.until(lambda: not web.ready(), "not ready")
    assert web.container()["restartCount"] == 0
    os.killpg(pid, signal.SIGCONT)
    web.wait_ready(1)


def test_stopped_process_is_killed_when_its_grace_is_over(web):
    web.pod(simple_pod("deaf", script="trap '' TERM; echo up; while :; do sleep 0.1; done"))
    web.until_said("up", "deaf")
    pid = web.process("deaf")
    begun = time.monotonic()
    web.kubectl("delete", "pod/deaf")
    assert 1 <= time.monotonic() - begun < 25
    assert not Path(f"/proc/{pid}").exists()


def test_deletion_lets_the_process_end_by_itself(web, tmp_path):
    trap = f"trap 'echo ended > {tmp_path}/ended; exit 0' TERM"
    script = f"{trap}; echo up; while :; do sleep 0.05; done"
    web.pod(simple_pod("polite", script=script, terminationGracePeriodSeconds=50))
    web.until_said("up", "polite")
    begun = time.monotonic()
    web.kubectl("delete", "pod/polite")
    assert time.monotonic() - begun < 40
    assert (tmp_path / "ended").read_text() == "ended\n"


def test_forced_deletion_ends_the_process(web):
    web.apply()
    pid = web.process()
    web.kubectl("scale", "statefulset/web", "--replicas=0")
    web.kubectl("delete", "pod/web-0", "--force", "--grace-period=0", "--ignore-not-found")
    web.until(lambda: not Path(f"/proc/{pid}").exists(), "the process gone")
    with pytest.raises(UnknownPodError):
        web.cluster.pod_process(web.namespace, "web-0")


def test_exit_code_and_last_words_are_reported(web):
    script = "echo 'storage lost' > $TERMINATION_LOG; exit 42"
    web.pod(simple_pod("failing", script=script, restartPolicy="Never"))
    web.until(lambda: web.get("pod/failing")["status"]["phase"] == "Failed", "failed")
    ended = web.container("failing")["state"]["terminated"]
    assert ended["exitCode"] == 42
    assert ended["message"] == "storage lost\n"


def test_default_termination_path_works_and_restarts_back_off(web):
    script = "printf gone > /dev/termination-log; exit 3"
    web.pod(simple_pod("looping", script=script))
    web.until(lambda: web.container("looping").get("restartCount", 0) >= 2, "restarts")
    container = web.container("looping")
    assert container["lastState"]["terminated"]["message"] == "gone"
    assert container["lastState"]["terminated"]["exitCode"] == 3
    web.until(
        lambda: (
            web.container("looping")["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
        ),
        "back-off shown",
    )


def test_program_that_does_not_exist_is_reported(web):
    pod = simple_pod("nothing", script="", restartPolicy="Never")
    pod["spec"]["containers"][0]["command"] = ["no-such-program"]
    web.pod(pod)
    web.until(lambda: web.get("pod/nothing")["status"]["phase"] == "Failed", "failed")
    assert web.container("nothing")["state"]["terminated"]["exitCode"] == 128


def test_environment_and_mounted_files(web):
    web.kubectl("create", "configmap", "settings", "--from-literal=colour=red")
    web.kubectl("create", "secret", "generic", "keys", "--from-literal=token=abc")
    mounts = [
        {"name": "config", "mountPath": "/etc/settings"},
        {"name": "scratch", "mountPath": "/scratch"},
    ]
    env = [
        {
            "name": "COLOUR",
            "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}},
        },
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "BOTH", "value": "$(POD)-$(COLOUR)"},
        {"name": "FILE", "value": "/etc/settings/colour"},
    ]
    script = "echo $COLOUR $TOKEN $BOTH $(cat $FILE) $(cat /etc/settings/colour) > /scratch/out;"
    script += "cat /scratch/out; cat $KRAFTQUORUM_HOSTS_FILE; command -v raftnode"
    web.pod(
        simple_pod(
            "env",
            script=script,
            restartPolicy="Never",
            volumes=[
                {"name": "config", "configMap": {"name": "settings"}},
                {"name": "scratch", "emptyDir": {}},
            ],
            container={"env": env, "volumeMounts": mounts},
        )
    )
    web.until(lambda: web.get("pod/env")["status"]["phase"] == "Succeeded", "succeeded")
    text = web.kubectl("logs", "env")
    assert text.startswith("red abc env-red red red\n")
    assert "127.0.0.1\tlocalhost" in text
    assert text.rstrip().endswith("/raftnode")


def test_missing_config_map_holds_the_container_until_it_is_there(web):
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "x"}}}]
    web.pod(simple_pod("early", script="echo got $X; sleep 60", container={"env": env}))

    def waiting():
        return web.container("early").get("state", {}).get("waiting", {}).get("reason")

    web.until(lambda: waiting() == "CreateContainerConfigError", "waiting")
    web.kubectl("create", "configmap", "late", "--from-literal=x=1")
    web.until_said("got 1", "early")


def test_liveness_probe_restarts_a_hung_process(web):
    probe = {"exec": {"command": ["test", "!", "-e", "/state/hung"]}}
    probe |= {"periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 1}
    web.pod(
        simple_pod(
            "hanging",
            script="rm -f /state/hung; echo up; sleep 600",
            volumes=[{"name": "state", "emptyDir": {}}],
            container={
                "livenessProbe": probe,
                "volumeMounts": [{"name": "state", "mountPath": "/state"}],
            },
        )
    )
    web.until_said("up", "hanging")
    uid = web.get("pod/hanging")["metadata"]["uid"]
    (web.cluster.state_dir / "pods" / uid / "volumes" / "state" / "hung").touch()
    web.until(lambda: web.container("hanging")["restartCount"] == 1, "restarted")
    web.until_events("Unhealthy", "Killing")


def test_failed_startup_probe_restarts_before_anything_is_ready(web):
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    web.pod(simple_pod("slow", script="exec sleep 600", container={"startupProbe": probe}))
    web.until(lambda: web.container("slow").get("restartCount", 0) >= 1, "restarted")
    assert not web.container("slow")["ready"]
    assert not web.container("slow")["started"]


def test_processes_that_left_the_group_end_with_the_container(web):
    script = "setsid sleep 600 & echo $! > $HOME/pid; sleep 600"
    web.pod(simple_pod("leaky", script=script))
    web.until(lambda: web.container("leaky").get("ready"), "running")
    uid = web.get("pod/leaky")["metadata"]["uid"]
    file = web.cluster.state_dir / "pods" / uid / "pid"
    web.until(lambda: file.exists() and file.read_text().strip(), "the process id written")
    pid = int(file.read_text())
    assert Path(f"/proc/{pid}").exists()
    os.killpg(web.process("leaky"), signal.SIGKILL)
    web.until(lambda: web.container("leaky").get("restartCount") == 1, "restarted")
    with contextlib.suppress(FileNotFoundError):  # gone, or a zombie that init has yet to reap
        assert Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def test_second_deletion_cuts_the_grace_short(web):
    web.pod(
        simple_pod(
            "deaf",
            script="trap '' TERM; echo up; while :; do sleep 0.1; done",
            terminationGracePeriodSeconds=60,
        )
    )
    web.until_said("up", "deaf")
    pid = web.process("deaf")
    web.kubectl("delete", "pod/deaf", "--wait=false")
    web.kubectl("delete", "pod/deaf", "--force", "--grace-period=0")
    web.until(lambda: not Path(f"/proc/{pid}").exists(), "the process gone", timeout_s=30)


def test_unsupported_pod_is_refused_by_name(web):
    pod = simple_pod("odd", script="true", volumes=[{"name": "h", "hostPath": {"path": "/"}}])
    web.pod(pod)

    def waiting():
        return web.container("odd").get("state", {}).get("waiting", {})

    web.until(lambda: waiting().get("reason") == "UnsupportedPodSpec", "refused")
    assert "hostPath" in waiting()["message"]
    web.until_events("UnsupportedPodSpec")
    web.kubectl("delete", "pod/odd")


def test_pod_on_a_foreign_storage_class_stays_pending(web):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "foreign"},
        "spec": {
            "storageClassName": "another-provisioners",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    web.pod(claim)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "foreign"}}]
    web.pod(simple_pod("waiting", script="sleep 60", volumes=volumes))

    def scheduled():
        conditions = web.get("pod/waiting")["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    web.until(lambda: scheduled().get("reason") == "Unschedulable", "unschedulable")
    assert "foreign" in scheduled()["message"]


def test_scale_down_keeps_claims_and_scale_up_finds_the_data(web):
    web.apply(replicas=2)
    (web.cluster.volume_dir(web.namespace, "data-web-1") / "kept").write_text("yes")
    web.kubectl("scale", "statefulset/web", "--replicas=1")
    web.until(lambda: not web.found("web-1"), "the other gone")
    assert len(web.get("pvc")["items"]) == 2
    web.kubectl("scale", "statefulset/web", "--replicas=2")
    web.wait_ready(2)
    assert web.fetch("kept", "web-1") == b"yes"


def test_eviction_beyond_the_budget_is_refused(web):
    web.apply(replicas=2)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    web.pod(budget)
    web.until(lambda: web.get("pdb/web")["status"].get("currentHealthy") == 2, "budget counted")
    eviction = f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"web-0","namespace":"{web.namespace}"}}}}'
    path = f"/api/v1/namespaces/{web.namespace}/pods/web-0/eviction"
    with pytest.raises(CommandError, match="disruption budget"):
        web.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=eviction)


def test_logs_are_served_with_tail_follow_and_previous(web):
    script = "for i in 1 2 3; do echo line $i; done; test -e $HOME/again || { touch $HOME/again; exit 1; }; sleep 0.5; echo end"
    web.pod(simple_pod("chatty", script=script, restartPolicy="OnFailure"))
    web.until(lambda: web.container("chatty").get("restartCount") == 1, "a second start")
    assert web.kubectl("logs", "chatty", "--previous") == "line 1\nline 2\nline 3\n"
    web.until(lambda: "waiting" not in web.container("chatty")["state"], "it running")
    followed = web.kubectl("logs", "chatty", "-f")
    assert followed == "line 1\nline 2\nline 3\nend\n"
    assert web.kubectl("logs", "chatty", "--tail=2") == "line 3\nend\n"


def test_pods_survive_a_restart_of_the_api_server(web):
    web.apply()
    pid = web.process()
    web.cluster.restart_apiserver()
    assert web.process() == pid
    assert web.container()["restartCount"] == 0
    os.killpg(pid, signal.SIGKILL)
    web.until(lambda: web.container().get("restartCount") == 1, "the node still reports")
    web.wait_ready(1)
