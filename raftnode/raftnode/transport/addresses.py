"""Where a replica might listen, merged from all sources. The addresses are only advice (S6)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from raftnode.core.types import Endpoint, ReplicaKey, VoterSet

ENTRIES_MAX = 1024
"""How many addresses are kept per source, more than any quorum has replicas; the oldest is dropped
first."""


class AddressBook:
    """Merges advice: a replica's own hello, then what leaders said, then the voter records.

    Bootstrap addresses serve when nothing else is known: a replica of the quorum listens
    there, perhaps the wanted one, and says in its hello which it is.
    """

    def __init__(self, bootstrap: Sequence[Endpoint] = ()) -> None:
        self.bootstrap: tuple[Endpoint, ...] = tuple(dict.fromkeys(bootstrap))
        self._hellos: OrderedDict[ReplicaKey, Endpoint] = OrderedDict()
        self._leaders: OrderedDict[ReplicaKey, Endpoint] = OrderedDict()
        self._voters: dict[ReplicaKey, Endpoint] = {}

    def set_voters(self, voters: VoterSet) -> None:
        """Take the endpoints of the voter set in force; replaces those of the last one."""
        self._voters = {
            voter.key: voter.endpoint for voter in voters.voters if voter.endpoint is not None
        }

    def learn_hello(self, key: ReplicaKey, endpoint: Endpoint | None) -> None:
        """Note where a replica said that it listens, or where it answered itself."""
        _note(self._hellos, key, endpoint)

    def learn_leader(self, key: ReplicaKey, endpoint: Endpoint | None) -> None:
        """Note where a response said that the leader listens."""
        _note(self._leaders, key, endpoint)

    def candidates(self, key: ReplicaKey) -> tuple[Endpoint, ...]:
        """Where to look for a replica, best advice first, each address once."""
        advice = (book.get(key) for book in (self._hellos, self._leaders, self._voters))
        known = tuple(dict.fromkeys(endpoint for endpoint in advice if endpoint is not None))
        return known or self.bootstrap


def _note(
    book: OrderedDict[ReplicaKey, Endpoint], key: ReplicaKey, endpoint: Endpoint | None
) -> None:
    if endpoint is None:
        return
    book[key] = endpoint
    book.move_to_end(key)
    if len(book) > ENTRIES_MAX:
        book.popitem(last=False)
