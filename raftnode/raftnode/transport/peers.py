"""The dialling side: sends this replica's requests and reports their outcome."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from aiohttp import ClientSession, ClientTimeout, TCPConnector
from aiohttp.abc import AbstractResolver

from raftnode.core.messages import Request, Response
from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.transport.addresses import AddressBook
from raftnode.transport.context import PeerContext
from raftnode.transport.dial import make_socket
from raftnode.transport.failure import Failure, FailureReason
from raftnode.transport.hello import Identity, RefusalReason
from raftnode.transport.link import Call, Link, Surroundings

OnResponse = Callable[[ReplicaKey, Request, Response], None]
"""(the replica that answered, the request, the answer); must not block and must not raise."""

OnFailure = Callable[[ReplicaKey | None, Request, Failure], None]
"""(the receiver; None: a bootstrap request, the request, why there is no answer)."""


class PeerPool:
    """All peers to which this replica sends requests, one connection for each (id, UUID).

    Every request sent ends in exactly one call of `on_response` or `on_failure`, never from within
    `send`. Make and use the pool on the running loop.
    """

    def __init__(
        self,
        context: PeerContext,
        *,
        addresses: AddressBook,
        on_response: OnResponse,
        on_failure: OnFailure,
        rng: random.Random,
        on_hello: Callable[[Identity], None] | None = None,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._settings = context.settings
        self._identity = context.identity
        self._addresses = addresses
        self._on_response = on_response
        self._on_failure = on_failure
        self._on_hello = on_hello
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        unacknowledged_ms = 2 * self._settings.heartbeat_ms
        self._session = ClientSession(
            connector=TCPConnector(
                limit=0,
                use_dns_cache=False,
                resolver=resolver,
                socket_factory=partial(make_socket, unacknowledged_ms=unacknowledged_ms),
            ),
            timeout=ClientTimeout(total=None),
        )
        self._around = Surroundings(
            context=context,
            session=self._session,
            addresses=addresses,
            on_hello=self._hello,
            rng=rng,
        )
        self._links: dict[ReplicaKey | Endpoint, Link] = {}
        self._closed = False

    @property
    def connected(self) -> tuple[Identity, ...]:
        """The replicas that are connected now, each once."""
        peers = {link.peer.key: link.peer for link in self._links.values() if link.peer}
        return tuple(peers.values())

    def send(self, target: ReplicaKey, request: Request, timeout_ms: int) -> None:
        """Send a request to one replica, by (id, UUID)."""
        call = self._call(target, request, timeout_ms)
        if target == self._identity().key:
            self._fail_soon(call, Failure(FailureReason.REFUSED, "own key", RefusalReason.OWN_KEY))
            return
        link = self._link(
            target, wants=target, candidates=partial(self._addresses.candidates, target)
        )
        self._send(call, link)

    def send_bootstrap(self, request: Request, timeout_ms: int) -> None:
        """Send a request to the first reachable bootstrap address, in random order.

        The response says which replica answered. The request must name no receiver: a Fetch.
        """
        addresses = list(self._addresses.bootstrap)
        self._rng.shuffle(addresses)
        call = self._call(None, request, timeout_ms)
        self._try_next(addresses, call, Failure(FailureReason.UNREACHABLE, "no bootstrap address"))

    def greet(self, target: ReplicaKey) -> None:
        """Try once to exchange hellos with a replica, unless there is a connection (S3)."""
        link = self._link(
            target, wants=target, candidates=partial(self._addresses.candidates, target)
        )
        if link is not None and target != self._identity().key:
            link.greet()

    async def greet_bootstrap(self) -> None:
        """Exchange hellos once at each bootstrap address except the own (S3)."""
        others = [at for at in self._addresses.bootstrap if at != self._identity().peer_endpoint]
        attempts = [self._link(at, wants=None, candidates=lambda at=at: (at,)) for at in others]
        links = [link for link in attempts if link is not None]
        for link in links:
            link.greet()
        await asyncio.gather(*(link.tried() for link in links))

    def noticed(self, key: ReplicaKey) -> None:
        """Dial a replica now if requests wait for it, as it was heard of (it dialled this one)."""
        link = self._links.get(key)
        if link is not None:
            link.hurry()

    def renew(self) -> None:
        """Make each connection again, and keep the present one until its requests are answered.

        For new certificates: a connection is verified once, when it is made.
        """
        for link in self._links.values():
            link.renew()

    async def close(self) -> None:
        """Fail all requests under way and end all connections; later sends fail."""
        self._closed = True
        await asyncio.gather(*(link.close() for link in self._links.values()))
        await self._session.close()

    def _call(self, target: ReplicaKey | None, request: Request, timeout_ms: int) -> Call:
        return Call(
            request=request,
            deadline=self._loop.time() + timeout_ms / 1000,
            answered=lambda source, response: self._on_response(source, request, response),
            failed=partial(self._on_failure, target, request),
        )

    def _send(self, call: Call, link: Link | None) -> None:
        if link is None:
            detail = "closed" if self._closed else f"{len(self._links)} peers are busy"
            self._fail_soon(call, Failure(FailureReason.OVERLOADED, detail))
        else:
            link.send(call)

    def _fail_soon(self, call: Call, failure: Failure) -> None:
        self._loop.call_soon(call.failed, failure)

    def _try_next(self, addresses: list[Endpoint], call: Call, last: Failure) -> None:
        """Try the addresses left; go on only while it is sure that no replica got the request."""
        if not addresses:
            self._fail_soon(call, last)
            return
        endpoint, *rest = addresses

        def failed(failure: Failure) -> None:
            if failure.reason in (FailureReason.UNREACHABLE, FailureReason.REFUSED):
                self._try_next(rest, call, failure)
            else:
                call.failed(failure)

        attempt = Call(call.request, call.deadline, call.answered, failed)
        self._send(attempt, self._link(endpoint, wants=None, candidates=lambda: (endpoint,)))

    def _link(
        self,
        name: ReplicaKey | Endpoint,
        *,
        wants: ReplicaKey | None,
        candidates: Callable[[], tuple[Endpoint, ...]],
    ) -> Link | None:
        if self._closed:
            return None
        link = self._links.get(name)
        if link is None:
            if len(self._links) >= self._settings.links_max and not self._forget_one():
                return None
            link = self._links[name] = Link(self._around, wants=wants, candidates=candidates)
        return link

    def _forget_one(self) -> bool:
        idle = next((name for name, link in self._links.items() if link.idle), None)
        if idle is None:
            return False
        del self._links[idle]
        return True

    def _hello(self, peer: Identity) -> None:
        self._addresses.learn_hello(peer.key, peer.peer_endpoint)
        if self._on_hello is not None:
            self._on_hello(peer)
