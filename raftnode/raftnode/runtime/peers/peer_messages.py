"""The core's messages and the transport: callbacks become events, effects become frames."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from raftnode.core.events import Event, RequestFailed, RequestReceived, ResponseReceived
from raftnode.core.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
)
from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.types import Endpoint, Epoch, ReplicaKey
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.transport import AddressBook, Failure, Identity, PeerPool
from raftnode.transport.connection_limits import Rank
from raftnode.transport.server import Respond

UNANSWERED_MAX = 4096
"""How many of the peers' requests may be without an answer; the oldest is forgotten."""

BACKLOG_MAX = 4096
"""How many events may wait for the core; above it peers' requests are dropped, as a network may."""

API_ENDPOINTS_MAX = 256

PEER_CONNECTIONS_MAX = 384
"""How many connections the peers' port accepts: twice what a `PeerServer` keeps, for those that it
is cutting off."""


def rank_of(replica: Replica, key: ReplicaKey) -> Rank:
    """The rank of a replica's connection here."""
    if replica.may_be_voter(key):
        return Rank.VOTER
    role = replica.role
    progress = role.progress.get(key) if isinstance(role, Leader) else None
    fetches = progress is not None and progress.has_asked
    return Rank.OBSERVER if fetches else Rank.STRANGER


class Peering:
    """Carries requests and responses for the core.

    Args:
        post: gives the core an event.
        next_id: makes request ids.
        addresses: learns where leaders are.
        timeout_ms: how long an answer may take, a Fetch's own wait not counted.
        vote_timeout_ms: how long a round of votes takes: a later answer is of no use.
        backlog: how many events wait for the core.
        on_epoch: called with each peer's epoch.
        metrics: counts what peers fetch and do not answer; None: nothing is counted.
    """

    def __init__(
        self,
        post: Callable[[Event], None],
        next_id: Callable[[], int],
        addresses: AddressBook,
        *,
        timeout_ms: int,
        vote_timeout_ms: int,
        backlog: Callable[[], int],
        on_epoch: Callable[[ReplicaKey, Epoch], None] = lambda _key, _epoch: None,
        metrics: NodeMetrics | None = None,
    ) -> None:
        self._metrics = metrics
        self._post = post
        self._backlog = backlog
        self._on_epoch = on_epoch
        self._next_id = next_id
        self._addresses = addresses
        self._timeout_ms = timeout_ms
        self._vote_timeout_ms = vote_timeout_ms
        self._unanswered: OrderedDict[int, Respond] = OrderedDict()
        self._api_endpoints: OrderedDict[ReplicaKey, Endpoint] = OrderedDict()
        self.pool: PeerPool | None = None
        """Set once the pool, which needs this object's callbacks, is made."""

    # -- the transport's callbacks ---------------------------------------------------

    def on_request(self, source: ReplicaKey, request: Request, respond: Respond) -> None:
        """Pass a peer's request to the core."""
        if self._backlog() >= BACKLOG_MAX:
            return
        if self._metrics is not None and isinstance(request, FetchRequest | FetchSnapshotRequest):
            self._metrics.peer_fetched(source.node_id)
        self._on_epoch(source, request.epoch)
        request_id = self._next_id()
        self._unanswered[request_id] = respond
        if len(self._unanswered) > UNANSWERED_MAX:
            self._unanswered.popitem(last=False)
        self._post(RequestReceived(request_id, source, request))

    def on_response(self, source: ReplicaKey, request: Request, response: Response) -> None:
        """Pass a peer's answer to the core."""
        fetched = isinstance(response, FetchResponse | FetchSnapshotResponse)
        if fetched and response.leader is not None:
            self._addresses.learn_leader(response.leader, response.leader_endpoint)
        if isinstance(response, FetchResponse) and self._metrics is not None:
            records = sum(batch.end_offset - batch.base_offset for batch in response.batches)
            self._metrics.fetched_records.inc(records)
        self._on_epoch(source, response.epoch)
        self._post(ResponseReceived(source, request, response))

    def on_failure(self, target: ReplicaKey | None, request: Request, failure: Failure) -> None:
        """Report a request without an answer to the core."""
        if self._metrics is not None:
            self._metrics.peer_failed(target.node_id if target else None, failure.reason)
        self._post(RequestFailed(target, request))

    def on_hello(self, peer: Identity) -> None:
        """Note a peer's identity and where its API listens."""
        if peer.api_endpoint is not None:
            self._api_endpoints[peer.key] = peer.api_endpoint
            self._api_endpoints.move_to_end(peer.key)
            if len(self._api_endpoints) > API_ENDPOINTS_MAX:
                self._api_endpoints.popitem(last=False)

    def on_called(self, peer: Identity) -> None:
        """Let requests that wait for a peer dial it now, as it has dialled this replica."""
        self.on_hello(peer)
        self._addresses.learn_hello(peer.key, peer.peer_endpoint)
        if self.pool is not None:
            self.pool.noticed(peer.key)

    def api_endpoint_of(self, key: ReplicaKey) -> Endpoint | None:
        """Where a replica said that its API listens."""
        return self._api_endpoints.get(key)

    # -- the driver's effects ----------------------------------------------------------

    def send(self, target: ReplicaKey | None, request: Request) -> None:
        """Ask a replica, or with None any bootstrap server."""
        assert self.pool is not None  # noqa: S101
        timeout_ms = self._timeout_ms
        if isinstance(request, FetchRequest):
            timeout_ms += request.max_wait_ms
        elif isinstance(request, VoteRequest):
            timeout_ms = min(timeout_ms, self._vote_timeout_ms)
        if target is None:
            self.pool.send_bootstrap(request, timeout_ms)
        else:
            self.pool.send(target, request, timeout_ms)

    def respond(self, request_id: int, response: Response) -> None:
        """Answer a peer's request."""
        respond = self._unanswered.pop(request_id, None)
        if respond is not None:
            respond(response)
