"""The fault-injecting proxy before a real API server."""

import asyncio
import json
import time

import aiohttp
import pytest

from kraftquorum_devcluster.connections import TlsConnector
from kraftquorum_devcluster.faultproxy import FaultProxy
from kraftquorum_devcluster.faultproxy.rules import CutWatch, Delay, Drop, SilenceWatch, StaleAnswer

pytestmark = pytest.mark.cluster


@pytest.fixture
async def proxy(devcluster):
    async with FaultProxy(devcluster) as proxy:
        yield proxy


@pytest.fixture
async def client(devcluster, proxy):
    connector = TlsConnector(devcluster.ca_file)
    headers = {"Authorization": f"Bearer {devcluster.token}"}
    async with aiohttp.ClientSession(
        proxy.server_url, connector=connector, headers=headers
    ) as session:
        yield session


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def path(namespace, name=""):
    return f"/api/v1/namespaces/{namespace}/configmaps{'/' if name else ''}{name}"


async def create(client, namespace, name):
    async with client.post(path(namespace), json=config_map(name)) as answer:
        return answer.status


async def names(client, namespace):
    async with client.get(path(namespace)) as answer:
        items = (await answer.json())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}


async def test_kubectl_works_through_the_proxy(devcluster, proxy, namespace):
    output = await devcluster.kubectl_async(
        f"--kubeconfig={proxy.kubeconfig}", "create", "configmap", "a", "-n", namespace
    )
    assert "created" in output
    entry = next(proxy.matching(verb="create", path="configmaps"))
    assert entry.status == 201
    assert b"ConfigMap" in entry.request.body


async def test_failures_hit_what_matches_and_only_so_often(proxy, client, namespace):
    rule = proxy.fail(409, verb="create", path="/configmaps", times=2, skip=1)
    assert [await create(client, namespace, f"m{n}") for n in range(4)] == [201, 409, 409, 201]
    assert rule.hits == 2
    assert await names(client, namespace) == {"m0", "m3"}


@pytest.mark.parametrize("status", [409, 410, 429, 500])
async def test_errors_carry_a_kubernetes_status(proxy, client, namespace, status):
    proxy.fail(status, verb="list", retry_after_s=1)
    async with client.get(path(namespace)) as answer:
        body = await answer.json()
        assert answer.status == body["code"] == status
        assert body["kind"] == "Status"
        assert answer.headers["Retry-After"] == "1"


async def test_delay(proxy, client, namespace):
    proxy.add(Delay(0.3), verb="list", times=1)
    begun = time.monotonic()
    await names(client, namespace)
    assert time.monotonic() - begun >= 0.3


async def test_drop_before_and_after_the_write(proxy, client, namespace):
    proxy.add(Drop(), verb="create", times=1)
    with pytest.raises(aiohttp.ClientError):
        await create(client, namespace, "never")
    proxy.add(Drop(after=True), verb="create", times=1)
    with pytest.raises(aiohttp.ClientError):
        await create(client, namespace, "unheard")
    assert await names(client, namespace) == {"unheard"}


async def test_gate_holds_a_request_until_released(proxy, client, namespace):
    gate = proxy.gate(verb="create", path="/configmaps", times=1)
    async with asyncio.TaskGroup() as group:
        held = group.create_task(create(client, namespace, "held"))
        request = await gate.arrived()
        assert request.verb == "create"
        assert await create(client, namespace, "other") == 201
        assert await names(client, namespace) == {"other"}
        assert not held.done()
        gate.release()
    assert held.result() == 201


async def test_gate_after_holds_the_answer_of_a_write_that_took_effect(proxy, client, namespace):
    gate = proxy.gate(verb="create", times=1, after=True)
    async with asyncio.TaskGroup() as group:
        held = group.create_task(create(client, namespace, "done"))
        await gate.arrived()
        assert await names(client, namespace) == {"done"}
        assert not held.done()
        gate.release()


async def test_stale_list_repeats_an_earlier_answer(proxy, client, namespace):
    await create(client, namespace, "old")
    assert await names(client, namespace) == {"old"}
    rule = proxy.add(StaleAnswer(), verb="list", path=namespace)
    await create(client, namespace, "new")
    assert await names(client, namespace) == {"old"}
    rule.remove()
    assert await names(client, namespace) == {"old", "new"}


async def watched(client, namespace, seconds):
    """Event types until the stream ends, and how it ended."""
    seen = []
    params = {"watch": "1", "resourceVersion": "0"}
    try:
        async with asyncio.timeout(seconds), client.get(path(namespace), params=params) as answer:
            async for line in answer.content:
                event = json.loads(line)
                seen.append(event["object"]["metadata"]["name"])
    except aiohttp.ClientError:
        return seen, "broken"
    except TimeoutError:
        return seen, "silent"
    return seen, "ended"


async def test_watch_passes_unbuffered_and_can_be_cut(proxy, client, namespace):
    await names(client, namespace)
    proxy.add(CutWatch(after_events=3), path=namespace)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watched(client, namespace, 10))
        await asyncio.sleep(0.2)
        for n in range(5):
            await create(client, namespace, f"m{n}")
    seen, how = watch.result()
    assert how == "broken"
    assert len(seen) == 3


async def test_watch_can_be_silenced(proxy, client, namespace):
    proxy.add(SilenceWatch(), path=namespace)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watched(client, namespace, 1))
        await asyncio.sleep(0.2)
        await create(client, namespace, "unseen")
    assert watch.result() == ([], "silent")
