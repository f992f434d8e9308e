"""The cluster's keys and issuer, from a server that is as strict about types as the API server."""

from __future__ import annotations

from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.model.access import QuorumAccess
from kraftquorum_operator.model.access_facts import ClusterKeys
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.observe.access import DISCOVERY_URL, KEYS_URL, read_access

SERVED = {
    KEYS_URL: ("application/jwk-set+json", b'{"keys": [{"kid": "1"}]}'),
    DISCOVERY_URL: ("application/json", b'{"issuer": "https://i"}'),
}
ACCESS = QuorumAccess.model_validate(
    {
        "clients": [
            {"name": "a", "roles": ["read"], "serviceAccount": {"namespace": "n", "name": "a"}}
        ]
    }
)


async def answer(request: web.Request) -> web.Response:
    """As the API server: a type that it does not serve at this path is refused, in plain text."""
    if request.path not in SERVED:
        details = {"name": request.path.rpartition("/")[2]}
        return web.json_response({"reason": "NotFound", "details": details}, status=404)
    kind, body = SERVED[request.path]
    accepted = {part.partition(";")[0].strip() for part in request.headers["Accept"].split(",")}
    if not accepted & {kind, "*/*"}:
        return web.Response(status=406, text="406: Not Acceptable")
    return web.Response(body=body, content_type=kind)


async def test_the_keys_are_read_in_the_type_that_the_api_server_publishes() -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = KubeClient(
        Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"), timeout_s=5
    )
    try:
        read = await read_access(client, Owner("test", "demo", "uid"), ACCESS, ())
    finally:
        await client.close()
        await runner.cleanup()
    assert read.facts is not None
    assert read.facts.keys == ClusterKeys('{"keys": [{"kid": "1"}]}', "https://i")
