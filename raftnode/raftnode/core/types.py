"""Names and small values that the whole node shares.

This module has identities, positions in the log and the voter set. It has no value that changes,
and nothing that knows how a value is sent or stored.
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NewType

Epoch = NewType("Epoch", int)
"""Number of an election; grows by at least one with each. -1: none yet."""

Offset = NewType("Offset", int)
"""Position of a record in the log, from 0."""

NodeId = NewType("NodeId", int)
"""A node's configured id; it outlives the disk, so it never identifies a replica alone (S1)."""

NO_EPOCH = Epoch(-1)
FIRST_OFFSET = Offset(0)
NO_OFFSET = Offset(-1)
"""No such offset, or not known yet."""

_IN_BRACKETS = re.compile(r"\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]")
"""An IPv6 address as it stands before a port."""


def format_directory_id(directory_id: uuid.UUID) -> str:
    """Write a storage UUID as Kafka does: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(directory_id.bytes).decode().rstrip("=")


def parse_directory_id(text: str) -> uuid.UUID:
    """Read a storage UUID in Kafka's 22 characters, or in the usual 36.

    Raises:
        ValueError: the text is neither, naming the text and both forms.
    """
    try:
        if len(text) == 22:
            return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
        return uuid.UUID(text)
    except (ValueError, binascii.Error):
        msg = (
            f"not a directory id: {text!r}; expected 22 characters of URL-safe base64 "
            "(as Kafka prints them) or a UUID of 36 characters"
        )
        raise ValueError(msg) from None


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One replica: the node's id and the UUID of the storage it now has (KIP-856, S1)."""

    node_id: NodeId
    directory_id: uuid.UUID
    _hash: int = field(init=False, repr=False, compare=False)
    """Hashed several times per message: the UUID alone tells replicas apart."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.directory_id.int))

    def __eq__(self, other: object) -> bool:
        # About half of the comparisons are with itself.
        if self is other:
            return True
        if not isinstance(other, ReplicaKey):
            return NotImplemented
        return self.node_id == other.node_id and self.directory_id == other.directory_id

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.node_id}-{format_directory_id(self.directory_id)}"

    @classmethod
    def parse(cls, text: str) -> ReplicaKey:
        """Read the form that `str` writes: `<node id>-<directory id>`.

        Raises:
            ValueError: the text has another form.
        """
        node_id, dash, directory_id = text.partition("-")
        if not dash or not node_id.isdecimal():
            msg = f"not a replica: {text!r}; expected <node id>-<directory id>"
            raise ValueError(msg)
        return cls(NodeId(int(node_id)), parse_directory_id(directory_id))


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Where a replica said that it listens: advice, never identity (S6).

    Invariant: an IPv6 address stands in brackets in text and nowhere else.
    """

    host: str
    port: int

    def __post_init__(self) -> None:
        if _IN_BRACKETS.fullmatch(self.host):
            # Records and files of an earlier version may hold the host with its brackets.
            object.__setattr__(self, "host", self.host[1:-1])

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Read `host:port` or, of an IPv6 address, `[host]:port`.

        Raises:
            ValueError: no port, one outside 1 to 65535, or an IPv6 address without brackets.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            msg = f"not an endpoint: {text!r}; expected host:port with a port of 1 to 65535"
            raise ValueError(msg)
        if any(sign in host for sign in "[]:") and not _IN_BRACKETS.fullmatch(host):
            msg = f"not an endpoint: {text!r}; write an IPv6 address in brackets, as in [::1]:9093"
            raise ValueError(msg)
        return cls(host, int(port))


@dataclass(frozen=True, slots=True, order=True)
class Voter:
    """A member of the voter set and the endpoint recorded with it."""

    key: ReplicaKey
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters in force at one point of the log, keyed by (id, UUID): {1, 2, 3, 3'} is four.

    Invariant: sorted by key, no key twice.
    """

    voters: tuple[Voter, ...] = ()
    keys: tuple[ReplicaKey, ...] = field(init=False, repr=False, compare=False)
    """The voters' keys, in the same order."""
    majority: int = field(init=False, repr=False, compare=False)
    """How many voters decide. Invariant: two majorities of adjacent sets share a voter."""
    _members: frozenset[ReplicaKey] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Read several times per message, while a set is made once in many thousands.
        keys = tuple(voter.key for voter in self.voters)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "majority", len(keys) // 2 + 1)
        object.__setattr__(self, "_members", frozenset(keys))

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """Make a set from voters in any order; a later one with the same key wins."""
        by_key = {voter.key: voter for voter in voters}
        return cls(tuple(by_key[key] for key in sorted(by_key)))

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def __len__(self) -> int:
        return len(self.voters)

    def __iter__(self) -> Iterator[ReplicaKey]:
        return iter(self.keys)

    def __str__(self) -> str:
        return "{" + ", ".join(str(key) for key in self) + "}"

    def with_added(self, voter: Voter) -> VoterSet:
        """The set after an AddVoterRecord."""
        return VoterSet.of((*self.voters, voter))

    def without(self, key: ReplicaKey) -> VoterSet:
        """The set after a RemoveVoterRecord."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))

    def with_id(self, node_id: NodeId) -> tuple[ReplicaKey, ...]:
        """All replicas of one node id; more than one while a disk is being replaced."""
        return tuple(key for key in self if key.node_id == node_id)

    def endpoint_of(self, key: ReplicaKey) -> Endpoint | None:
        """The endpoint recorded for a voter, if any."""
        return next((voter.endpoint for voter in self.voters if voter.key == key), None)


NO_VOTERS = VoterSet()


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """How far a log reaches: the epoch of its last record and the offset after it.

    Compared epoch first, then offset: the order in which a vote is granted (P8).
    """

    epoch: Epoch
    end_offset: Offset


@dataclass(frozen=True, slots=True, order=True)
class VoterRecordId:
    """Which record a voter set comes from: what a voter change is compared with (S11).

    The latched set of formation, before any record of it exists, is (-1, -1).
    """

    offset: Offset
    epoch: Epoch


BASE_VOTER_RECORD = VoterRecordId(NO_OFFSET, NO_EPOCH)
