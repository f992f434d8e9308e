"""The replicas' HTTP API, as the operator uses it, on `raftnode.client`.

Replicas are reached at their pods' addresses, never by DNS, since the operator
may run outside the cluster. Each address has a client of its own that knows no
other, so that a request for one replica never reaches another.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from kraftquorum_operator.clients.node_access import AccessFiles, NodeAccess
from kraftquorum_operator.clients.process_timeout import process_timeout
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
from raftnode.client import (
    ClientError,
    ClientSettings,
    Credentials,
    CredentialsError,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
)
from raftnode.core.types import Endpoint

IDLE_MAX = 512
"""How many clients stay open while no request uses them."""

IDLE_S = 60.0
"""How long a client stays open without a request; its pod may be deleted."""

CLIENT_TIMEOUT_FACTOR = 8
"""The clients' own timeouts are this many times the operator's, so that `process_timeout` ends a
request first, except while this process is too slow to receive an answer."""


class NodeApi(Protocol):
    """The requests to a replica. Every method raises `NodeError` (see `errors.py`)."""

    def of(self, quorum: str) -> NodeApi:
        """The same for the replicas of one quorum, reached as `secure` says for that quorum.

        Args:
            quorum: its namespace and name.
        """
        ...

    def secure(self, quorum: str, accesses: Mapping[str, NodeAccess]) -> None:
        """Use TLS for these addresses of a quorum from now on, and for no other of it.

        Args:
            quorum: its namespace and name.
            accesses: by address.
        """
        ...

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
        """Have the leader transfer its leadership."""
        ...

    async def state(self, address: str, known: str, max_wait_s: float) -> str:
        """The replica's state, once it is no longer the known one or after so long."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(slots=True)
class _PooledClient:
    """An open client and how many requests use it now."""

    client: QuorumClient
    files: AccessFiles | None
    """Kept as long as the client reads them."""
    users: int = 0
    idle_since_s: float = 0.0


Key = tuple[str, NodeAccess | None]
"""An address, and how it is reached: with new credentials it has a new client."""


class HttpNodes:
    """`NodeApi` over one `QuorumClient` for each address.

    A pod of one quorum may have the address that a pod of another had, so each quorum's credentials
    are used by its own requests alone (`of`).

    Invariant: a client is closed only while no request uses it, or by `close`.
    """

    def __init__(self, timeout_s: float) -> None:
        self.on_request: Callable[[str, str, float], None] = lambda _name, _result, _seconds: None
        """Called after each request with its name, its result and its seconds."""
        self._timeout_s = timeout_s
        self._timeout_ms = int(timeout_s * 1000)
        self._used: dict[Key, _PooledClient] = {}
        self._idle: OrderedDict[Key, _PooledClient] = OrderedDict()
        """By how long they have been idle, longest first."""
        self._accesses: dict[str, Mapping[str, NodeAccess]] = {}
        """By quorum and address."""
        self._quorum = ""

    def of(self, quorum: str) -> HttpNodes:
        """The same for the replicas of one quorum; its connections are among those of all."""
        nodes = HttpNodes(self._timeout_s)
        nodes.on_request = self.on_request
        nodes._used, nodes._idle, nodes._accesses = self._used, self._idle, self._accesses
        nodes._quorum = quorum
        return nodes

    def secure(self, quorum: str, accesses: Mapping[str, NodeAccess]) -> None:
        """Use TLS for these addresses of a quorum from now on, and for no other of it."""
        if accesses:
            self._accesses[quorum] = accesses
        else:
            self._accesses.pop(quorum, None)

    def _access(self, address: str) -> NodeAccess | None:
        return self._accesses.get(self._quorum, {}).get(address)

    async def close(self) -> None:
        """Close all connections."""
        for pooled in (*self._used.values(), *self._idle.values()):
            await pooled.client.__aexit__(None, None, None)
        self._used.clear()
        self._idle.clear()

    async def node(self, address: str) -> NodeInfo:
        """What the replica knows of itself."""
        async with self._at(address, "node") as client, process_timeout(self._timeout_s):
            return await client.describe_node(Endpoint.parse(address))

    async def quorum(self, address: str) -> QuorumInfo:
        """DescribeQuorum, confirmed by a majority; only the leader answers."""
        async with self._at(address, "quorum") as client, process_timeout(self._timeout_s):
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
        """Have the leader transfer its leadership."""
        async with self._at(address, "resign") as client:
            await client.resign(preferred=request.preferred, timeout_ms=self._timeout_ms)

    async def state(self, address: str, known: str, max_wait_s: float) -> str:
        """The replica's state, once it is no longer the known one or after so long.

        Metrics do not count this request, because it lasts as long as the caller allows.
        """
        wait_ms = int(max_wait_s * 1000)
        async with self._at(address, None) as client:
            answer = await client.node_state(
                Endpoint.parse(address),
                known=known,
                max_wait_ms=wait_ms,
                timeout_ms=wait_ms + CLIENT_TIMEOUT_FACTOR * self._timeout_ms,
            )
            return answer.state

    @asynccontextmanager
    async def _at(self, address: str, request: str | None) -> AsyncGenerator[QuorumClient]:
        """The client of an address, with its errors as the operator's."""
        result, started = "cancelled", time.monotonic()
        key = (address, self._access(address))
        try:
            pooled = await self._acquire(key)
        except CredentialsError as error:
            raise NodeUnreachableError(f"{address}: {error}") from error
        try:
            yield pooled.client
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
            if request is not None:
                self.on_request(request, result, time.monotonic() - started)
            await self._release(key, pooled)

    async def _acquire(self, key: Key) -> _PooledClient:
        """The client of an address; it stays open until it is released."""
        pooled = self._used.get(key) or self._idle.pop(key, None)
        if pooled is None:
            address, access = key
            client_timeout_ms = CLIENT_TIMEOUT_FACTOR * self._timeout_ms
            files = AccessFiles(access) if access is not None else None
            opened = await QuorumClient(
                [Endpoint.parse(address)],
                timeout_ms=client_timeout_ms,
                credentials=files.credentials if files is not None else Credentials(),
                settings=ClientSettings(
                    attempt_timeout_ms=client_timeout_ms,
                    connect_timeout_ms=client_timeout_ms,
                    keepalive=True,
                ),
            ).__aenter__()
            pooled = _PooledClient(opened, files)
        self._used[key] = pooled
        pooled.users += 1
        return pooled

    async def _release(self, key: Key, pooled: _PooledClient) -> None:
        """Release a client; close clients that are idle for too long or too many."""
        pooled.users -= 1
        if pooled.users == 0 and self._used.pop(key, None) is pooled:
            pooled.idle_since_s = time.monotonic()
            self._idle[key] = pooled
        while self._idle:
            oldest, first = next(iter(self._idle.items()))
            age_s = time.monotonic() - first.idle_since_s
            if len(self._idle) <= IDLE_MAX and age_s < IDLE_S:
                break
            del self._idle[oldest]
            await first.client.__aexit__(None, None, None)
