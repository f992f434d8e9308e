"""The state of the quorum at a snapshot's end, with which a log may begin."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftnode.core.types import BASE_VOTER_RECORD, LogPosition, VoterRecordId, VoterSet


@dataclass(frozen=True, slots=True)
class LogHead:
    """The control records below a position, summed up.

    Attributes:
        position: the snapshot's id: the epoch of the last record below it, and its end.
        voters: the set in force at the position.
        voter_record: the record that the set comes from. Voter changes compare it (S11), so it is
            the same on a replica that has the log and on a replica that has the snapshot.
        raft_version: 0 before any record of it.
        formation_completed: whether client writes may follow (P52).
        target_voters: of a reassignment that is not finished; empty: there is none (S15).
        target_record: the record that said so last; the base's: there never was any.
    """

    position: LogPosition
    voters: VoterSet
    voter_record: VoterRecordId
    raft_version: int
    formation_completed: bool
    target_voters: VoterSet = field(default_factory=VoterSet)
    target_record: VoterRecordId = BASE_VOTER_RECORD
