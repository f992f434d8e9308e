"""One peer on the dialling side: its connection is made when there is a request to send.

A request waits for the connection, is sent, and is either answered or failed, exactly once. A
failed attempt to connect fails all requests that waited for it. The next request makes the next
attempt, not before the backoff allows it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from aiohttp import ClientSession, WSMsgType

from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.log_limit import LineBudget
from raftnode.transport.addresses import AddressBook
from raftnode.transport.backoff import Backoff
from raftnode.transport.context import PeerContext
from raftnode.transport.dial import DialError, Dialled, dial
from raftnode.transport.failure import Failure, FailureReason
from raftnode.transport.hello import Identity
from raftnode.transport.outbox import Outbox
from raftnode.wire import ErrorFrame, Frame, MessageError, ResponseFrame

_log = structlog.get_logger(__name__)

_lines = LineBudget()

REPLACED = "a new connection has taken its place"

RENEW_AGAIN_S = 5.0
"""After an attempt to renew a connection has failed."""

SETTLED_S = 1.0
"""A connection that ends sooner counts as a failed attempt: no storm of reconnects."""

_ANSWERS: dict[type[Request], type[Response]] = {
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    FetchRequest: FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
}


@dataclass(slots=True, eq=False)
class Call:
    """One request on its way; `answered` or `failed` is called once."""

    request: Request
    deadline: float
    answered: Callable[[ReplicaKey, Response], None]
    failed: Callable[[Failure], None]
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all links of a pool share."""

    context: PeerContext
    session: ClientSession
    addresses: AddressBook
    on_hello: Callable[[Identity], None]
    rng: random.Random


@dataclass(slots=True, eq=False)
class _Connection:
    dialled: Dialled
    outbox: Outbox
    cluster_id: str | None
    """The cluster that this end named in its hello."""
    renewal: asyncio.TimerHandle | None = None
    """Makes the connection again before a certificate expires."""
    former_since_s: float | None = None
    """From when on the CAs that verified it were found to be trusted no more."""


