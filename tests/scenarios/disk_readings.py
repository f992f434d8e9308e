"""What a scripted quorum must show, read from the disks and the messages and from no core."""

from __future__ import annotations

from proofkit.playbook import Playbook
from proofkit.playbook.message import Message
from raftnode.core.records import AddVoter, RemoveVoter


def log_end(book: Playbook, name: str) -> int:
    """One past the last record that a node has written."""
    return book[name].disk.log[-1].end_offset


def durable_end(book: Playbook, name: str) -> int:
    batches = book[name].disk.durable
    return batches[-1].end_offset if batches else 0


def committed_end(book: Playbook, *voters: str) -> int:
    """The offset up to which a majority of these disks holds the log: what is committed."""
    ends = sorted((durable_end(book, name) for name in voters), reverse=True)
    return ends[len(voters) // 2]


def voter_record_offset(book: Playbook, name: str) -> int:
    """Where the disk has its last record that adds or removes a voter."""
    return max(
        batch.base_offset + place
        for batch in book[name].disk.log
        for place, control in enumerate(batch.control)
        if isinstance(control, AddVoter | RemoveVoter)
    )


class Fetches:
    """When each replica last asked a leader, and when it last had all that the leader had.

    It had all of a moment also if it acknowledges later what the leader's log held at one of its
    earlier requests (P26, LastCaughtUpTimestamp).
    """

    def __init__(self, book: Playbook, leader: str) -> None:
        self.book, self.leader = book, leader
        self.last_ms: dict[str, int] = {}
        self.whole_ms: dict[str, int] = {}
        self._ends: dict[str, list[tuple[int, int]]] = {}
        book.on_delivery = self.note

    def note(self, message: Message) -> None:
        cut = self.book.is_cut(message.source, self.leader)
        if message.kind != "fetch" or message.target != self.leader or cut:
            return
        source, now_ms = message.source, self.book.now_ms
        self.last_ms[source] = now_ms
        ends = self._ends.setdefault(source, [])
        ends.append((now_ms, log_end(self.book, self.leader)))
        acknowledged = durable_end(self.book, source)
        whole_ms = [at_ms for at_ms, end in ends if end <= acknowledged]
        if whole_ms:
            self.whole_ms[source] = max(whole_ms[-1], self.whole_ms.get(source, 0))
