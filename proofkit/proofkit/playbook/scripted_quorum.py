"""The replicas of a playbook, and the messages between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proofkit.playbook.message import Message, key_of, named
from proofkit.playbook.scripted_node import ScriptedNode
from proofkit.simulator.disk import SimDisk
from proofkit.simulator.watcher import Watcher
from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    AppendAccepted,
    Confirmed,
    Done,
    Effect,
    Refused,
    SendRequest,
    SendResponse,
    ServeFetch,
    ServeSnapshot,
    StoreSnapshotPiece,
    VerifySnapshot,
    VoterChangeCompleted,
)
from raftnode.core.events import (
    Event,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotVerified,
)
from raftnode.core.messages import Response
from raftnode.runtime import reason_sentences

Answer = AppendAccepted | Refused | VoterChangeCompleted | Confirmed | Done


AT_ONCE = CoreConfig(high_watermark_wait_ms=0)
"""Time stands still in most scenarios: a high watermark that waits for time would never come."""


@dataclass(slots=True)
class ScriptedQuorum:
    """A few replicas; messages wait in `pending` until they are delivered or dropped."""

    config: CoreConfig = AT_ONCE
    now_ms: int = 1000
    nodes: dict[str, ScriptedNode] = field(default_factory=dict[str, ScriptedNode])
    pending: list[Message] = field(default_factory=list[Message])
    isolated: set[str] = field(default_factory=set[str])
    answers: dict[int, list[Answer]] = field(default_factory=dict[int, list[Answer]])
    watch: Callable[[ScriptedNode, Effect], None] | None = None
    """Called with every effect."""
    watcher: Watcher | None = None
    """Sees all that the replicas do."""
    on_delivery: Callable[[Message], None] | None = None
    gated: bool = False
    """Whether every message passes the gate behind its sender's hello (S3)."""
    piece_bytes: int = 1000
    """How much of a snapshot goes into one answer."""
    storage: list[tuple[str, int, StoreSnapshotPiece | VerifySnapshot]] = field(
        default_factory=list[tuple[str, int, StoreSnapshotPiece | VerifySnapshot]]
    )
    """What the disks are still to do for a snapshot that is being fetched."""
    on_refusal: Callable[[str], None] | None = None
    """Called with what a gate said."""
    _numbers: int = 0
    _questions: dict[int, Message] = field(default_factory=dict[int, Message])

    # -- nodes ---------------------------------------------------------------------------

    def blank(self, name: str) -> ScriptedNode:
        """ScriptedNode a replica with an empty disk."""
        node = ScriptedNode(name, SimDisk(key_of(name)), self._carry_out, self.config)
        node.watcher = self.watcher
        self.nodes[name] = node
        node.start(self.now_ms)
        return node

    def __getitem__(self, name: str) -> ScriptedNode:
        return self.nodes[name]

    @property
    def leaders(self) -> list[str]:
        """Return the replicas that take themselves for the leader."""
        return [name for name, node in self.nodes.items() if node.role == "leader"]

    def number(self) -> int:
        """A request id that was never used."""
        self._numbers += 1
        return self._numbers

    # -- messages ------------------------------------------------------------------------

    def give(self, name: str, event: Event) -> list[Effect]:
        """Hand one event to one replica."""
        return self.nodes[name].take(event, self.now_ms)

    def deliver(
        self, kind: str = "", source: str = "", target: str = "", *, limit: int = 1_000_000
    ) -> int:
        """Deliver the waiting messages that match, in order; new messages wait."""
        chosen = self._matching(kind, source, target)[:limit]
        for message in chosen:
            self.pending.remove(message)
            self._deliver(message)
        return len(chosen)

    def drop(self, kind: str = "", source: str = "", target: str = "") -> int:
        """Drop the waiting messages that match, without a report to the senders."""
        chosen = self._matching(kind, source, target)
        for message in chosen:
            self.pending.remove(message)
        return len(chosen)

    def repeat(self, kind: str = "", source: str = "", target: str = "") -> None:
        """Duplicate the waiting messages that match."""
        for message in self._matching(kind, source, target):
            self.pending.append(message)

    def _matching(self, kind: str, source: str, target: str) -> list[Message]:
        return [
            message
            for message in self.pending
            if kind in {"", message.kind}
            and source in {"", message.source}
            and target in {"", message.target}
        ]

    def fail_questions(self, target: str) -> None:
        """Fail all requests that a replica was handed and has not answered."""
        for number, message in list(self._questions.items()):
            if message.target == target:
                del self._questions[number]
                self._fail(message)

    def _deliver(self, message: Message) -> None:
        if self.on_delivery:
            self.on_delivery(message)
        if message.response is not None:
            self._deliver_answer(message, message.response)
            return
        target = self._find(message)
        if target is None:
            self._fail(message)
            return
        if not self.passes(self.nodes[message.source], target):
            self._fail(message)
            return
        request_id = self.number()
        self._questions[request_id] = Message(
            request_id, message.source, target.name, message.request, answers=message.answers
        )
        source = self.nodes[message.source].key
        if target.gate is not None:
            target.gate.note_epoch(source, message.request.epoch)
        target.take(RequestReceived(request_id, source, message.request), self.now_ms)

    def _deliver_answer(self, message: Message, response: Response) -> None:
        assert message.target is not None
        asker = self.nodes[message.target]
        if self._life(asker) == message.answers and not self.is_cut(message.source, asker.name):
            speaker = self.nodes[message.source]
            if not self.passes(speaker, asker):
                target = key_of(message.source)
                asker.take(RequestFailed(target, message.request), self.now_ms)
                return
            source = speaker.key
            if asker.gate is not None:
                asker.gate.note_epoch(source, response.epoch)
            asker.take(ResponseReceived(source, message.request, response), self.now_ms)

    def work_storage(self, *, damaged: bool = False) -> int:
        """Let the disks store and read snapshots; `damaged`: they read a damaged one."""
        waiting, self.storage = self.storage, []
        for name, life, effect in waiting:
            node = self.nodes[name]
            if node.lives == life and node.core is not None:
                node.take(self._stored(node, effect, damaged=damaged), self.now_ms)
        return len(waiting)

    def _stored(
        self, node: ScriptedNode, effect: StoreSnapshotPiece | VerifySnapshot, *, damaged: bool
    ) -> Event:
        if isinstance(effect, StoreSnapshotPiece):
            end = node.disk.store_piece(effect.snapshot, effect.position, effect.data)
            if end is None:
                return SnapshotRefused(effect.snapshot, "it does not follow")
            return SnapshotPieceStored(effect.snapshot, end)
        made = (snapshot for other in self.nodes.values() for snapshot in other.disk.snapshots)
        whole = next((o for o in made if node.disk.incoming == (effect.snapshot, o.content)), None)
        if whole is None or damaged:
            return SnapshotRefused(effect.snapshot, "damaged")
        node.loaded = whole
        return SnapshotVerified(whole.head)

    def passes(self, speaker: ScriptedNode, listener: ScriptedNode) -> bool:
        """Whether the receiver accepts the sender; a sender that believes a refusal stops (S3)."""
        if not self.gated or speaker.gate is None or listener.gate is None:
            return True
        reason = listener.gate.admit(speaker.key, speaker.gate.start)
        if reason is None:
            return True
        if self.on_refusal:
            self.on_refusal(
                f"{listener.name} refuses {speaker.name}: {reason_sentences.staleness(reason)}"
            )
        if speaker.gate.believes(listener.key):
            speaker.disk.stale = True
            speaker.stop()
        return False

    def _find(self, message: Message) -> ScriptedNode | None:
        if message.target is None:
            others = [
                node
                for node in self.nodes.values()
                if node.core and node.name != message.source and not self._cut_from(message, node)
            ]
            return others[0] if others else None
        node = self.nodes.get(message.target)
        if node is None or node.core is None or self._cut_from(message, node):
            return None
        return node

    def _cut_from(self, message: Message, node: ScriptedNode) -> bool:
        return self.is_cut(message.source, node.name)

    def is_cut(self, name: str, other: str) -> bool:
        """Whether nothing passes between two replicas."""
        return name != other and bool({name, other} & self.isolated)

    def _fail(self, message: Message) -> None:
        asker = self.nodes[message.source]
        if self._life(asker) == message.answers:
            target = key_of(message.target) if message.target else None
            asker.take(RequestFailed(target, message.request), self.now_ms)

    @staticmethod
    def _life(node: ScriptedNode) -> tuple[str, int]:
        return node.name, node.disk.incarnation if node.core else -1

    def _carry_out(self, node: ScriptedNode, effect: Effect) -> None:
        if self.watch:
            self.watch(node, effect)
        match effect:
            case SendRequest(target, request):
                name = named(target) if target else None
                if target and not name:
                    return  # to a replica that no script can name: lost
                message = Message(self.number(), node.name, name, request, answers=self._life(node))
                self.pending.append(message)
            case SendResponse(request_id, response):
                self._answer(request_id, response)
            case ServeFetch():
                self._answer(effect.request_id, node.read(effect))
            case ServeSnapshot():
                self._answer(effect.request_id, node.serve_piece(effect, self.piece_bytes))
            case StoreSnapshotPiece() | VerifySnapshot():
                self.storage.append((node.name, node.lives, effect))
            case AppendAccepted() | Refused() | VoterChangeCompleted() | Confirmed() | Done():
                self.answers.setdefault(effect.request_id, []).append(effect)
            case _:
                pass

    def _answer(self, request_id: int, response: Response) -> None:
        question = self._questions.pop(request_id, None)
        if question is not None:
            assert question.target is not None
            self.pending.append(
                Message(
                    self.number(),
                    question.target,
                    question.source,
                    question.request,
                    response,
                    question.answers,
                )
            )
