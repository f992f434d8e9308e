"""How a pod ends: hooks, grace, force."""

import time
from pathlib import Path

import pytest

from kraftquorum_devcluster.errors import UnknownPodError

HOOK = "import os; open(os.path.join(os.environ['DATA'], 'log'), 'a').write('hook\\n')"


def deletion_s(place, *arguments):
    begun = time.monotonic()
    place.kubectl("delete", "pod/web", *arguments)
    return time.monotonic() - begun


def data(place, claim="data"):
    return place.cluster.volume_dir(place.namespace, claim) / "log"


def test_process_is_told_to_end_and_may_do_so_at_once(place):
    place.claim("data")
    place.pod("web", claim="data", terminationGracePeriodSeconds=50)
    place.until_up("web")
    assert deletion_s(place) < 40
    assert data(place).read_text() == "up\ntold to end\n"


def test_process_that_does_not_listen_is_killed_when_its_grace_is_over(place):
    place.claim("data")
    place.pod("web", claim="data", terminationGracePeriodSeconds=3)
    place.until_up("web")
    place.ask("web", "set/deaf/true")
    assert 3 <= deletion_s(place) < 25
    assert data(place).read_text() == "up\ntold to end\n"


def test_grace_can_be_given_with_the_deletion(place):
    place.pod("web", terminationGracePeriodSeconds=60)
    place.until_up("web")
    place.ask("web", "set/deaf/true")
    assert 1 <= deletion_s(place, "--grace-period=1") < 40


def test_hook_runs_before_the_process_is_told(place):
    hook = {"preStop": {"exec": {"command": ["python", "-c", HOOK]}}}
    place.claim("data")
    place.pod("web", {"lifecycle": hook}, claim="data", terminationGracePeriodSeconds=20)
    place.until_up("web")
    deletion_s(place)
    assert data(place).read_text() == "up\nhook\ntold to end\n"


def test_hook_counts_towards_the_grace(place):
    slow = {"preStop": {"exec": {"command": ["python", "-c", "import time; time.sleep(60)"]}}}
    place.claim("data")
    place.pod("web", {"lifecycle": slow}, claim="data", terminationGracePeriodSeconds=3)
    place.until_up("web")
    assert 3 <= deletion_s(place) < 40
    assert data(place).read_text() == "up\ntold to end\n", "told all the same, two seconds more"


def test_http_hook_and_failing_hook_do_not_hold_the_deletion(place):
    hook = {"preStop": {"httpGet": {"path": "/write?path=/data/hooked&text=yes", "port": 8080}}}
    failing = {"preStop": {"exec": {"command": ["no-such-program"]}}}
    place.pod("web", {"lifecycle": hook}, terminationGracePeriodSeconds=50)
    place.until_up("web")
    assert deletion_s(place) < 40
    place.pod("web", {"lifecycle": failing}, terminationGracePeriodSeconds=50)
    place.until_up("web")
    assert deletion_s(place) < 40


def test_pod_that_does_not_listen_serves_until_its_grace_is_over(place):
    place.pod("web", terminationGracePeriodSeconds=6)
    place.until_up("web")
    place.ask("web", "set/deaf/true")
    place.kubectl("delete", "pod/web", "--wait=false")
    assert place.get("pod/web")["metadata"]["deletionTimestamp"]
    assert place.answers("web"), "it still serves"
    place.until(lambda: not place.exists("pod/web"), "gone")


def test_forced_deletion_ends_the_process_too(place):
    place.pod("web")
    place.until_up("web")
    pid = place.cluster.pod_process(place.namespace, "web")
    place.kubectl("delete", "pod/web", "--force", "--grace-period=0")
    assert not place.exists("pod/web")
    place.until(lambda: not Path(f"/proc/{pid}").exists(), "the process gone")
    with pytest.raises(UnknownPodError):
        place.cluster.pod_process(place.namespace, "web")


def test_pod_of_the_same_name_is_another_pod(place):
    place.pod("web")
    place.until_up("web")
    before = place.uid("web")
    place.kubectl("delete", "pod/web")
    place.pod("web")
    place.until_up("web")
    assert place.uid("web") != before
    assert place.container("web")["restartCount"] == 0
