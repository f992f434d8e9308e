"""Hooks before the end, on the process node as on a kubelet."""

import os
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

LOOP = "echo up; while :; do sleep 0.05; done"


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
    """Run a pod, and wait until its shell has said that its trap is set."""
    name = pod["metadata"]["name"]
    web.pod(pod)
    web.until_said("up", name)
    return web.process(name)


def test_hook_runs_in_the_containers_environment_before_the_signal(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'echo told >> {log}; exit 0' TERM; {LOOP}"
    hook = f"sleep 0.5; echo $WHO >> {log}; test -d /data && echo data >> {log}"
    start(web, hooked_pod("polite", script=script, hook=hook))
    web.kubectl("delete", "pod/polite")
    assert log.read_text().split() == ["polite", "data", "told"]


def test_hook_that_hangs_ends_with_the_grace_and_the_process_still_has_two_seconds(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'sleep 0.5; echo told > {log}; exit 0' TERM; {LOOP}"
    start(web, hooked_pod("slow", script=script, hook="sleep 60", grace_s=2))
    begun = time.monotonic()
    web.kubectl("delete", "pod/slow", "--wait=false")
    web.until(lambda: log.exists() and log.read_text() == "told\n", "the process told to stop")
    assert 2.5 <= time.monotonic() - begun < 40
    (failed,) = web.until_events("FailedPreStopHook")
    assert "2 s" in failed["message"]


def test_failing_hook_stops_nothing(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap 'echo told > {log}; exit 0' TERM; {LOOP}"
    start(web, hooked_pod("failing", script=script, hook="exit 3"))
    web.kubectl("delete", "pod/failing")
    assert log.read_text() == "told\n"
    (failed,) = web.until_events("FailedPreStopHook")
    assert "exit code 3" in failed["message"]


def test_hook_of_a_process_that_is_gone_holds_nothing_up(web, tmp_path):
    began = tmp_path / "began"
    hook = f"touch {began}; sleep 90"
    pid = start(web, hooked_pod("gone", script="echo up; exec sleep 90", hook=hook, grace_s=80))
    web.kubectl("delete", "pod/gone", "--wait=false")
    web.until(began.exists, "the hook begun")
    os.killpg(pid, signal.SIGKILL)
    begun = time.monotonic()
    web.until(lambda: not web.found("gone"), "the pod gone")
    assert time.monotonic() - begun < 40


def test_forced_deletion_skips_the_hook(web, tmp_path):
    log = tmp_path / "log"
    script = f"trap '' TERM; {LOOP}"  # so that the hook has time
    pid = start(web, hooked_pod("forced", script=script, hook=f"echo hook > {log}"))
    web.kubectl("delete", "pod/forced", "--force", "--grace-period=0")
    web.until(lambda: not Path(f"/proc/{pid}").exists(), "the process gone")
    assert not log.exists()
