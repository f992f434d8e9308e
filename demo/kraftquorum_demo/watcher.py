"""The watcher: asks the quorum and the API server several times a second, and waits for changes.

What the resource's status says is what any user of `kubectl` sees; who votes and who
leads is asked of the quorum itself, confirmed by a majority.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError
from raftnode.api.model import QuorumInfo
from raftnode.client import ClientError, QuorumClient

from .demo_state import DemoState
from .errors import DeadlineError
from .history import ReplicaId
from .resource import Resource

_QUORUM_EVERY_S = 0.1
_RESOURCE_EVERY_S = 0.15
_ASK_MS = 1500
_SILENT_S = 1.0
"""An idle quorum takes half a second to confirm its leader; longer, and there is none."""


@dataclass(slots=True)
class Watcher:
    """Keeps the state's quorum and resource up to date; `until` waits on them.

    Attributes:
        path: Of the resource at the API server.
    """

    client: QuorumClient
    api: ApiClient
    path: str
    state: DemoState
    clock: Callable[[], float]
    say: Callable[[str], None]
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def quorum(self) -> QuorumInfo | None:
        """What the leader says; None while none answers."""
        return self.state.quorum

    @property
    def resource(self) -> Resource:
        """What the API server says."""
        return self.state.resource

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_quorum(), name="watch quorum")
            group.create_task(self._watch_resource(), name="watch resource")

    async def _watch_quorum(self) -> None:
        answered_s = self.clock()
        while True:
            try:
                quorum = await self.client.describe_quorum(confirmed=True, timeout_ms=_ASK_MS)
            except ClientError:
                quorum = None
            now_s = self.clock()
            if quorum is not None:
                answered_s = now_s
            if quorum is not None or now_s - answered_s > _SILENT_S:
                self.state.quorum = quorum
                for text in self.state.history.observe(quorum, answered_s):
                    self.say(text)
            self._tell()
            await asyncio.sleep(_QUORUM_EVERY_S)

    async def _watch_resource(self) -> None:
        said = ""
        while True:
            try:
                resource = Resource.of(await self.api.get(self.path))
            except (ApiError, aiohttp.ClientError, TimeoutError):
                resource = self.resource
            self.state.resource = resource
            doing = resource.waiting_for or resource.action or resource.phase
            if doing and doing != said:
                said = doing
                self.say(f"operator: {resource.doing}")
            self._tell()
            await asyncio.sleep(_RESOURCE_EVERY_S)

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, check: Callable[[], bool], *, within_s: float, what: str) -> None:
        """Wait until something is so.

        Raises:
            DeadlineError: it is not, within the time given.
        """
        try:
            async with asyncio.timeout(within_s):
                while not check():
                    await self._changed.wait()
        except TimeoutError:
            raise DeadlineError(what, within_s, self.describe()) from None

    async def led(self, *, within_s: float, what: str = "a leader") -> QuorumInfo:
        """Wait until a leader answers; returns what it says.

        Raises:
            DeadlineError: None does, within the time given.
        """
        await self.until(lambda: self.quorum is not None, within_s=within_s, what=what)
        assert self.quorum is not None, "nothing else ran since"  # noqa: S101
        return self.quorum

    def describe(self) -> str:
        """The newest state in a line."""
        resource = self.resource
        phase = resource.phase or "none"
        parts = [f"phase {phase}, {resource.replicas} voters, operator {resource.doing}"]
        if self.quorum is None:
            parts.append("no leader answers")
        else:
            voters = ", ".join(str(ReplicaId.of(voter)) for voter in self.quorum.voters)
            parts.append(f"{ReplicaId.of(self.quorum.leader)} leads voters {voters}")
        return "; ".join(parts)

    def redundant(self, voters: int) -> bool:
        """Whether so many voters are committed, caught up, and no change is under way."""
        quorum = self.quorum
        return (
            quorum is not None
            and quorum.voter_record_committed
            and quorum.pending_change is None
            and len(quorum.voters) == len(quorum.committed_voters) == voters
            and len({voter.node_id for voter in quorum.voters}) == voters
            and all(voter.caught_up for voter in quorum.voters)
        )

    def without(self, replica_id: ReplicaId, voters: int) -> bool:
        """Whether the quorum is redundant again, and without this replica."""
        quorum = self.quorum
        return (
            quorum is not None
            and self.redundant(voters)
            and replica_id not in {ReplicaId.of(voter) for voter in quorum.voters}
        )

    def led_by_another(self, replica_id: ReplicaId) -> bool:
        """Whether a leader answers, and it is not this one."""
        return self.quorum is not None and ReplicaId.of(self.quorum.leader) != replica_id

    def level(self, end: int = 0) -> bool:
        """Whether every voter has acknowledged all there is, and up to an offset at least."""
        quorum = self.quorum
        return (
            quorum is not None
            and end <= quorum.high_watermark == quorum.log_end_offset
            and all(voter.lag == 0 for voter in quorum.voters)
        )
