"""StatefulSets: started together, replaced one by one on demand, found by name."""


def names(place):
    return {
        pod["metadata"]["name"]
        for pod in place.get("pods")["items"]
        if not pod["metadata"].get("deletionTimestamp")
    }


def test_replicas_start_together_though_none_is_ready(place):
    place.stateful_set(3, {"env": [{"name": "START_UNREADY", "value": "1"}]})
    for pod in ("web-0", "web-1", "web-2"):
        place.until(lambda pod=pod: place.phase(pod) == "Running", f"{pod} running")
    assert place.ready_replicas() == 0
    addresses = {place.status(f"web-{ordinal}")["podIP"] for ordinal in range(3)}
    assert len(addresses) == 3


def test_names_are_found_before_their_pods_are_ready(place):
    place.stateful_set(2, {"env": [{"name": "START_UNREADY", "value": "1"}]})
    for pod in ("web-0", "web-1"):
        place.until(
            lambda pod=pod: place.status(pod).get("podIP") and place.answers(pod), f"{pod} up"
        )
    address = place.status("web-1")["podIP"]
    for name in (f"web-1.web.{place.namespace}.svc.cluster.local", "web-1.web"):

        def found(name=name):
            try:
                return place.ask("web-0", "resolve", name=name) == [address]
            except OSError:
                return False

        place.until(found, f"{name} resolved")
    assert place.ready_replicas() == 0


def test_name_follows_a_pod_that_was_recreated(place):
    place.stateful_set(2)
    place.until_up("web-0", "web-1")
    before = place.uid("web-1")
    place.kubectl("delete", "pod/web-1", "--wait=false")
    place.until_replaced("web-1", before)

    def current():
        try:
            found = place.ask("web-0", "resolve", name="web-1.web")
        except OSError:
            return False
        return found == [place.status("web-1")["podIP"]]

    place.until(current, "the new address")


def test_changed_template_waits_for_the_pods_deletion(place):
    place.stateful_set(2)
    place.until_up("web-0", "web-1")
    before = {pod: place.uid(pod) for pod in ("web-0", "web-1")}
    place.kubectl("set", "env", "statefulset/web", "GENERATION=2")
    place.until(
        lambda: (
            (status := place.get("statefulset/web")["status"])["updateRevision"]
            != status["currentRevision"]
        ),
        "a new revision",
    )
    assert {pod: place.uid(pod) for pod in before} == before
    # Not kubectl's own wait: on a busy machine it ran out twice, whatever it waited for.
    place.kubectl("delete", "pod/web-0", "--wait=false")
    place.until_replaced("web-0", before["web-0"])
    assert place.ask("web-0", "env").get("GENERATION") == "2"
    assert "GENERATION" not in place.ask("web-1", "env")


def test_scaling_down_keeps_the_claim_and_up_finds_the_data(place):
    place.stateful_set(2)
    place.until_up("web-0", "web-1")
    (place.cluster.volume_dir(place.namespace, "data-web-1") / "kept").write_text("yes")
    place.kubectl("scale", "statefulset/web", "--replicas=1")
    place.until(lambda: names(place) == {"web-0"}, "one pod")
    place.until(lambda: not place.exists("pod/web-1"), "the other gone")
    assert place.get("pvc/data-web-1")["status"]["phase"] == "Bound"
    place.kubectl("scale", "statefulset/web", "--replicas=2")
    place.until_up("web-1")
    data = place.ask("web-1", "env")["DATA"]
    assert place.ask("web-1", "read", path=f"{data}/log").startswith("up\n")
    assert (place.cluster.volume_dir(place.namespace, "data-web-1") / "kept").read_text() == "yes"
