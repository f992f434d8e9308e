"""Computes the proven committed end from the files of the replicas alone. Pure.

No file has the high watermark, so this module computes it from what each voter holds
durably. A record of epoch E counts as committed if a majority of the voters holds it, and

- a majority of the voters is still in epoch E: they have the record from the leader of E; or
- the directories of all voters are there, and every voter whose log reached a later epoch has
  the record too: every voter that can win an election has it.

If neither holds, only the records that a snapshot covers are known to be committed, since
snapshots hold committed records only. The result is never too high; it may be too low if
directories are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VoterLog:
    """The durable log in the directory of one voter.

    Attributes:
        epoch: the epoch of the voter, from its vote file.
        epochs: (epoch, first offset) of its log, in order.
        end: one past the last offset that it knew to be durable.
    """

    epoch: int
    epochs: tuple[tuple[int, int], ...]
    end: int

    @property
    def last_epoch(self) -> int:
        """The epoch of the last durable record; -1: there is none."""
        return max((epoch for epoch, start in self.epochs if start < self.end), default=-1)

    def end_of(self, epoch: int) -> int:
        """Return one past the last record of an epoch; 0: the log has none."""
        for place, (entry_epoch, start) in enumerate(self.epochs):
            if entry_epoch == epoch and start < self.end:
                following = self.epochs[place + 1 :]
                return min(following[0][1], self.end) if following else self.end
        return 0


def committed_end(logs: Sequence[VoterLog], voters: int) -> int | None:
    """Return one past the last record that is known to be committed; None: nothing is known.

    Args:
        logs: the logs of the voters whose directories are there, one each.
        voters: the number of voters.
    """
    majority = voters // 2 + 1
    if len(logs) < majority or not voters:
        return None
    newest = max(log.last_epoch for log in logs)
    if newest < 0:
        return 0
    if sum(log.epoch == newest for log in logs) >= majority:
        holding = sorted((log.end_of(newest) for log in logs if log.epoch == newest), reverse=True)
        if holding[majority - 1]:
            return holding[majority - 1]
    if len(logs) < voters:
        return None
    for epoch in sorted({epoch for log in logs for epoch, _ in log.epochs}, reverse=True):
        held = sorted((log.end_of(epoch) for log in logs), reverse=True)[majority - 1]
        later = [log.end_of(epoch) for log in logs if log.last_epoch > epoch]
        bound = min([held, *later])
        if bound:
            return bound
    return 0
