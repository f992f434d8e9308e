"""Life of a pod: phases, conditions, restarts, ends."""

import json
import os
import signal
import time

import pytest

from kraftquorum_devcluster.errors import CommandError


def python(text):
    return {"command": ["python", "-c", text]}


def test_running_pod_shows_its_phase_conditions_and_addresses(place):
    place.pod("web")
    place.until_up("web")
    status = place.status("web")
    assert status["phase"] == "Running"
    held = {c["type"]: c["status"] for c in status["conditions"]}
    wanted = {
        "PodScheduled",
        "Initialized",
        "PodReadyToStartContainers",
        "ContainersReady",
        "Ready",
    }
    assert {kind for kind, state in held.items() if state == "True"} >= wanted
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIP"]
    assert status["startTime"]
    container = place.container("web")
    assert container["ready"] is True
    assert container["started"] is True
    assert container["restartCount"] == 0
    assert container["state"]["running"]["startedAt"]
    assert container["lastState"] == {}
    place.kubectl("delete", "pod/web")
    assert not place.exists("pod/web")


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", 0, "Succeeded", "Completed"),
        ("Never", 3, "Failed", "Error"),
        ("OnFailure", 0, "Succeeded", "Completed"),
    ],
)
def test_pod_that_is_not_restarted_keeps_how_it_ended(place, policy, code, phase, reason):
    place.pod("once", python(f"raise SystemExit({code})"), restartPolicy=policy)
    place.until(lambda: place.phase("once") == phase, phase)
    ended = place.container("once")["state"]["terminated"]
    assert ended["exitCode"] == code
    assert ended["reason"] == reason
    assert ended["startedAt"] <= ended["finishedAt"]
    assert place.container("once")["restartCount"] == 0
    ready = place.condition("once", "Ready")
    assert ready["status"] == "False"
    assert ready["reason"] == ("PodCompleted" if code == 0 else "PodFailed")
    time.sleep(1)
    assert place.phase("once") == phase


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_container_that_failed_is_started_again_and_counted(place, policy):
    place.pod("web", restartPolicy=policy)
    place.until_up("web")
    address = place.status("web")["podIP"]
    place.end("web", 5)
    place.until(lambda: place.container("web")["restartCount"] == 1, "a restart")
    place.until_up("web")
    container = place.container("web")
    assert container["lastState"]["terminated"]["exitCode"] == 5
    assert container["lastState"]["terminated"]["reason"] == "Error"
    assert place.status("web")["podIP"] == address
    assert place.phase("web") == "Running"


def test_container_that_succeeded_is_started_again_if_always_is_said(place):
    place.pod("web")
    place.until_up("web")
    place.end("web", 0)
    place.until(lambda: place.container("web")["restartCount"] == 1, "a restart")
    assert place.container("web")["lastState"]["terminated"]["reason"] == "Completed"


def test_container_that_fails_at_once_backs_off(place):
    place.pod("looping", python("raise SystemExit(7)"))
    seen = {}

    def backing_off():
        seen.update(place.status("looping"))
        state = (seen.get("containerStatuses") or [{"state": {}}])[0]["state"]
        return state.get("waiting", {}).get("reason") == "CrashLoopBackOff"

    place.until(backing_off, "back-off shown")
    assert seen["phase"] == "Running"
    container = seen["containerStatuses"][0]
    assert container["lastState"]["terminated"]["exitCode"] == 7
    assert not container["ready"]
    ready = next(c for c in seen["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")


def test_killed_process_shows_its_signal_in_the_exit_code(place):
    place.pod("web")
    place.until_up("web")
    os.kill(place.cluster.pod_process(place.namespace, "web"), signal.SIGKILL)
    place.until(lambda: place.container("web")["restartCount"] == 1, "a restart")
    ended = place.container("web")["lastState"]["terminated"]
    assert ended["exitCode"] == 137
    assert ended["reason"] == "Error"
    assert "signal" not in ended


def test_program_that_does_not_exist_fails_without_having_run(place):
    place.pod("nothing", {"command": ["no-such-program"]}, restartPolicy="Never")
    place.until(lambda: place.phase("nothing") == "Failed", "failed")
    ended = place.container("nothing")["state"]["terminated"]
    assert ended["exitCode"] == 128
    assert ended["reason"] == "StartError"
    assert "no-such-program" in ended["message"]


def test_last_words_are_reported(place):
    place.pod("web", restartPolicy="Never")
    place.until_up("web")
    place.end("web", 42, message="storage lost")
    place.until(lambda: place.phase("web") == "Failed", "failed")
    ended = place.container("web")["state"]["terminated"]
    assert ended["exitCode"] == 42
    assert ended["message"] == "storage lost"


def test_last_log_lines_stand_in_for_last_words_if_that_is_asked_for(place):
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    place.pod("web", policy, restartPolicy="Never")
    place.until_up("web")
    place.end("web", 1)
    place.until(lambda: place.phase("web") == "Failed", "failed")
    assert "ending as told" in place.container("web")["state"]["terminated"]["message"]


def test_logs_of_this_start_and_of_the_one_before(place):
    place.pod("web")
    place.until_up("web")
    assert place.kubectl("logs", "web") == "up\n"
    place.end("web", 1)
    place.until(lambda: place.container("web")["restartCount"] == 1, "a restart")
    place.until_up("web")
    assert place.kubectl("logs", "web") == "up\n"
    assert place.kubectl("logs", "web", "--previous") == "up\nending as told\n"
    assert place.kubectl("logs", "web", "--previous", "--tail=1") == "ending as told\n"


def test_pod_waits_while_no_node_takes_it(place):
    nodes = place.kubectl("get", "nodes", "-o", "name").split()
    try:
        place.kubectl("cordon", *[node.removeprefix("node/") for node in nodes])
        place.pod("late")
        place.until(
            lambda: place.condition("late", "PodScheduled").get("reason") == "Unschedulable",
            "unschedulable",
        )
        assert place.phase("late") == "Pending"
    finally:
        place.kubectl("uncordon", *[node.removeprefix("node/") for node in nodes])
    place.until_up("late")


def test_eviction_beyond_the_budget_is_refused_with_429(place):
    place.pod("web", metadata={"labels": {"app": "web"}})
    place.until_up("web")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    place.create(budget)
    place.until(lambda: place.get("pdb/web")["status"].get("currentHealthy") == 1, "counted")
    eviction = json.dumps(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "web", "namespace": place.namespace},
        }
    )
    path = f"/api/v1/namespaces/{place.namespace}/pods/web/eviction"

    def evict():
        place.kubectl("create", "--raw", path, "-f", "-", "-v=6", stdin=eviction)

    with pytest.raises(CommandError, match=r"429|TooManyRequests") as refused:
        evict()
    assert "disruption budget" in refused.value.stderr
    assert place.answers("web")
    place.kubectl("delete", "pdb/web")
    evict()
    place.until(lambda: not place.exists("pod/web"), "evicted")
