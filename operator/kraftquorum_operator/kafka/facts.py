"""What was read of a Kafka quorum, as values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.errors import KafkaError


@dataclass(frozen=True, slots=True)
class MappedController:
    """An entry of the id map: which id is where, and optionally on which directory."""

    node_id: int
    address: Address
    directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What one controller says of itself.

    Attributes:
        address: where it was asked.
        kraft_version: the finalized `kraft.version`; 0: a static quorum.
        quorum_version: the highest DescribeQuorum that both sides speak; -1: none.
        changes_voters: whether it speaks AddRaftVoter and RemoveRaftVoter.
        cluster_id: None: not known, because an ACL is missing.
        node_id: None: not known.
        misnamed: why the id map is wrong about this address; empty: it is not known to be.
        config: settings by name; empty: not known.
        permissions_missing: what its ACLs refused, of what advice can do without.
        quorum: its answer to DescribeQuorum, if it leads.
        leader_id: the leader that it knows, -1: none.
    """

    address: Address
    kraft_version: int
    quorum_version: int
    changes_voters: bool
    cluster_id: str | None = None
    node_id: int | None = None
    misnamed: str = ""
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    permissions_missing: frozenset[str] = frozenset()
    quorum: QuorumDescription | None = None
    leader_id: int = -1


@dataclass(frozen=True, slots=True)
class View:
    """All that was read.

    Attributes:
        nodes: what answered.
        failures: why an address did not answer.
        quorum: the last description by the leader; None: no leader answered.
        earlier: the description before it, of the same leader, epoch and voters.
        confirmed: a majority acknowledged a record that is younger than `earlier`.
        unconfirmed_reason: why not.
    """

    nodes: tuple[NodeFacts, ...]
    failures: Mapping[Address, KafkaError] = field(default_factory=dict[Address, KafkaError])
    quorum: QuorumDescription | None = None
    earlier: QuorumDescription | None = None
    confirmed: bool = False
    unconfirmed_reason: str = ""

    @property
    def confirmed_quorum(self) -> QuorumDescription:
        """The description that a majority confirmed.

        Raises:
            ValueError: none did; `refusal_of` says why.
        """
        if self.quorum is None or not self.confirmed:
            raise ValueError("no majority confirmed a description")
        return self.quorum
