"""The memory of peers, by which a replica detects a peer that came back older than it was (S3).

A volume that was restored from an old copy has forgotten votes and acknowledgements under a valid
UUID. A peer that has seen more of the replica than it now knows detects this. Each start of a
storage counts itself and draws a random nonce, and the storage keeps the nonces of its last
starts: its line. A later start of the same storage has the earlier nonces in its line; a start
from an old copy lacks them, however often it was started since.

This module has no effects of its own. The caller's duties:

1. Admit a start only after `why_stale` found nothing and what `marks_with` returned is durable:
   else a crash would forget what others were allowed to rely on.
2. Take no message of a replica on a connection whose start was not admitted, or is no longer
   the current one (`is_current`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from raftnode.core.reasons.staleness import (
    LowerEpoch,
    LowerStart,
    ShorterLog,
    Staleness,
    UnknownStart,
)
from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.types import FIRST_OFFSET, NO_EPOCH, Epoch, Offset, ReplicaKey

LINE_MAX = 64
"""How many nonces a storage keeps and a hello carries. A peer that missed more starts than these
can compare only the counters."""

PEERS_MAX = 64
"""How many replicas are remembered; the longest unseen that is no voter is forgotten first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One start of one storage.

    Attributes:
        incarnation: how often the storage was started, this start included.
        nonce: random, drawn by the start; None: the start reported none.
    """

    incarnation: int
    nonce: str | None


@dataclass(frozen=True, slots=True)
class Start:
    """A replica's report of its present start; it does not change during that start.

    Attributes:
        incarnation: how often the storage was started, this start included.
        line: nonces of the last starts, this one's first; empty: reported by a program that
            knows no lines, and then the other fields mean nothing either.
        log_end: one past the last record that the start found; all of it durable.
        epoch: the epoch that the start found.
    """

    incarnation: int
    line: tuple[str, ...] = ()
    log_end: Offset = FIRST_OFFSET
    epoch: Epoch = NO_EPOCH
    mark: Mark = field(init=False, repr=False, compare=False)
    """The part of the start that is remembered for good."""

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

    def why_stale(self, key: ReplicaKey, start: Start) -> Staleness | None:
        """What the replica has forgotten since it was last seen; None: nothing that is known.

        A start that was admitted before is not judged again: its hello may be older than what the
        replica has acknowledged since.
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
            key: the replica that started.
            start: a start in which `why_stale` found nothing.
            voters: the replicas that are never forgotten.
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
        """Note that the replica acknowledged all below `offset`, and that all of it is committed.

        So none of it may ever be missing again, under any leader.
        """
        peer = self._peers.get(key)
        if peer is not None and offset > peer.acknowledged:
            peer.acknowledged = offset

    def showed(self, key: ReplicaKey, epoch: Epoch) -> None:
        """Note the epoch of a replica's message, which was durable before the message was sent."""
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
    """Whether a replica stops when another replica of its own cluster says that it is stale.

    The replica believes its own voters, so that no stranger can stop a voter. It also believes the
    leader that it follows: an old copy may lack the record that made the leader a voter. It gets
    its log only from that leader, so it would be refused and ask again for ever.

    A replica that knows of no other voter believes every replica. Without voters it has never voted
    and has acknowledged nothing. As the only voter it needs no other vote, and would lead for ever
    beside the quorum that has grown since the copy was made.
    """
    return replica.may_be_voter(teller) or teller == replica.leader or replica.knows_no_other_voter


def _broken_line(mark: Mark, start: Start) -> LowerStart | UnknownStart | None:
    later = start.incarnation - mark.incarnation
    if later < 0:
        return LowerStart(start.incarnation, mark.incarnation)
    if mark.nonce is None or later >= max(len(start.line), 1):
        return None
    if start.line and start.line[later] == mark.nonce:
        return None
    return UnknownStart(mark.incarnation)


def _forgotten(peer: _Peer, start: Start) -> ShorterLog | LowerEpoch | None:
    if not start.line:
        return None
    if start.log_end < peer.acknowledged:
        return ShorterLog(start.log_end, peer.acknowledged)
    if start.epoch < peer.epoch:
        return LowerEpoch(start.epoch, peer.epoch)
    return None
