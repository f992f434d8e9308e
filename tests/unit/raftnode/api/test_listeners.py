"""What each listener of a node serves, for every route and every set of listeners."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import get_args

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api.authorization import Gate
from raftnode.api.errors import not_leader
from raftnode.api.http import ApiLimits, Route
from raftnode.api.listeners import Listener, Part, Serving, part_of
from raftnode.api.model import ApiError
from raftnode.api.server import ApiServer, all_routes, make_app
from raftnode.client import QuorumClient, RefusedError
from raftnode.core.types import Endpoint
from raftnode.tls.material import ListenerName

CLIENT, ADMIN, METRICS = Listener.API, Listener.ADMIN, Listener.METRICS
ROUTES = all_routes(MemoryService(), ApiLimits(), CollectorRegistry())
SETS = [(CLIENT,), (CLIENT, ADMIN), (CLIENT, METRICS), (CLIENT, ADMIN, METRICS)]
ADMINISTRATION = {
    "addVoter",
    "removeVoter",
    "reassign",
    "cancelReassignment",
    "upgrade",
    "resign",
    "form",
    "join",
}


@asynccontextmanager
async def served(
    *listeners: Listener, service: MemoryService | None = None
) -> AsyncIterator[Mapping[Listener, Endpoint]]:
    """One node with these listeners."""
    addresses = {listener: Endpoint("127.0.0.1", 0) for listener in listeners}
    service = service or MemoryService()
    async with AsyncExitStack() as stack:
        for listener in listeners:
            app = make_app(
                service,
                registry=CollectorRegistry(),
                version="1",
                gate=Gate(service, serving=Serving(listener, addresses)),
            )
            server = ApiServer(app, shutdown_grace_ms=0)
            stack.push_async_callback(server.stop)
            addresses[listener] = await server.start(addresses[listener])
        yield addresses


async def ask(at: Endpoint, method: str, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{at}{path.replace('{key}', 'a')}") as answer,
    ):
        return answer.status, await answer.text()


def refusal_in(text: str) -> ApiError | None:
    return ApiError.model_validate_json(text) if text.startswith('{"error"') else None


def test_administration_is_every_change_of_voters_or_of_a_node() -> None:
    assert {
        route.operation_id for route in ROUTES if part_of(route) is Part.ADMINISTRATION
    } == ADMINISTRATION
    assert {route.path for route in ROUTES if part_of(route) is Part.METRICS} == {"/metrics"}


@pytest.mark.without("api.listeners:Serving.handler_of", "if not self.serves(part):", "if False:")
@pytest.mark.parametrize("listeners", SETS[1:], ids="-".join)
async def test_a_listener_refuses_each_route_of_another_and_names_it(
    listeners: tuple[Listener, ...],
) -> None:
    async with served(*listeners) as addresses:
        for listener, at in addresses.items():
            for route in ROUTES:
                await _check(Serving(listener, addresses), at, route)


async def _check(serving: Serving, at: Endpoint, route: Route) -> None:
    part, right = part_of(route), serving.listener_of(part_of(route))
    if route.operation_id == "session":
        return  # a session stays open; `test_sessions_are_of_the_client_listener`
    status, text = await ask(at, route.method, route.path)
    error = refusal_in(text)
    if serving.serves(part):
        assert error is None or error.error != "WRONG_LISTENER", (serving.listener, route.path)
        return
    assert status == 403
    assert error is not None
    assert error.error == "WRONG_LISTENER"
    assert error.outcome == "not_done"
    assert f"{serving.addresses[right]} ({right.replace('client', 'api')}_listen)" in error.message


async def test_the_metrics_listener_serves_metrics_and_health_and_nothing_else() -> None:
    async with served(CLIENT, METRICS) as addresses:
        answers = {
            route.path
            for route in ROUTES
            if (await ask(addresses[METRICS], route.method, route.path))[0] != 403
        }
        assert answers == {"/metrics", "/healthz/live", "/healthz/ready"}
        assert (await ask(addresses[METRICS], "GET", "/openapi.json"))[0] == 404
        # A probe of a node that moves its metrics still finds it alive where it looked before.
        assert (await ask(addresses[CLIENT], "GET", "/healthz/live"))[0] == 200
        assert (await ask(addresses[CLIENT], "GET", "/metrics"))[0] == 403


async def test_a_node_with_one_listener_serves_all_there() -> None:
    async with served(CLIENT) as addresses:
        for route in ROUTES:
            if route.operation_id != "session":
                _, text = await ask(addresses[CLIENT], route.method, route.path)
                error = refusal_in(text)
                assert error is None or error.error != "WRONG_LISTENER"


@pytest.mark.parametrize("listener", [ADMIN, METRICS])
async def test_sessions_are_of_the_client_listener(listener: Listener) -> None:
    async with served(CLIENT, listener) as addresses:
        _, text = await ask(addresses[listener], "GET", "/v1/session")
        error = refusal_in(text)
        assert error is not None
        assert error.error == "WRONG_LISTENER"


class Follower(MemoryService):
    """Refuses to resign as a node does that is not the leader."""

    async def resign(self, request: object) -> None:
        raise not_leader(self.key, Endpoint("127.0.0.1", 9))


@pytest.mark.without(
    "api.listeners:Serving.handler_of", "if self.listener is Listener.ADMIN:", "if False:"
)
async def test_administration_never_sends_a_client_to_the_listener_that_refuses_it() -> None:
    async with served(CLIENT, ADMIN, service=Follower()) as addresses:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{addresses[ADMIN]}/v1/quorum/resign", json={}) as answer,
        ):
            error = ApiError.model_validate(await answer.json())
        assert error.error == "NOT_LEADER"
        assert error.leader is not None
        assert error.leader_api is None


async def test_the_client_reports_the_right_listener_at_once() -> None:
    async with served(CLIENT, ADMIN) as addresses:
        async with QuorumClient([addresses[CLIENT]], timeout_ms=5000) as client:
            with pytest.raises(RefusedError, match=f"{addresses[ADMIN]}"):
                await client.resign_node(addresses[CLIENT])
        async with QuorumClient([addresses[ADMIN]], timeout_ms=5000) as client:
            await client.resign_node(addresses[ADMIN])


def test_the_listener_of_clients_has_one_name_in_all_metrics() -> None:
    assert set(get_args(ListenerName)) == {"peer", Listener.API.value}
