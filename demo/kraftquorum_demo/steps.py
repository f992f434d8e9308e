"""The script: what happens, in order, and what each step waits for before the next."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kraftquorum_devcluster.errors import ApiError
from raftnode.api.model import QuorumInfo
from raftnode.client import ClientError

from .access_check import Findings, check_access
from .conclusion import Proof
from .credentials import REPORTS
from .data import tzdata_version, zone_files
from .demo_state import DemoState
from .environment import Environment
from .errors import DeadlineError, DemoError, StepFailedError
from .faults import is_alive, kill, wipe
from .history import Fault, Hang, ReplicaId, Span, StepSpan
from .plan import Plan
from .readback import read_back
from .record import Outcome
from .task_groups import run_together
from .verify import compare
from .view import View
from .watcher import Watcher
from .writers import Writers

_LOOK_S = 0.001
_ANSWERS_EACH = 4
"""More than a leader whose disk hangs can still commit: one batch, with a write of each writer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the script."""

    title: str
    why: str
    run: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class DemoSteps:
    """The script with all that it acts on; `script` lists the steps, `run` goes through them.

    Attributes:
        seconds: The figures that steps measure.
        leader_kill: What was under way when the leader was killed.
        hang: How the leader's disk hung.
        access: What nodes answered to clients without credentials or without the role.
        proof: What the last step found.
    """

    environment: Environment
    plan: Plan
    state: DemoState
    view: View
    watcher: Watcher
    writers: Writers
    clock: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    leader_kill: dict[str, object] = field(default_factory=dict[str, object])
    hang: Hang | None = None
    access: Findings = field(default_factory=Findings)
    proof: Proof | None = None

    def script(self) -> tuple[Step, ...]:
        """The steps, in order."""
        voters = self.environment.wanted
        return (
            Step(
                "Apply the quorum",
                f"{voters} nodes start blank; the operator reads their directory ids, fixes them "
                "in a latch, and they form the quorum once",
                self._apply,
            ),
            Step(
                "Write",
                f"the time zone files of tzdata {tzdata_version()}, and numbered values from now "
                "on until the end; a stranger reaches nothing, and a reader may not write",
                self._load,
            ),
            Step(
                f"Scale {voters} → {voters + 2}",
                "new nodes observe until they have caught up; then AddVoter, one at a time",
                self._scale_up,
            ),
            Step(
                f"Scale {voters + 2} → {voters}, and kill the leader in the middle of it",
                "SIGKILL as soon as the first removal is in its log; the others elect a leader "
                "and the operator continues from the state that it observes",
                self._scale_down,
            ),
            Step(
                "Destroy a follower's disk under its running process",
                "the node notices and stops; its replacement has a new directory id, so it "
                "cannot pretend to remember what it promised",
                lambda: self._lose_disk("follower"),
            ),
            Step(
                "Destroy the leader's disk",
                "the same, and a new leader first",
                lambda: self._lose_disk("leader"),
            ),
            Step(
                "Let the leader's disk hang",
                "its flushes do not return, while its process lives and answers; the others commit "
                "without it, it transfers leadership to one of them, and follows once its disk "
                "answers again",
                self._hang_disk,
            ),
            Step(
                "Read everything back",
                "the whole log and the whole store, compared byte by byte with the answers that "
                "the clients got",
                self._verify,
            ),
        )

    async def run(self) -> Proof:
        """Go through the script; returns what its last step found.

        Raises:
            StepFailedError: A step failed.
        """
        steps = self.script()
        self.state.steps_total = len(steps)
        for number, step in enumerate(steps, start=1):
            step_span = StepSpan(step.title, Span(self.clock()))
            self.state.history.steps.append(step_span)
            self.view.step(number, step.title, step.why)
            try:
                await step.run()
            except (DemoError, ClientError, OSError) as error:
                raise StepFailedError(step.title, error) from error
            finally:
                step_span.span.until_s = self.clock()
        assert self.proof is not None, "the last step makes it"  # noqa: S101
        return self.proof

    # -- steps -----------------------------------------------------------------------------------

    async def _apply(self) -> None:
        began_s = self.clock()
        manifest = self.environment.places.shown(self.environment.places.manifest)
        files = self.environment.client_files
        await self._kubectl("apply", "-f", "-", stdin=files.token_secrets(self.environment.name))
        await self._kubectl("apply", "-f", str(manifest))
        files.trust(await self._authorities())
        await self.watcher.led(within_s=self.plan.formation_s, what="a first leader")
        self.seconds["first_leader"] = self.clock() - began_s
        await self._settle(self.environment.wanted, self.plan.formation_s)
        self.seconds["formation"] = self.clock() - began_s

    async def _authorities(self) -> dict[str, Any]:
        """The ConfigMap with the CAs that clients trust, once the operator has made it."""
        try:
            async with asyncio.timeout(self.plan.formation_s):
                while True:
                    try:
                        return await self.watcher.api.get(self.environment.trusted_path)
                    except ApiError:
                        await asyncio.sleep(_LOOK_S * 100)
        except TimeoutError:
            what = f"the CAs of clients at {self.environment.trusted_path}"
            raise DeadlineError(what, self.plan.formation_s, self.watcher.describe()) from None

    async def _check_access(self) -> None:
        """Ask the nodes without TLS, without a token and beyond a role; say what they answered."""
        nodes = self.state.voters()
        listeners = [
            await asyncio.to_thread(self.environment.listeners, node_id) for node_id in nodes
        ]
        reader = self.environment.client_files.credentials(REPORTS)
        await check_access(listeners, reader, self.access)
        self.view.say(self.access.line())

    async def _load(self) -> None:
        began_s = self.clock()
        files = zone_files(self.plan.zones)
        self.writers.begin()
        try:
            async with asyncio.timeout(self.plan.load_s):
                await self.writers.load(files)
        except TimeoutError:
            what = f"{len(files)} zone files written"
            raise DeadlineError(what, self.plan.load_s, self.watcher.describe()) from None
        self.seconds["load"] = self.clock() - began_s
        size = sum(map(len, files.values()))
        self.view.say(
            f"{len(files)} zones, {size} bytes, written in {self.seconds['load']:.1f} s; "
            f"{self.plan.writers} writers go on"
        )
        await self._check_access()
        await self._linger()

    async def _scale_up(self) -> None:
        await self._scale(self.environment.wanted + 2, "scale_up")
        await self._linger()

    async def _scale_down(self) -> None:
        """Scale down and kill the leader once a removal is in its log (S7)."""
        before = self.environment.wanted + 2
        async with asyncio.timeout(self.plan.scale_s + self.plan.fault_s):
            pids = {n: await asyncio.to_thread(self.environment.pid, n) for n in range(before)}
            await run_together(
                self._kill_amid_removal(before, pids),
                self._scale(self.environment.wanted, "scale_down"),
            )
        await self._linger()

    async def _kill_amid_removal(self, before: int, pids: dict[int, int | None]) -> None:
        try:
            async with asyncio.timeout(self.plan.fault_s):
                quorum = await self._removal_begun(before)
        except TimeoutError:
            raise DeadlineError(
                "a removal in the leader's log", self.plan.fault_s, self.watcher.describe()
            ) from None
        leader = ReplicaId.of(quorum.leader)
        pid = pids[leader.node_id]
        if pid is None:
            raise DemoError(f"node {leader.node_id} leads, but has no process")
        kill(pid)
        state = "committed" if quorum.voter_record_committed else "appended, not yet committed"
        self._note(f"SIGKILL of the leader {leader}: a removal is {state}", violent=True)
        self.leader_kill = {
            "node_id": leader.node_id,
            "directory_id": leader.directory_id,
            "epoch": quorum.epoch,
            "voters_in_force": len(quorum.voters),
            "removal_committed": quorum.voter_record_committed,
        }

    async def _removal_begun(self, before: int) -> QuorumInfo:
        """Ask the leader until a removal is in its log; its own word is enough here."""
        while True:
            try:
                quorum = await self.watcher.client.describe_quorum(timeout_ms=1000)
                if len(quorum.voters) < before:
                    return quorum
            except ClientError:
                pass
            await asyncio.sleep(_LOOK_S)

    async def _lose_disk(self, whose: str) -> None:
        quorum = await self.watcher.led(within_s=self.plan.settle_s)
        leader = ReplicaId.of(quorum.leader)
        followers = [
            ReplicaId.of(voter) for voter in quorum.voters if ReplicaId.of(voter) != leader
        ]
        replica_id = leader if whose == "leader" else followers[-1]
        pid = await asyncio.to_thread(self.environment.pid, replica_id.node_id)
        began_s = self.clock()
        deleted = wipe(self.environment.volume(replica_id.node_id))
        wiped = f"disk of the {whose} {replica_id} wiped, {deleted} entries deleted"
        self._note(wiped, violent=True, lost=replica_id)
        if pid is not None:
            await self._await_end(pid, replica_id)
            self.view.say(
                f"node {replica_id.node_id} stopped {self.clock() - began_s:.1f} s after it"
            )
        await self.watcher.until(
            lambda: self.watcher.without(replica_id, self.environment.wanted),
            within_s=self.plan.redundancy_s,
            what=f"{self.environment.wanted} voters without {replica_id}",
        )
        seconds = self.clock() - began_s
        self.seconds[f"{whose}_disk"] = seconds
        self.view.say(f"full redundancy again, {seconds:.1f} s after the disk was wiped")
        await self._settle(self.environment.wanted, self.plan.redundancy_s)
        await self._linger()

    async def _await_end(self, pid: int, replica_id: ReplicaId) -> None:
        try:
            async with asyncio.timeout(self.plan.fault_s):
                while is_alive(pid):  # noqa: ASYNC110 - no event for its end
                    await asyncio.sleep(_LOOK_S * 20)
        except TimeoutError:
            raise DeadlineError(
                f"node {replica_id.node_id} notices that its disk is gone",
                self.plan.fault_s,
                "it runs",
            ) from None

    async def _hang_disk(self) -> None:
        """Let the leader's flushes hang, until writes have gone on without it for a while (S35)."""
        quorum = await self.watcher.led(within_s=self.plan.settle_s)
        replica_id = ReplicaId.of(quorum.leader)
        pid = await asyncio.to_thread(self.environment.pid, replica_id.node_id)
        faults = self.environment.disk_faults(replica_id.node_id)
        hang = Span(self.clock())
        faults.hang("sync")
        try:
            self._note(f"disk of the leader {replica_id} hangs: no flush returns", violent=True)
            await self.watcher.until(
                lambda: self.watcher.led_by_another(replica_id),
                within_s=self.plan.fault_s,
                what=f"another leader than {replica_id}, whose disk hangs",
            )
            await self._writes_go_on()
            self.view.say("writes are acknowledged without it")
            await asyncio.sleep(self.plan.hang_s)
        finally:
            hang.until_s = self.clock()
            faults.heal()
        seconds = hang.until_s - hang.from_s
        self._note(f"disk of {replica_id} answers again, after {seconds:.1f} s", violent=False)
        await self._settle(self.environment.wanted, self.plan.redundancy_s)
        caught_up_s = self.clock() - hang.until_s
        same = pid is not None and pid == await asyncio.to_thread(
            self.environment.pid, replica_id.node_id
        )
        process = "the same process" if same else "its process ended meanwhile"
        self.view.say(f"{replica_id} has caught up, {caught_up_s:.1f} s later; {process}")
        self.hang = Hang(replica_id, hang.from_s, hang.until_s, caught_up_s, same_process=same)
        stall = self.state.record.longest_within(hang.from_s, hang.until_s)
        self.seconds["hung_disk_stall"] = stall.seconds
        self.view.say(f"the longest write stall meanwhile: {stall.seconds:.1f} s")
        await self._linger()

    async def _writes_go_on(self) -> None:
        """Wait until every writer has had several answers from now on."""
        record = self.state.record
        enough = record.count(Outcome.ACKNOWLEDGED) + _ANSWERS_EACH * self.plan.writers
        await self.watcher.until(
            lambda: record.count(Outcome.ACKNOWLEDGED) >= enough,
            within_s=self.plan.fault_s,
            what="writes acknowledged again",
        )

    async def _verify(self) -> None:
        await self.writers.end()
        self.state.record.close(self.clock())
        await self._settle(self.environment.wanted, self.plan.settle_s)
        await self._level()
        await self._check_access()
        began_s = self.clock()
        try:
            async with asyncio.timeout(self.plan.read_s):
                back = await read_back(self.watcher.client)
        except TimeoutError:
            raise DeadlineError(
                "everything read back", self.plan.read_s, self.watcher.describe()
            ) from None
        self.seconds["read_back"] = self.clock() - began_s
        # An election meanwhile lets the log grow, and what was read is what the files must have.
        voters = await self._level(back.high_watermark)
        self.proof = Proof(
            verdict=compare(self.state.record.writes, back.log, back.kv),
            back=back,
            access=self.access,
            voters=voters,
            leader_kill=self.leader_kill,
            hang=self.hang,
            short=self.plan.zones is not None,
        )
        self.view.say(f"{len(back.log)} records and {len(back.kv)} keys read and compared")

    # -- helpers ---------------------------------------------------------------------------------

    async def _scale(self, voters: int, figure: str) -> None:
        began_s = self.clock()
        await self._kubectl("scale", f"krq/{self.environment.name}", f"--replicas={voters}")
        self._note(f"scale to {voters}", violent=False)
        await self._settle(voters, self.plan.scale_s)
        self.seconds[figure] = self.clock() - began_s
        self.view.say(f"{voters} voters, all caught up, after {self.seconds[figure]:.1f} s")

    async def _settle(self, voters: int, within_s: float) -> None:
        """Wait until the quorum is redundant and the operator has nothing left to do."""
        await self.watcher.until(
            lambda: (
                self.watcher.redundant(voters)
                and self.watcher.resource.settled
                and self.watcher.resource.replicas == voters
            ),
            within_s=within_s,
            what=f"{voters} voters, caught up, and nothing left to do",
        )

    async def _level(self, end: int = 0) -> list[int]:
        """Wait until every voter has all there is, up to an offset at least; returns who votes."""
        await self.watcher.until(
            lambda: self.watcher.level(end), within_s=self.plan.settle_s, what="no voter lags"
        )
        return self.state.voters()

    async def _kubectl(self, *arguments: str, stdin: str | None = None) -> None:
        self.view.tell(f"    $ kubectl {' '.join(arguments)}")
        for line in (
            await self.environment.cluster.kubectl_async(*arguments, stdin=stdin)
        ).splitlines():
            self.view.tell(f"    {line}")

    async def _linger(self) -> None:
        await asyncio.sleep(self.plan.linger_s)

    def _note(self, text: str, *, violent: bool, lost: ReplicaId | None = None) -> None:
        self.state.history.faults.append(Fault(self.clock(), text, violent, lost))
        self.view.say(f"!! {text}" if violent else text)
