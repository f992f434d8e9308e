import asyncio

import pytest

from kraftquorum_devcluster.faultproxy.rules import (
    CutWatch,
    Delay,
    Gate,
    RequestFacts,
    Rule,
    SilenceWatch,
)
from kraftquorum_devcluster.faultproxy.watch_filter import WatchFilter

PODS = "/api/v1/namespaces/ns/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "verb"),
    [
        ("GET", PODS, {}, "list"),
        ("GET", PODS + "/web-0", {}, "get"),
        ("GET", PODS + "/web-0/log", {}, "get"),
        ("GET", PODS, {"watch": "1"}, "watch"),
        ("GET", PODS, {"watch": "true"}, "watch"),
        ("GET", "/api/v1/pods", {}, "list"),
        ("GET", "/api/v1/nodes/n", {}, "get"),
        ("GET", "/api/v1/namespaces", {}, "list"),
        ("GET", "/api/v1/namespaces/ns", {}, "get"),
        ("GET", "/apis/apps/v1/namespaces/ns/statefulsets", {}, "list"),
        ("GET", "/apis/apps/v1/namespaces/ns/statefulsets/web", {}, "get"),
        ("GET", "/apis/apps/v1", {}, "get"),
        ("GET", "/version", {}, "get"),
        ("POST", PODS, {}, "create"),
        ("PUT", PODS + "/web-0", {}, "update"),
        ("PATCH", PODS + "/web-0/status", {}, "patch"),
        ("DELETE", PODS + "/web-0", {}, "delete"),
        ("DELETE", PODS, {}, "deletecollection"),
    ],
)
def test_verbs_are_those_of_the_api_server(method, path, query, verb):
    assert RequestFacts.of(method, path, query).verb == verb


def test_rule_matches_verb_and_path_and_counts():
    rule = Rule(Delay(0), verb="delete", path=r"/pods/web-\d$", times=2, skip=1)
    hit = RequestFacts("delete", PODS + "/web-0")
    assert not rule.take(RequestFacts("get", PODS + "/web-0"))
    assert not rule.take(RequestFacts("delete", PODS + "/other"))
    assert [rule.take(hit) for _ in range(4)] == [False, True, True, False]
    assert rule.hits == 2


def test_watch_effects_hit_watches_only():
    rule = Rule(CutWatch(after_events=1))
    assert not rule.take(RequestFacts("list", PODS))
    assert rule.take(RequestFacts("watch", PODS))


def test_wrong_rules_are_refused_when_made():
    with pytest.raises(ValueError, match="verb 'DELETE'"):
        Rule(Delay(0), verb="DELETE")


def test_removed_rule_hits_nothing_and_opens_its_gate():
    async def scenario():
        gate = Gate()
        rule = Rule(gate)
        request = RequestFacts("get", PODS)
        assert rule.take(request)
        rule.remove()
        assert not rule.take(request)
        await asyncio.wait_for(gate.hold(request), 1)
        assert await gate.arrived() == request

    asyncio.run(scenario())


def test_gate_that_no_request_reaches_times_out():
    with pytest.raises(TimeoutError):
        asyncio.run(Gate().arrived(timeout_s=0.01))


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_watch_is_cut_after_whole_events(chunk):
    watch_filter = WatchFilter([CutWatch(after_events=2)], [])
    data = b"one\ntwo\nthree\n"
    passed = b""
    for start in range(0, len(data), chunk):
        passed += watch_filter.feed(data[start : start + chunk])
    assert passed == b"one\ntwo\n"
    assert watch_filter.cut


def test_watch_is_cut_after_bytes():
    watch_filter = WatchFilter([CutWatch(after_bytes=5)], [])
    assert watch_filter.feed(b"one\ntwo\n") == b"one\nt"
    assert watch_filter.cut
    assert WatchFilter([CutWatch(after_events=0)], []).cut


def test_silent_watch_stays_open():
    watch_filter = WatchFilter([], [SilenceWatch(after_events=1)])
    assert watch_filter.feed(b"one\ntwo\n") + watch_filter.feed(b"three\n") == b"one\n"
    assert not watch_filter.cut
