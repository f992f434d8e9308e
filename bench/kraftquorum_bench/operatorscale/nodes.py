"""The HTTP API of all simulated nodes, each at its own loopback address, in one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import BaseModel, ValidationError

from kraftquorum_bench.operatorscale.replicas import Disk, RefusedError, SimulatedQuorum
from kraftquorum_operator import names
from raftnode.api.model import (
    AddVoterRequest,
    ApiError,
    FormRequest,
    JoinRequest,
    NodeState,
    RemoveVoterRequest,
    ResignRequest,
)

BACKLOG = 128


@dataclass(slots=True)
class _Node:
    """A running node, and its listener."""

    quorum: SimulatedQuorum
    node_id: int
    listener: asyncio.Server
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set[asyncio.Transport] = field(default_factory=set[asyncio.Transport])


class SimulatedNodes:
    """All quorums, and the server of their nodes.

    Args:
        on_change: called after each change of a quorum's state.
    """

    def __init__(self, on_change: Callable[[SimulatedQuorum], None]) -> None:
        self.quorums: dict[tuple[str, str], SimulatedQuorum] = {}
        self.requests = 0
        self._on_change = on_change
        self._nodes: dict[str, _Node] = {}
        self._server: web.Server | None = None

    def quorum(self, namespace: str, name: str) -> SimulatedQuorum:
        """The quorum of a resource, with no node at first."""
        return self.quorums.setdefault((namespace, name), SimulatedQuorum(namespace, name))

    async def start(self, quorum: SimulatedQuorum, node_id: int, address: str, disk: Disk) -> None:
        """Start a node; it listens when this returns."""
        if self._server is None:
            self._server = web.Server(self._answer, access_log=None, handler_cancellation=True)
        listener = await asyncio.get_running_loop().create_server(
            self._server, address, names.API_PORT, backlog=BACKLOG
        )
        self._nodes[address] = _Node(quorum, node_id, listener)
        quorum.start(node_id, disk)
        self._tell(quorum)

    def stop(self, address: str) -> None:
        """End a node: its connections break, as those of a process that has ended."""
        node = self._nodes.pop(address, None)
        if node is None:
            return
        node.listener.close()
        for connection in node.connections:
            connection.abort()
        node.quorum.stop(node.node_id)
        self._tell(node.quorum)

    async def close(self) -> None:
        """End all nodes."""
        for address in list(self._nodes):
            self.stop(address)
        if self._server is not None:
            await self._server.shutdown(1)

    def _tell(self, quorum: SimulatedQuorum) -> None:
        for node in self._nodes.values():
            if node.quorum is quorum:
                node.changed.set()
                node.changed = asyncio.Event()
        self._on_change(quorum)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        transport = request.transport
        node = None
        if isinstance(transport, asyncio.Transport):
            node = self._nodes.get(transport.get_extra_info("sockname")[0])
        if node is None or transport is None:
            return web.Response(status=503)
        node.connections.add(transport)
        try:
            answer = await self._route(node, request)
        except RefusedError as error:
            return _refuse(409, error.error, str(error))
        except ValidationError as error:
            return _refuse(400, "INVALID_REQUEST", str(error))
        if answer is None:
            return _refuse(404, "NOT_FOUND", f"no {request.method} {request.path}")
        return web.Response(body=answer.model_dump_json(), content_type="application/json")

    async def _route(self, node: _Node, request: web.BaseRequest) -> BaseModel | None:
        quorum, node_id = node.quorum, node.node_id
        match request.method, request.path:
            case "GET", "/v1/node":
                return quorum.node(node_id)
            case "GET", "/v1/quorum":
                return quorum.quorum(node_id)
            case "GET", "/v1/node/state":
                return await self._state(node, request)
            case "POST", _:
                answer = self._change(node, request.path, await request.read())
                self._tell(quorum)
                return answer
            case _:
                return None

    def _change(self, node: _Node, path: str, body: bytes) -> BaseModel | None:
        quorum, node_id = node.quorum, node.node_id
        match path:
            case "/v1/form":
                return quorum.form(node_id, FormRequest.model_validate_json(body))
            case "/v1/join":
                return quorum.join(node_id, JoinRequest.model_validate_json(body).cluster_id)
            case "/v1/quorum/voters":
                return quorum.add_voter(node_id, AddVoterRequest.model_validate_json(body))
            case "/v1/quorum/voters/remove":
                return quorum.remove_voter(node_id, RemoveVoterRequest.model_validate_json(body))
            case "/v1/quorum/resign":
                quorum.resign(node_id, ResignRequest.model_validate_json(body).preferred)
                return quorum.node(node_id)
            case _:
                return None

    async def _state(self, node: _Node, request: web.BaseRequest) -> NodeState:
        """Answer once the state is not the known one, or after as long as the request allows."""
        end_s = time.monotonic() + int(request.query.get("max_wait_ms", "0")) / 1000
        while (
            node.quorum.state(node.node_id) == request.query.get("known", "")
            and (left_s := end_s - time.monotonic()) > 0
        ):
            try:
                async with asyncio.timeout(left_s):
                    await node.changed.wait()
            except TimeoutError:
                break
        return NodeState(state=node.quorum.state(node.node_id))


def _refuse(status: int, error: str, message: str) -> web.Response:
    refused = ApiError(error=error, message=message, outcome="not_done")
    return web.json_response(text=refused.model_dump_json(), status=status)
