"""What a replica remembers of its peers, so that none of them comes back older than it was (S3).

A volume that was restored from an old copy has forgotten votes and acknowledgements under a valid
UUID. A peer that has seen more of the replica than it now knows detects this. Each start of a
storage counts itself and draws a random nonce, and the storage keeps the nonces of its last
starts: its line. A later start of the same storage has the earlier nonces in its line; a start
from an old copy lacks them, however often it was started since.

Pure. The caller's duties:

1. A start is admitted only after `why_stale` found nothing and what `marks_with` returned is
   durable: else a crash would forget what others were allowed to rely on.
2. No message of a replica is taken on a connection whose start was not admitted, or is not
   the current one any more (`is_current`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.types import FIRST_OFFSET, NO_EPOCH, Epoch, Offset, ReplicaKey

LINE_MAX = 64
"""Nonces that a storage keeps and a hello carries. A peer that missed more starts than these
can compare the counters alone."""

PEERS_MAX = 64
"""Replicas that are remembered; the longest unseen that is no voter is forgotten first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One start of one storage.

    Attributes:
        incarnation: how often the storage was started, this start included.
        nonce: random, drawn by the start; None: it told none.
    """

    incarnation: int
    nonce: str | None


@dataclass(frozen=True, slots=True)
class Start:
    """What a replica tells of the start that it speaks from; the same for the whole of it.

    Attributes:
        incarnation: how often the storage was started, this start included.
        line: nonces of the last starts, this one's first; empty: told by a program that
            knows no lines, and then the other fields mean nothing either.
        log_end: one past the last record that the start found; all of it durable.
        epoch: the epoch that the start found.
    """

    incarnation: int
    line: tuple[str, ...] = ()
    log_end: Offset = FIRST_OFFSET
    epoch: Epoch = NO_EPOCH
    mark: Mark = field(init=False, repr=False, compare=False)
    """What is remembered of it for good."""

    def __post_init__(self) -> None:
        mark = Mark(self.incarnation, self.line[0] if self.line else None)
        object.__setattr__(self, "mark", mark)


@dataclass(slots=True)
class _Peer:
    """One peer. `acknowledged` and `epoch` are what it has shown since this process began."""

    mark: Mark
    acknowledged: Offset = FIRST_OFFSET
    epoch: Epoch = NO_EPOCH


@dataclass(slots=True)
class PeerMemory:
    """What one replica remembers of all others.

    Invariant: what it remembers of a replica only grows, until the replica is forgotten as
    a whole.
    """

    _peers: dict[ReplicaKey, _Peer] = field(default_factory=dict[ReplicaKey, _Peer])

    @classmethod
    def restore(cls, marks: Mapping[ReplicaKey, Mark]) -> PeerMemory:
        """From what was durable, the longest unseen first."""
        return cls({key: _Peer(mark) for key, mark in marks.items()})

    def mark_of(self, key: ReplicaKey) -> Mark | None:
        """The latest start of a replica that is known here."""
        peer = self._peers.get(key)
        return None if peer is None else peer.mark

    def is_current(self, key: ReplicaKey, start: Start) -> bool:
        """Whether a start that was admitted is still the latest one known."""
        peer = self._peers.get(key)
        return peer is None or peer.mark == start.mark

    def why_stale(self, key: ReplicaKey, start: Start) -> str | None:
        """What the replica has forgotten since it was last seen; None: nothing that is known.

        A start that was admitted before is not judged again: its hello may have been
        overtaken by what it has acknowledged since.
        """
        peer = self._peers.get(key)
        if peer is None or peer.mark == start.mark:
            return None
        return _broken_line(peer.mark, start) or _forgotten(peer, start)

    def marks_with(
        self, key: ReplicaKey, start: Start, voters: Collection[ReplicaKey]
    ) -> dict[ReplicaKey, Mark] | None:
        """What is to be made durable before the start is admitted; None: nothing new.

        Args:
            key: whose start it is.
            start: one in which `why_stale` found nothing.
            voters: whom never to forget.
        """
        if self.mark_of(key) == start.mark:
            return None
        marks = {known: peer.mark for known, peer in self._peers.items() if known != key}
        marks[key] = start.mark
        for known in [known for known in marks if known not in voters and known != key]:
            if len(marks) > PEERS_MAX:
                del marks[known]
        return marks

    def admit(self, marks: Mapping[ReplicaKey, Mark]) -> None:
        """Take over what `marks_with` returned and is durable now."""
        peers: dict[ReplicaKey, _Peer] = {}
        for key, mark in marks.items():
            peer = self._peers.get(key) or _Peer(mark)
            peer.mark = mark
            peers[key] = peer
        self._peers = peers

    def acknowledged(self, key: ReplicaKey, offset: Offset) -> None:
        """The replica acknowledged all below `offset`, and all of that is committed.

        So none of it may ever be missing again, under any leader.
        """
        peer = self._peers.get(key)
        if peer is not None and offset > peer.acknowledged:
            peer.acknowledged = offset

    def showed(self, key: ReplicaKey, epoch: Epoch) -> None:
        """A message of the replica carried its epoch, which was durable before it was sent."""
        peer = self._peers.get(key)
        if peer is not None and epoch > peer.epoch:
            peer.epoch = epoch


def remember_acknowledgements(memory: PeerMemory, replica: Replica) -> None:
    """Note, on a leader, what each peer has acknowledged of what is committed."""
    role = replica.role
    if not isinstance(role, Leader):
        return
    for key, progress in role.progress.items():
        if not progress.fenced:
            memory.acknowledged(key, min(progress.acknowledged, replica.high_watermark))


def is_believed(replica: Replica, teller: ReplicaKey) -> bool:
    """Whether a replica stops when a member of its own cluster says that it is stale.

    Its own voters are believed, so that no stranger can stop a voter, and the leader that it
    follows: an old copy may lack the record that made that one a voter, and gets no other log than
    from it, so it would be refused and ask again for ever. Who knows of no other voter
    has none that could tell it, and believes anybody: without voters it has never voted and has
    acknowledged nothing; as the only one it needs nobody's vote, and would lead for ever beside
    the quorum that has grown since the copy was made.
    """
    return replica.may_be_voter(teller) or teller == replica.leader or replica.knows_no_other_voter


def _broken_line(mark: Mark, start: Start) -> str | None:
    later = start.incarnation - mark.incarnation
    if later < 0:
        return (
            f"its start number is {start.incarnation}, but start {mark.incarnation} was seen here"
        )
    if mark.nonce is None or later >= max(len(start.line), 1):
        return None
    if start.line and start.line[later] == mark.nonce:
        return None
    return f"start {mark.incarnation}, which was seen here, is not one of its starts"


def _forgotten(peer: _Peer, start: Start) -> str | None:
    if not start.line:
        return None
    if start.log_end < peer.acknowledged:
        return (
            f"its log ends at {start.log_end}, but it had acknowledged up to "
            f"{peer.acknowledged}, which is committed"
        )
    if start.epoch < peer.epoch:
        return f"it is in epoch {start.epoch}, but it had been in epoch {peer.epoch}"
    return None
