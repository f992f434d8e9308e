"""What the clients of a load process call: our client, plain HTTP, or etcd's JSON gateway."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Protocol

import aiohttp

from kraftquorum_bench.contenders import UnsupportedLoadError
from kraftquorum_bench.httpcalls import HttpCallError, HttpConnection, get_request, put_request
from kraftquorum_bench.loads import Errand, Load
from raftnode.client import ClientError, Credentials, QuorumClient
from raftnode.client.credentials import NO_CREDENTIALS
from raftnode.core.types import Endpoint

ATTEMPT_ERRORS = (ClientError, HttpCallError, aiohttp.ClientError, OSError, TimeoutError)
"""What an operation may raise that was not done, or whose outcome is unknown."""


class Caller(Protocol):
    """What does operation number n for client number c."""

    @abstractmethod
    async def __call__(self, client: int, number: int) -> None:
        """Do it and wait for the answer."""


def key_of(load: Load, number: int) -> str:
    """The key of an operation."""
    return f"key-{number % load.keys}"


def _writes(load: Load, number: int) -> bool:
    return load.operation == "put" or (load.operation == "mixed" and number % 2 == 0)


class SessionCaller(Caller):
    """`QuorumClient`, through a session."""

    def __init__(self, errand: Errand, client: QuorumClient) -> None:
        self._load, self._client = errand.load, client
        self._value = os.urandom(self._load.value_bytes)
        self._batch = [self._value] * self._load.batch

    async def __call__(self, client: int, number: int) -> None:  # noqa: ARG002 - one session for all
        """Do it."""
        load = self._load
        if load.operation == "append":
            await self._client.append(self._batch)
        elif _writes(load, number):
            await self._client.put(key_of(load, number), self._value)
        else:
            stale = load.operation == "get_stale"
            value = await self._client.get(
                key_of(load, number), consistency="local" if stale else "linearizable"
            )
            if value is None:
                raise HttpCallError(f"{key_of(load, number)} is missing: fill the store first")


class HttpCaller(Caller):
    """One plain connection to the leader for each client."""

    def __init__(self, errand: Errand, connections: Sequence[HttpConnection]) -> None:
        self._load, self._connections = errand.load, connections
        self._host = errand.endpoints[0]
        self._value = os.urandom(self._load.value_bytes)

    async def __call__(self, client: int, number: int) -> None:
        """Do it."""
        load, key = self._load, key_of(self._load, number)
        if _writes(load, number):
            request = put_request(self._host, key, self._value)
        else:
            stale = load.operation == "get_stale"
            request = get_request(self._host, key, "local" if stale else "linearizable")
        await self._connections[client].call(request)


class EtcdJsonCaller(Caller):
    """Puts by etcd's JSON gateway, at the next member after an error.

    For loads under a fault alone, which need the time of each answer: etcd's own tool does not
    tell it, and its gateway costs a millisecond where a failover takes a second.
    """

    def __init__(self, errand: Errand, http: aiohttp.ClientSession) -> None:
        self._load, self._http = errand.load, http
        self._endpoints = itertools.cycle(errand.endpoints)
        self._endpoint = next(self._endpoints)
        self._value = base64.b64encode(os.urandom(self._load.value_bytes)).decode()

    async def __call__(self, client: int, number: int) -> None:  # noqa: ARG002 - a pool for all
        """Do it."""
        key = base64.b64encode(key_of(self._load, number).encode()).decode()
        endpoint = self._endpoint
        try:
            url = f"http://{endpoint}/v3/kv/put"
            async with self._http.post(url, json={"key": key, "value": self._value}) as answer:
                answer.raise_for_status()
                await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            if endpoint == self._endpoint:
                self._endpoint = next(self._endpoints)
            raise


async def open_caller(errand: Errand, stack: AsyncExitStack) -> Caller:
    """Connect; the stack closes the connections.

    Raises:
        UnsupportedLoadError: the errand wants TLS without sessions.
    """
    load, security = errand.load, errand.security
    if security is not None and load.transport != "sessions":
        raise UnsupportedLoadError(f"TLS over {load.transport} is not measured: use sessions")
    match load.transport:
        case "sessions":
            endpoints = [Endpoint(host, int(port)) for host, port in map(_split, errand.endpoints)]
            client = QuorumClient(
                endpoints,
                timeout_ms=errand.attempt_timeout_ms,
                credentials=Credentials(ca_file=security.ca_file, token_file=security.token_file)
                if security
                else NO_CREDENTIALS,
                cluster_id=security.cluster_id if security else None,
            )
            return SessionCaller(errand, await stack.enter_async_context(client))
        case "http":
            host, port = _split(errand.endpoints[0])
            connections: list[HttpConnection] = []
            for _ in range(load.clients):
                connection = await HttpConnection.open(host, int(port))
                stack.callback(connection.close)
                connections.append(connection)
            return HttpCaller(errand, connections)
        case "etcd_json":
            http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=errand.attempt_timeout_ms / 1000),
            )
            return EtcdJsonCaller(errand, await stack.enter_async_context(http))


def _split(endpoint: str) -> tuple[str, str]:
    host, _, port = endpoint.rpartition(":")
    return host, port


async def pause_after_error() -> None:
    """What a client waits before it tries again."""
    await asyncio.sleep(0.005)
