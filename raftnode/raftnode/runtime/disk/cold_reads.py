"""Reads of old records for Fetches: at most one under way for each replica, voters apart.

A replica whose reads hang asks again after each time-out. Without a limit its Fetches would take
the threads of all others, and so would strangers, each of which may fetch as an observer.
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

Begin = Callable[[LogReader], asyncio.Future[bytes]]


@dataclass(frozen=True, slots=True)
class _Wanted:
    start_offset: Offset
    begin: Begin
    skip: Callable[[], None]


class ColdReads:
    """Who reads now, and what waits.

    Args:
        log: what is read.
        is_voter: whether a replica may be a voter, by what is known now.
    """

    def __init__(self, log: Log, is_voter: Callable[[ReplicaKey], bool]) -> None:
        self._is_voter = is_voter
        self._voters = LogReader(log, "fetch", VOTER_READS)
        self._others = LogReader(log, "observe", OBSERVER_READS)
        self._waiting: dict[ReplicaKey, deque[_Wanted]] = {}
        """Of each replica that has a read under way."""
        self._closed = False

    def ask(
        self, replica: ReplicaKey, start_offset: Offset, begin: Begin, skip: Callable[[], None]
    ) -> None:
        """Begin a read for a replica, once its last one has ended.

        A replica that asks again for the same records has given its last Fetch up: only the new
        one waits. Else the old ones would be read first, and the new one given up meanwhile.

        Args:
            replica: for which it is.
            start_offset: of the first record that it asks for.
            begin: begins it, in a thread of the reader given.
            skip: called instead where the replica asks again or for too many.
        """
        if self._closed:
            return
        waiting = self._waiting.get(replica)
        if waiting is None:
            self._waiting[replica] = deque()
            self._begin(replica, begin)
            return
        for given_up in [one for one in waiting if one.start_offset == start_offset]:
            waiting.remove(given_up)
            given_up.skip()
        waiting.append(_Wanted(start_offset, begin, skip))
        if len(waiting) > WAITING_MAX:
            waiting.popleft().skip()

    def _begin(self, replica: ReplicaKey, begin: Begin) -> None:
        reader = self._voters if self._is_voter(replica) else self._others
        begin(reader).add_done_callback(lambda _: self._ended(replica))

    def _ended(self, replica: ReplicaKey) -> None:
        waiting = self._waiting[replica]
        if self._closed or not waiting:
            del self._waiting[replica]
            return
        self._begin(replica, waiting.popleft().begin)

    def close(self) -> None:
        """Begin nothing more and wait for the reads under way; blocks."""
        self._closed = True
        self._voters.close()
        self._others.close()
