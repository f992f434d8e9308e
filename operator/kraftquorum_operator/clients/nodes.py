"""The replicas' HTTP API, as the operator uses it, on `raftnode.client`.

Replicas are reached at their pods' addresses, never by DNS, since the operator
may run outside the cluster. Each address has a client of its own that knows no
other, so that what is meant for one replica is never carried on to another.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from kraftquorum_operator.errors import NodeRefusedError, NodeUnreachableError
from raftnode.api.model import (
    AddVoterRequest,
    FormRequest,
    JoinRequest,
    NodeInfo,
    QuorumInfo,
    RemoveVoterRequest,
    ResignRequest,
)
from raftnode.client import ClientError, OutcomeUnknownError, QuorumClient, RefusedError
from raftnode.core.types import Endpoint

CLIENTS_MAX = 64
"""Clients that are kept open; addresses of pods that are gone fall out."""


class NodeApi(Protocol):
    """What a replica can be asked. Every method raises `NodeError` (see `errors.py`)."""

    async def node(self, address: str) -> NodeInfo:
        """What the replica knows of itself."""
        ...

    async def quorum(self, address: str) -> QuorumInfo:
        """DescribeQuorum, confirmed by a majority; only the leader answers."""
        ...

    async def form(self, address: str, request: FormRequest) -> None:
        """Send the latch to a blank replica."""
        ...

    async def join(self, address: str, request: JoinRequest) -> None:
        """Send the cluster id to a blank replica."""
        ...

    async def add_voter(self, address: str, request: AddVoterRequest) -> None:
        """AddVoter; returns once it is committed."""
        ...

    async def remove_voter(self, address: str, request: RemoveVoterRequest) -> None:
        """RemoveVoter; returns once it is committed."""
        ...

    async def resign(self, address: str, request: ResignRequest) -> None:
        """Have the leader hand over."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpNodes:
    """`NodeApi` over one `QuorumClient` for each address."""

    def __init__(self, timeout_s: float) -> None:
        self.on_request: Callable[[str, str, float], None] = lambda _asked, _result, _seconds: None
        """Told of each request: what was asked, what came of it, and how long it took."""
        self._timeout_ms = int(timeout_s * 1000)
        self._clients: dict[str, QuorumClient] = {}

    async def close(self) -> None:
        """Close all connections."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.__aexit__(None, None, None)

    async def node(self, address: str) -> NodeInfo:
        """What the replica knows of itself."""
        async with self._at(address, "node") as client:
            return await client.describe_node(Endpoint.parse(address))

    async def quorum(self, address: str) -> QuorumInfo:
        """DescribeQuorum, confirmed by a majority; only the leader answers."""
        async with self._at(address, "quorum") as client:
            return await client.describe_quorum(confirmed=True)

    async def form(self, address: str, request: FormRequest) -> None:
        """Send the latch to a blank replica."""
        async with self._at(address, "form") as client:
            await client.form(Endpoint.parse(address), request)

    async def join(self, address: str, request: JoinRequest) -> None:
        """Send the cluster id to a blank replica."""
        async with self._at(address, "join") as client:
            await client.join(Endpoint.parse(address), request)

    async def add_voter(self, address: str, request: AddVoterRequest) -> None:
        """AddVoter; returns once it is committed."""
        async with self._at(address, "add_voter") as client:
            await client.add_voter(
                request.voter,
                request.expected,
                replaces=request.replaces,
                timeout_ms=request.timeout_ms,
            )

    async def remove_voter(self, address: str, request: RemoveVoterRequest) -> None:
        """RemoveVoter; returns once it is committed."""
        async with self._at(address, "remove_voter") as client:
            await client.remove_voter(
                request.voter, request.expected, timeout_ms=request.timeout_ms
            )

    async def resign(self, address: str, request: ResignRequest) -> None:
        """Have the leader hand over."""
        async with self._at(address, "resign") as client:
            await client.resign(preferred=request.preferred)

    @asynccontextmanager
    async def _at(self, address: str, asked: str) -> AsyncGenerator[QuorumClient]:
        """The client of an address, with its errors as the operator's."""
        result, started = "cancelled", time.monotonic()
        client = self._clients.pop(address, None)
        if client is None:
            client = await QuorumClient(
                [Endpoint.parse(address)],
                timeout_ms=self._timeout_ms,
                attempt_timeout_ms=self._timeout_ms,
                connect_timeout_ms=self._timeout_ms,
            ).__aenter__()
        self._clients[address] = client  # last used, last out
        if len(self._clients) > CLIENTS_MAX:
            oldest = next(iter(self._clients))
            await self._clients.pop(oldest).__aexit__(None, None, None)
        try:
            yield client
            result = "done"
        except RefusedError as error:
            result = "refused"
            raise NodeRefusedError(error.error, str(error)) from error
        except OutcomeUnknownError as error:
            result = "unknown"
            raise NodeUnreachableError(str(error), outcome="unknown") from error
        except ClientError as error:
            result = "unreachable"
            raise NodeUnreachableError(str(error)) from error
        finally:
            self.on_request(asked, result, time.monotonic() - started)
