"""Requests to the core that wait for one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftnode.api.errors import not_leader, refusal
from raftnode.core.effects import Confirmed, Done, Refused, VoterChangeCompleted
from raftnode.core.events import ConfirmRequested, Event, RequestAbandoned
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.types import Endpoint, Offset, ReplicaKey
from raftnode.errors import RequestError
from raftnode.runtime import reason_sentences

Answer = Done | Confirmed | VoterChangeCompleted

KnownLeader = Callable[[], tuple[ReplicaKey | None, Endpoint | None]]
"""Says which replica leads, as far as this one knows, and where its API is."""


class Inquiries:
    """Matches the core's answers with the requests that wait for them.

    Args:
        post: gives the core an event.
        leader: the known leader and its API, for the answer to a client that asked the wrong node.
    """

    def __init__(
        self,
        post: Callable[[Event], None],
        leader: KnownLeader,
    ) -> None:
        self._post = post
        self._leader = leader
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    def next_id(self) -> int:
        """A request id that no other request of this process has."""
        self._next_id += 1
        return self._next_id

    async def ask(
        self, make: Callable[[int], Event], *, timeout_ms: int, late_error: str
    ) -> Answer:
        """Put a request to the core and wait.

        Args:
            make: the event for a request id.
            timeout_ms: how long to wait; then the request is abandoned.
            late_error: the API's error name for a request that is too late.

        Raises:
            RequestError: refused, or too late.
        """
        request_id = self.next_id()
        future = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        self._post(make(request_id))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await future
        except TimeoutError:
            raise refusal(late_error, f"no answer within {timeout_ms} ms") from None
        finally:
            if self._waiting.pop(request_id, None) is not None:
                self._post(RequestAbandoned(request_id))

    async def confirm(self, timeout_ms: int, *, for_read: bool) -> Offset:
        """Ask the core to confirm, after this call, that this replica leads (S11).

        Returns:
            The high watermark of the confirmation.

        Raises:
            RequestError: NOT_LEADER, NOT_CONFIRMED.
        """
        answer = await self.ask(
            lambda request_id: ConfirmRequested(request_id, for_read),
            timeout_ms=timeout_ms,
            late_error="NOT_CONFIRMED",
        )
        assert isinstance(answer, Confirmed)  # noqa: S101
        return answer.high_watermark

    def answered(self, answer: Answer) -> None:
        """Hand an answer to the request that waits for it."""
        future = self._waiting.pop(answer.request_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def refused(self, refused: Refused) -> None:
        """Hand a refusal to the request that waits for it."""
        future = self._waiting.pop(refused.request_id, None)
        if future is not None and not future.done():
            future.set_exception(self.error_of(refused))

    def error_of(self, refused: Refused) -> RequestError:
        """The API's error for a refusal of the core."""
        if refused.refusal is Refusal.NOT_LEADER:
            return not_leader(*self._leader())
        return refusal(refused.refusal.value, reason_sentences.refusal(refused.reason))

    def fail_all(self, error: RequestError) -> None:
        """Fail every request that waits, because the node stops."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()
