"""The replicas' HTTP API, as the operator uses it, on `raftnode.client`.

Replicas are reached at their pods' addresses, never by DNS, since the operator
may run outside the cluster. Each address has a client of its own that knows no
other, so that what is meant for one replica is never carried on to another.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from kraftquorum_operator.clients.attention import attended
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

IDLE_MAX = 512
"""Clients that are kept open while no request uses them; those that are in use do not count."""

IDLE_S = 60.0
"""A client that no request has used for so long is closed: its pod may be gone."""

PATIENCE = 8
"""The clients' own time-outs for a read, in time-outs of ours: `attended` ends it before, unless
this process is so late that it could not have heard an answer."""


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

    async def state(self, address: str, known: str, max_wait_s: float) -> str:
        """The replica's state, once it is no longer the known one or after so long."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(slots=True)
class _Kept:
    """An open client and how many requests use it now."""

    client: QuorumClient
    users: int = 0
    idle_since_s: float = 0.0


class HttpNodes:
    """`NodeApi` over one `QuorumClient` for each address.

    Invariant: a client is closed only while no request uses it, or by `close`.
    """

    def __init__(self, timeout_s: float) -> None:
        self.on_request: Callable[[str, str, float], None] = lambda _asked, _result, _seconds: None
        """Told of each request: what was asked, what came of it, and how long it took."""
        self._timeout_s = timeout_s
        self._timeout_ms = int(timeout_s * 1000)
        self._used: dict[str, _Kept] = {}
        self._idle: OrderedDict[str, _Kept] = OrderedDict()
        """The one that is idle longest comes first."""

    async def close(self) -> None:
        """Close all connections."""
        for kept in (*self._used.values(), *self._idle.values()):
            await kept.client.__aexit__(None, None, None)
        self._used.clear()
        self._idle.clear()

    async def node(self, address: str) -> NodeInfo:
        """What the replica knows of itself."""
        async with self._at(address, "node") as client, attended(self._timeout_s):
            return await client.describe_node(Endpoint.parse(address))

    async def quorum(self, address: str) -> QuorumInfo:
        """DescribeQuorum, confirmed by a majority; only the leader answers."""
        async with self._at(address, "quorum") as client, attended(self._timeout_s):
            return await client.describe_quorum(confirmed=True)

    async def form(self, address: str, request: FormRequest) -> None:
        """Send the latch to a blank replica."""
        async with self._at(address, "form") as client:
            await client.form(Endpoint.parse(address), request, timeout_ms=self._timeout_ms)

    async def join(self, address: str, request: JoinRequest) -> None:
        """Send the cluster id to a blank replica."""
        async with self._at(address, "join") as client:
            await client.join(Endpoint.parse(address), request, timeout_ms=self._timeout_ms)

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
            await client.resign(preferred=request.preferred, timeout_ms=self._timeout_ms)

    async def state(self, address: str, known: str, max_wait_s: float) -> str:
        """The replica's state, once it is no longer the known one or after so long.

        Not among the requests that are counted: it takes as long as it is asked to.
        """
        wait_ms = int(max_wait_s * 1000)
        async with self._at(address, None) as client:
            answer = await client.node_state(
                Endpoint.parse(address),
                known=known,
                max_wait_ms=wait_ms,
                timeout_ms=wait_ms + PATIENCE * self._timeout_ms,
            )
            return answer.state

    @asynccontextmanager
    async def _at(self, address: str, asked: str | None) -> AsyncGenerator[QuorumClient]:
        """The client of an address, with its errors as the operator's."""
        result, started = "cancelled", time.monotonic()
        kept = await self._borrow(address)
        try:
            yield kept.client
            result = "done"
        except RefusedError as error:
            result = "refused"
            raise NodeRefusedError(error.error, str(error)) from error
        except OutcomeUnknownError as error:
            result = "unknown"
            raise NodeUnreachableError(str(error), outcome="unknown") from error
        except TimeoutError as error:
            result = "unreachable"
            msg = f"{address} did not answer within {self._timeout_ms} ms"
            raise NodeUnreachableError(msg) from error
        except ClientError as error:
            result = "unreachable"
            raise NodeUnreachableError(str(error)) from error
        finally:
            if asked is not None:
                self.on_request(asked, result, time.monotonic() - started)
            await self._give_back(address, kept)

    async def _borrow(self, address: str) -> _Kept:
        """The client of an address; it stays open until it is given back."""
        kept = self._used.get(address) or self._idle.pop(address, None)
        if kept is None:
            patience_ms = PATIENCE * self._timeout_ms
            opened = await QuorumClient(
                [Endpoint.parse(address)],
                timeout_ms=patience_ms,
                attempt_timeout_ms=patience_ms,
                connect_timeout_ms=patience_ms,
                keepalive=True,
            ).__aenter__()
            kept = _Kept(opened)
        self._used[address] = kept
        kept.users += 1
        return kept

    async def _give_back(self, address: str, kept: _Kept) -> None:
        """Let go of a client; close those that have been idle for long, or are too many."""
        kept.users -= 1
        if kept.users == 0 and self._used.pop(address, None) is kept:
            kept.idle_since_s = time.monotonic()
            self._idle[address] = kept
        while self._idle:
            oldest, first = next(iter(self._idle.items()))
            age_s = time.monotonic() - first.idle_since_s
            if len(self._idle) <= IDLE_MAX and age_s < IDLE_S:
                break
            del self._idle[oldest]
            await first.client.__aexit__(None, None, None)
