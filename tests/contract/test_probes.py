"""Startup, readiness and liveness."""

import time


def http(path, **fields):
    return {"httpGet": {"path": path, "port": 8080}, "periodSeconds": 1, **fields}


def test_readiness_follows_the_probe_and_restarts_nothing(place):
    place.pod("web", {"readinessProbe": http("/probe/ready", failureThreshold=2)})
    place.until_up("web")
    place.ask("web", "set/ready/false")
    place.until(lambda: not place.is_ready("web"), "not ready")
    assert place.condition("web", "ContainersReady")["reason"] == "ContainersNotReady"
    assert place.phase("web") == "Running"
    assert not place.container("web")["ready"]
    place.ask("web", "set/ready/true")
    place.until_up("web")
    assert place.container("web")["restartCount"] == 0


def test_pod_is_not_ready_before_its_probe_has_succeeded(place):
    place.pod("web", {"readinessProbe": http("/nowhere")})
    place.until(lambda: place.answers("web") if place.status("web").get("podIP") else False, "up")
    time.sleep(2)
    place.until(lambda: place.container("web").get("started"), "started")
    assert not place.is_ready("web")
    assert place.container("web")["restartCount"] == 0


def test_liveness_restarts_what_does_not_answer(place):
    place.pod("web", {"livenessProbe": http("/probe/live", failureThreshold=2)})
    place.until_up("web")
    place.ask("web", "set/live/false")
    place.until(lambda: place.container("web")["restartCount"] == 1, "restarted")
    place.until_up("web")
    place.until(
        lambda: (
            {"Unhealthy", "Killing"} <= {event["reason"] for event in place.get("events")["items"]}
        ),
        "events",
    )


def test_exec_probe_runs_in_the_container(place):
    check = "import os, sys; sys.exit(os.path.exists(os.path.join(os.environ['DATA'], 'sick')))"
    probe = {"exec": {"command": ["python", "-c", check]}, "periodSeconds": 1, "timeoutSeconds": 5}
    place.pod("web", {"readinessProbe": {**probe, "failureThreshold": 1}})
    place.until_up("web")
    place.ask("web", "write", path=place.ask("web", "env")["DATA"] + "/sick", text="x")
    place.until(lambda: not place.is_ready("web"), "not ready")


def test_startup_probe_holds_the_others_back(place):
    place.pod(
        "web",
        {
            "startupProbe": http("/probe/ready", failureThreshold=600),
            "livenessProbe": http("/probe/live", failureThreshold=1),
            "env": [{"name": "START_UNREADY", "value": "1"}],
        },
    )
    place.until(lambda: place.status("web").get("podIP") and place.answers("web"), "the program up")
    place.ask("web", "set/live/false")
    assert place.container("web")["restartCount"] == 0
    time.sleep(2.5)
    assert place.container("web")["restartCount"] == 0, "liveness waits for the start"
    assert place.container("web")["started"] is False
    assert not place.is_ready("web")
    place.ask("web", "set/ready/true")
    place.until(lambda: place.container("web")["restartCount"] == 1, "then liveness counts")


def test_failed_startup_restarts_before_anything_is_ready(place):
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    place.pod("web", {"startupProbe": probe})
    place.until(lambda: place.container("web").get("restartCount", 0) >= 1, "restarted")
    assert place.container("web")["started"] is False
    assert not place.container("web")["ready"]
