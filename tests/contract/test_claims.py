"""Claims: bound with their first pod, held by it, kept without it."""

import urllib.error

import pytest


def write(place, pod, text):
    place.ask(pod, "write", path=place.ask(pod, "env")["DATA"] + "/kept", text=text)


def read(place, pod):
    return place.ask(pod, "read", path=place.ask(pod, "env")["DATA"] + "/kept")


def phase(place, claim):
    return place.get(f"pvc/{claim}")["status"]["phase"]


def test_claim_is_bound_when_its_first_pod_comes(place):
    place.claim("data")
    assert phase(place, "data") == "Pending"
    place.pod("web", claim="data")
    place.until_up("web")
    claim = place.get("pvc/data")
    assert claim["status"]["phase"] == "Bound"
    assert claim["status"]["accessModes"] == ["ReadWriteOnce"]
    volume = place.get(f"pv/{claim['spec']['volumeName']}")
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"]
    assert volume["spec"]["nodeAffinity"]


def test_data_outlives_the_pod_and_goes_with_the_claim(place):
    place.claim("data")
    place.pod("web", claim="data")
    place.until_up("web")
    write(place, "web", "something")
    node = place.get("pod/web")["spec"]["nodeName"]
    place.kubectl("delete", "pod/web")
    assert phase(place, "data") == "Bound"
    place.pod("web", claim="data")
    place.until_up("web")
    assert read(place, "web") == "something"
    assert place.get("pod/web")["spec"]["nodeName"] == node, "a local volume holds its pod"
    volume = place.get("pvc/data")["spec"]["volumeName"]
    directory = place.cluster.volume_dir(place.namespace, "data")
    place.kubectl("delete", "pod/web")
    place.kubectl("delete", "pvc/data")
    place.until(lambda: not place.exists(f"pv/{volume}"), "the volume gone")
    place.until(lambda: not directory.exists(), "its directory gone")


def test_claim_is_held_while_a_pod_uses_it(place):
    place.claim("data")
    place.pod("web", claim="data")
    place.until_up("web")
    write(place, "web", "something")
    assert "kubernetes.io/pvc-protection" in place.get("pvc/data")["metadata"]["finalizers"]
    place.kubectl("delete", "pvc/data", "--wait=false")
    assert place.get("pvc/data")["metadata"]["deletionTimestamp"]
    assert phase(place, "data") == "Bound"
    assert read(place, "web") == "something"
    place.kubectl("delete", "pod/web")
    place.until(lambda: not place.exists("pvc/data"), "released")


def test_pod_does_not_start_on_a_claim_that_is_going(place):
    place.claim("data")
    place.pod("first", claim="data")
    place.until_up("first")
    place.kubectl("delete", "pvc/data", "--wait=false")
    place.pod("second", claim="data")
    place.until(
        lambda: place.condition("second", "PodScheduled").get("reason") == "Unschedulable",
        "unschedulable",
    )
    assert "being deleted" in place.condition("second", "PodScheduled")["message"]
    assert place.phase("second") == "Pending"


def test_claim_of_nobodys_class_leaves_its_pod_waiting(place):
    place.claim("foreign", storageClassName="another-provisioners")
    place.pod("web", claim="foreign")
    place.until(
        lambda: place.condition("web", "PodScheduled").get("reason") == "Unschedulable",
        "unschedulable",
    )
    assert phase(place, "foreign") == "Pending"
    assert place.phase("web") == "Pending"


def test_wiping_claim_first_then_pod_gives_an_empty_volume(place):
    place.stateful_set(1)
    place.until_up("web-0")
    write(place, "web-0", "old")
    claim = place.get("pvc/data-web-0")["metadata"]["uid"]
    pod = place.uid("web-0")
    place.kubectl("delete", "pvc/data-web-0", "--wait=false")
    place.kubectl("delete", "pod/web-0", "--wait=false")
    place.until_replaced("web-0", pod)
    assert place.get("pvc/data-web-0")["metadata"]["uid"] != claim
    with pytest.raises(urllib.error.HTTPError):
        read(place, "web-0")


def test_volume_that_is_emptied_under_its_pod_is_empty_in_there(place):
    place.claim("data")
    place.pod("web", claim="data")
    place.until_up("web")
    write(place, "web", "something")
    for file in place.cluster.volume_dir(place.namespace, "data").iterdir():
        file.unlink()
    with pytest.raises(urllib.error.HTTPError):
        read(place, "web")
