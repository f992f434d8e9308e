"""Hooks before the end, on the process node as on a kubelet."""

import os
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster


def hooked_pod(name, *, script, hook, grace_s=10):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": grace_s,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "command": ["sh", "-c", script],
                    "env": [{"name": "WHO", "value": name}],
                    "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", hook]}}},
                    "securityContext": {"readOnlyRootFilesystem": True, "runAsNonRoot": True},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
        },
    }


def start(web, pod):
    name = pod["metadata"]["name"]
    web.pod(pod)
    web.until(lambda: web.container(name).get("ready"), "running")
    time.sleep(0.3)  # for the shell to set its trap
    return web.process(name)


def test_hook_runs_in_the_containers_environment_before_the_signal(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'echo told >> {log}; exit 0' TERM; while :; do sleep 0.05; done"
    hook = f"sleep 0.5; echo $WHO >> {log}; test -d /data && echo data >> {log}"
    start(web, hooked_pod("polite", script=script, hook=hook))
    web.kubectl("delete", "pod/polite")
    assert log.read_text().split() == ["polite", "data", "told"]


def test_hook_that_hangs_ends_with_the_grace_and_the_process_still_has_two_seconds(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'sleep 1; echo told > {log}; exit 0' TERM; while :; do sleep 0.05; done"
    start(web, hooked_pod("slow", script=script, hook="sleep 60", grace_s=2))
    begun = time.monotonic()
    web.kubectl("delete", "pod/slow", "--wait=false")
    web.until(log.exists, "the process told to stop")
    assert 3 <= time.monotonic() - begun < 8
    assert log.read_text() == "told\n"
    web.until(
        lambda: any(
            event["reason"] == "FailedPreStopHook" and "2 s" in event["message"]
            for event in web.get("events")["items"]
        ),
        "an event about the hook",
    )


def test_failing_hook_stops_nothing(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'echo told > {log}; exit 0' TERM; while :; do sleep 0.05; done"
    start(web, hooked_pod("failing", script=script, hook="exit 3"))
    web.kubectl("delete", "pod/failing")
    assert log.read_text() == "told\n"
    events = web.get("events")["items"]
    (failed,) = [event for event in events if event["reason"] == "FailedPreStopHook"]
    assert "exit code 3" in failed["message"]


def test_hook_of_a_process_that_is_gone_holds_nothing_up(web):
    pid = start(web, hooked_pod("gone", script="exec sleep 60", hook="sleep 60", grace_s=30))
    web.kubectl("delete", "pod/gone", "--wait=false")
    time.sleep(1)
    os.killpg(pid, signal.SIGKILL)
    begun = time.monotonic()
    web.until(lambda: "gone" not in web.kubectl("get", "pods"), "the pod gone")
    assert time.monotonic() - begun < 5


def test_forced_deletion_skips_the_hook(web, tmp_path):
    log = tmp_path / "log"
    script = "trap '' TERM; while :; do sleep 0.05; done"  # so that the hook has time
    pid = start(web, hooked_pod("forced", script=script, hook=f"echo hook > {log}"))
    web.kubectl("delete", "pod/forced", "--force", "--grace-period=0")
    web.until(lambda: not Path(f"/proc/{pid}").exists(), "the process gone")
    assert not log.exists()