class Link:
    """The connection to one peer, by key, or to the replica that listens at one address.

    Invariant: a call is in `_waiting` or in `_sent`, until it is answered or failed.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        wants: ReplicaKey | None,
        candidates: Callable[[], Sequence[Endpoint]],
    ) -> None:
        self._around = around
        self._wants = wants
        self._candidates = candidates
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff(around.context.settings, around.rng)
        self._waiting: list[Call] = []
        self._sent: dict[int, tuple[_Connection, Call]] = {}
        self._next_correlation_id = 0
        self._connection: _Connection | None = None
        self._task: asyncio.Task[None] | None = None
        """Makes and uses `_connection`."""
        self._others: set[asyncio.Task[None]] = set()
        """Of connections that are being renewed, or replaced and wait for their last answers."""
        self._renewing = False
        self._hurry = asyncio.Event()
        self._greeting = False
        self._leaving = False
        self._tried = asyncio.Event()

    @property
    def peer(self) -> Identity | None:
        """The replica to which this one has said hello as what it is now, if there is one."""
        connection, own = self._connection, self._around.context.identity()
        if connection is None or connection.cluster_id != own.cluster_id:
            return None
        return connection.dialled.peer

    @property
    def idle(self) -> bool:
        """Whether the link is neither connected nor busy, so that it may be forgotten."""
        return self._task is None

    def send(self, call: Call) -> None:
        """Accept a call; never block, and run no callback before returning."""
        if len(self._waiting) + len(self._sent) >= self._around.context.settings.outstanding_max:
            detail = f"{len(self._sent)} requests are unanswered, {len(self._waiting)} wait"
            self._loop.call_soon(call.failed, Failure(FailureReason.OVERLOADED, detail))
            return
        call.timer = self._loop.call_at(call.deadline, self._expire, call)
        connection = self._connection
        if connection is None:
            self._waiting.append(call)
            self._start()
        elif connection.cluster_id != self._around.context.identity().cluster_id:
            self._waiting.append(call)
            self._leave(connection)
        else:
            self._transmit(call, connection, _soon)

    def _leave(self, connection: _Connection) -> None:
        """End a connection that was made before this replica joined a cluster (S3).

        The peer remembers a start by its hello, so the replica says hello again as a member.
        """
        if not self._leaving:
            self._leaving = True
            name = f"leave {connection.dialled.peer.key}"
            self._around.context.spawn(_close(connection.dialled), name=name)

    def greet(self) -> None:
        """Try once to make the connection, only to exchange hellos."""
        if self._connection is None:
            self._greeting = True
            self._start()

    async def tried(self) -> None:
        """Wait until an attempt to connect has succeeded or failed; each has its timeout."""
        await self._tried.wait()

    def _start(self) -> None:
        if self._task is None:
            name = f"link to {self._wants or 'a bootstrap address'}"
            self._task = self._around.context.spawn(self._run(), name=name)

    def hurry(self) -> None:
        """End the pause before the next attempt, as the peer was heard of."""
        self._backoff.reset()
        self._hurry.set()

    def renew(self) -> None:
        """Make the connection again; the present one goes on until its calls are answered."""
        old = self._connection
        if old is None or self._renewing or self._leaving:
            return
        self._renewing = True
        name = f"renew the connection to {old.dialled.peer.key}"
        task = self._around.context.spawn(self._replace(old), name=name)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _replace(self, old: _Connection) -> None:
        try:
            dialled = await self._dial()
        except DialError as error:
            _lines.say(
                _log.warning,
                "peer_renewal_failed",
                peer=str(old.dialled.peer.key),
                problem=str(error.failure),
            )
            if self._connection is old:
                if self._has_outlived_its_ca(old):
                    self._end_replaced(old)
                else:
                    self._renew_later(old, RENEW_AGAIN_S)
            return
        finally:
            self._renewing = False
        task = asyncio.current_task()
        if self._connection is not old or self._task is None or task is None:
            await dialled.socket.close()  # it has ended meanwhile
            return
        self._others.add(self._task)
        self._task.add_done_callback(self._others.discard)
        self._task = task
        await self._run(dialled)

    def _has_outlived_its_ca(self, connection: _Connection) -> bool:
        """Whether the CAs that verified it have been trusted no more for the grace period."""
        context, now_s = self._around.context, self._loop.time()
        if context.tls is None or context.tls.trusts(connection.dialled.socket):
            connection.former_since_s = None
            return False
        if connection.former_since_s is None:
            connection.former_since_s = now_s
        return now_s - connection.former_since_s >= context.settings.trust_grace_ms / 1000

    def _renew_later(self, connection: _Connection, seconds: float) -> None:
        if connection.renewal is not None:
            connection.renewal.cancel()
        connection.renewal = self._loop.call_later(seconds, self._renew_if_used, connection)

    def _renew_if_used(self, connection: _Connection) -> None:
        if self._connection is connection:
            self.renew()

    async def close(self) -> None:
        """Fail all calls and end the connection."""
        tasks = {*self._others, *((self._task,) if self._task is not None else ())}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fail_all(Failure(FailureReason.DISCONNECTED, "closing"))

    async def _run(self, renewed: Dialled | None = None) -> None:
        try:
            if renewed is not None:
                await self._converse(renewed)
            while self._is_mine() and (self._waiting or self._greeting):
                await self._pause()
                if not (self._waiting or self._greeting):
                    break
                self._greeting = False
                try:
                    dialled = await self._dial()
                except DialError as error:
                    self._tried.set()
                    self._backoff.failed(self._loop.time())
                    self._fail(self._waiting, error.failure)
                    continue
                self._tried.set()
                await self._converse(dialled)
        finally:
            if self._is_mine():
                self._task = None

    def _is_mine(self) -> bool:
        """Whether the present task is the one that makes and uses the connection."""
        return self._task is asyncio.current_task()

    async def _pause(self) -> None:
        self._hurry.clear()
        pause = self._backoff.pause(self._loop.time())
        if pause > 0:
            try:
                async with asyncio.timeout(pause):
                    await self._hurry.wait()
            except TimeoutError:
                return

    async def _dial(self) -> Dialled:
        around = self._around
        failures: list[Failure] = []
        for endpoint in self._candidates():
            try:
                return await dial(
                    around.session,
                    endpoint,
                    own=around.context.identity(),
                    wants=self._wants,
                    gate=around.context.gate,
                    settings=around.context.settings,
                    frame_bytes_max=around.context.codec.frame_bytes_max + 1,
                    tls=around.context.tls,
                )
            except DialError as error:
                if error.replica is not None and error.replica != around.context.identity().key:
                    around.addresses.learn_hello(error.replica, endpoint)
                failures.append(error.failure)
        # The first address is the best advice, so its failure says the most.
        unknown = Failure(FailureReason.UNREACHABLE, f"no address of {self._wants} is known")
        raise DialError(failures[0] if failures else unknown)

    async def _converse(self, dialled: Dialled) -> None:
        """Use a connection until it ends."""
        around, key = self._around, dialled.peer.key
        started = self._loop.time()
        around.on_hello(dialled.peer)
        outbox = Outbox(
            dialled.socket.send_bytes, bytes_max=around.context.settings.outbox_bytes_max
        )
        connection = _Connection(dialled, outbox, dialled.own_cluster_id)
        writer = around.context.spawn(outbox.run(), name=f"write to {key}")
        old, self._connection = self._connection, connection
        if old is not None and not self._awaits(old):
            self._end_replaced(old)
        if dialled.renew_in_s is not None:
            tls = around.context.tls
            is_former = tls is not None and not tls.trusts(dialled.socket)
            # The CAs may have changed while it was made; `renew` then found no connection.
            self._renew_later(connection, 0 if is_former else dialled.renew_in_s)
        _log.info("peer_connected", peer=str(key), endpoint=str(dialled.endpoint))
        reason = "the peer closed the connection"
        try:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                self._transmit(call, connection, _at_once)
            async for message in dialled.socket:
                if message.type is not WSMsgType.BINARY:
                    reason = f"{message.type.name}: {message.data}"
                    break
                problem = self._receive(message.data, connection)
                if problem is not None:
                    reason = problem
                    break
                if self._connection is not connection and not self._awaits(connection):
                    reason = REPLACED
                    break
        except (OSError, RuntimeError) as error:
            # Answering a ping while the connection closes, e.g. after a long pause.
            reason = f"{error}"
        finally:
            writer.cancel()
            if connection.renewal is not None:
                connection.renewal.cancel()
            if self._connection is connection:
                self._connection = None
                if self._loop.time() - started < SETTLED_S and not self._leaving:
                    self._backoff.failed(self._loop.time())
                else:
                    self._backoff.reset()
            else:
                reason = REPLACED
            _log.info("peer_disconnected", peer=str(key), reason=reason)
            sent = [number for number, (of, _) in self._sent.items() if of is connection]
            calls = [self._sent.pop(number)[1] for number in sent]
            self._fail(calls, Failure(FailureReason.DISCONNECTED, reason))
            await dialled.socket.close()
            if self._is_mine():
                self._leaving = False

    def _awaits(self, connection: _Connection) -> bool:
        """Whether a call waits for its answer on a connection."""
        return any(of is connection for of, _ in self._sent.values())

    def _end_replaced(self, connection: _Connection) -> None:
        name = f"end the former connection to {connection.dialled.peer.key}"
        self._around.context.spawn(_close(connection.dialled), name=name)

    def _transmit(
        self,
        call: Call,
        connection: _Connection,
        report: Callable[[Callable[[Failure], None], Failure], None],
    ) -> None:
        """Send a call, or `report` the reason why not."""
        own = self._around.context.identity()
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0xFFFFFFFF
        failure = None
        try:
            frame = self._around.context.codec.encode_request(
                call.request,
                source=own.key,
                target=connection.dialled.peer.key,
                cluster_id=own.cluster_id,
                correlation_id=correlation_id,
                compact=connection.dialled.compact,
            )
        except ValueError as error:
            failure = Failure(FailureReason.INVALID, str(error))
        else:
            if not connection.outbox.put(frame):
                detail = f"{connection.outbox.waiting_bytes} bytes wait for the peer to read"
                failure = Failure(FailureReason.OVERLOADED, detail)
        if failure is None:
            self._sent[correlation_id] = connection, call
            return
        if call.timer is not None:
            call.timer.cancel()
        report(call.failed, failure)

    def _receive(self, data: bytes, connection: _Connection) -> str | None:
        """Accept a frame; return why the connection must end, if it must."""
        try:
            frame: Frame | MessageError = self._around.context.codec.decode(data)
        except MessageError as error:
            frame = error
        except DecodeError as error:
            return f"{error}"
        envelope, own = frame.envelope, self._around.context.identity()
        if not envelope.is_response:
            return "a request on a connection for responses"
        if not self._around.context.gate.is_current(connection.dialled.peer):
            return f"a later start of {envelope.source} was seen"
        if envelope.source != connection.dialled.peer.key or envelope.target != own.key:
            return f"a frame from {envelope.source} to {envelope.target}"
        if len({envelope.cluster_id, own.cluster_id} - {None}) > 1:
            return f"cluster {envelope.cluster_id}; this is {own.cluster_id}"
        _, call = self._sent.pop(envelope.correlation_id, (None, None))
        if call is None:
            return None  # it has timed out here
        if call.timer is not None:
            call.timer.cancel()
        match frame:
            case ResponseFrame() if isinstance(frame.message, _ANSWERS[type(call.request)]):
                if envelope.leader is not None:
                    self._around.addresses.learn_leader(envelope.leader, envelope.leader_endpoint)
                call.answered(envelope.source, frame.message)
            case ErrorFrame():
                detail = f"{frame.error.name}: {frame.message}"
                call.failed(Failure(FailureReason.REJECTED, detail))
            case _:
                call.failed(Failure(FailureReason.BAD_RESPONSE, str(frame)[:300]))
        return None

    def _expire(self, call: Call) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
        for number, (connection, sent) in list(self._sent.items()):
            if sent is call:
                del self._sent[number]
                if connection is not self._connection and not self._awaits(connection):
                    self._end_replaced(connection)
        call.failed(Failure(FailureReason.TIMED_OUT, "no response in time"))

    def _fail_all(self, failure: Failure) -> None:
        calls = [*(call for _, call in self._sent.values()), *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._fail(calls, failure)

    def _fail(self, calls: list[Call], failure: Failure) -> None:
        """Fail calls; the list is emptied first, since a callback may send again."""
        failed = list(calls)
        calls.clear()
        for call in failed:
            if call.timer is not None:
                call.timer.cancel()
            call.failed(failure)


def _at_once(failed: Callable[[Failure], None], failure: Failure) -> None:
    failed(failure)


def _soon(failed: Callable[[Failure], None], failure: Failure) -> None:
    asyncio.get_running_loop().call_soon(failed, failure)


async def _close(dialled: Dialled) -> None:
    await dialled.socket.close()
