"""Reads of old records for Fetches: at most one under way for each replica, voters apart.

A replica whose reads hang asks again after each timeout. Without a limit its Fetches would take
the threads of all others, and so would strangers, each of which may fetch as an observer.

What was read answers the newest Fetch for the same records too. A replica whose reads take longer
than its timeout would else never get any: the read for each of its Fetches would end when it had
given that Fetch up.

While the loop is busy, the threads go on to the next reads: many may have ended when it comes to
them. It answers a bounded number of bytes in a turn, as the driver does with recent records.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from raftnode.core.types import Offset, ReplicaKey
from raftnode.runtime.disk.log_reads import LogReader
from raftnode.storage.log.log import Log

VOTER_READS = 9
"""Threads for voters: the operator forms no larger quorum, so each has one of its own."""

OBSERVER_READS = 4
"""Threads that all other replicas share."""

WAITING_MAX = 5
"""Fetches of one replica that wait for its read: as many as it may have under way
(`fetches_in_flight_max`). Of more, it has given the oldest up."""

TURN_READ_BYTES = 4 << 20
"""Bytes that are served before other tasks have their turn; one answer may pass it."""

Read = asyncio.Future[bytes]


@dataclass(frozen=True, slots=True)
class ColdFetch:
    """A Fetch of old records.

    Attributes:
        replica: for which it is.
        start_offset: of the first record that it asks for.
        max_bytes: about how many it takes.
        generation: the log's when it came; after a truncation it is another.
        begin: begins its read, in a thread of the reader given.
        answer: given the read once it has ended, well or not, and whether nothing was truncated
            since the Fetch came, the read included.
        skip: called instead where the replica asks again or for too many.
    """

    replica: ReplicaKey
    start_offset: Offset
    max_bytes: int
    generation: int
    begin: Callable[[LogReader], Read]
    answer: Callable[[Read, bool], None]
    skip: Callable[[], None]

    def wants_the_same_as(self, other: ColdFetch) -> bool:
        """Whether the read of one answers the other."""
        return (self.start_offset, self.max_bytes) == (other.start_offset, other.max_bytes)


class ColdReads:
    """Who reads now, and what waits.

    Args:
        log: what is read.
        is_voter: whether a replica may be a voter, by what is known now.
        on_error: called with an error with which a replica would wait for ever.
    """

    def __init__(
        self,
        log: Log,
        is_voter: Callable[[ReplicaKey], bool],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._is_voter = is_voter
        self._on_error = on_error
        self._voters = LogReader(log, "fetch", VOTER_READS)
        self._others = LogReader(log, "observe", OBSERVER_READS)
        self._waiting: dict[ReplicaKey, deque[ColdFetch]] = {}
        """Of each replica that has a read under way."""
        self._done: deque[tuple[ColdFetch, Read, int]] = deque()
        """Reads that have ended, not served yet, with the log's generation at their begin."""
        self._served_bytes = 0
        """In this turn of the loop."""
        self._next_turn: asyncio.Handle | None = None
        self._closed = False

    def ask(self, fetch: ColdFetch) -> None:
        """Begin the read of a Fetch, once the last one for its replica has ended.

        A replica that asks again for the same records has given its last Fetch up: only the new
        one waits. Else the old ones would be read first, and the new one given up meanwhile.
        """
        if self._closed:
            return
        waiting = self._waiting.get(fetch.replica)
        if waiting is None:
            self._begin(fetch)
            self._waiting[fetch.replica] = deque()
            return
        for given_up in [
            earlier for earlier in waiting if earlier.start_offset == fetch.start_offset
        ]:
            waiting.remove(given_up)
            given_up.skip()
        waiting.append(fetch)
        if len(waiting) > WAITING_MAX:
            waiting.popleft().skip()

    def _begin(self, fetch: ColdFetch) -> None:
        reader = self._voters if self._is_voter(fetch.replica) else self._others
        generation = self._log.generation
        fetch.begin(reader).add_done_callback(lambda read: self._ended(fetch, read, generation))

    def _ended(self, fetch: ColdFetch, read: Read, generation: int) -> None:
        self._done.append((fetch, read, generation))
        self._serve()

    def _serve(self) -> None:
        """Serve what was read, up to the limit of a turn; the next turns go on.

        The event loop only logs what a callback raises, so any error is reported.
        """
        while self._done and self._served_bytes < TURN_READ_BYTES:
            fetch, read, generation = self._done.popleft()
            try:
                self._go_on(fetch, read, generation)
            except Exception as error:  # noqa: BLE001
                self._waiting.pop(fetch.replica, None)
                self._on_error(error)
        if self._served_bytes and self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._next_turn, self._served_bytes = None, 0
        self._serve()

    def _go_on(self, fetch: ColdFetch, read: Read, generation: int) -> None:
        """Answer what the read answers, and begin the next."""
        waiting = self._waiting[fetch.replica]
        answered = [fetch, *(later for later in waiting if later.wants_the_same_as(fetch))]
        for later in answered[1:]:
            waiting.remove(later)
        if not read.cancelled() and read.exception() is None:
            self._served_bytes += len(answered) * len(read.result())
        for waiter in answered:
            waiter.answer(read, waiter.generation == generation == self._log.generation)
        if self._closed or not waiting:
            del self._waiting[fetch.replica]
            return
        self._begin(waiting.popleft())

    def close(self) -> None:
        """Begin nothing more and wait for the reads under way; blocks."""
        self._closed = True
        self._voters.close()
        self._others.close()
