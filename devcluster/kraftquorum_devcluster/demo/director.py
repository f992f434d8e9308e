"""Leads through a run: set-up, script, proof, clearing away. `steps` has the script itself."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack

from rich.console import Console

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import DevClusterError

from . import hold as holding
from . import keeping, report, timeline
from .beside import beside
from .data import tzdata_version
from .errors import DemoError
from .history import Seat
from .offline import Agreement, compare_logs, read_log
from .plan import Plan
from .scene import Scene
from .stage import Stage
from .steps import Play
from .view import make_view
from .watching import Watcher
from .writers import Writers

_FRAME_S = 0.25
_TAIL_LINES = 15
_PATIENCE = 3
"""So many signals, and the process ends without clearing away: the rest dies with it."""


class Director:
    """One run.

    Args:
        stage: What runs beneath.
        plan: How much of it.
        console: Where people look.
        began_s: When the process began, by the monotonic clock.
        hold: Whether to leave everything running until a signal comes.
    """

    def __init__(
        self, stage: Stage, plan: Plan, console: Console, *, began_s: float, hold: bool
    ) -> None:
        self._stage = stage
        self._plan = plan
        self._began_s = began_s
        self._hold = hold
        self._scene = Scene()
        self._view = make_view(console, self._scene, self._clock)
        self._seconds = stage.seconds
        self._play: Play | None = None
        self._signals = 0
        self._final_voters: list[int] = []

    def _clock(self) -> float:
        return time.monotonic() - self._began_s

    def direct(self) -> int:
        """Do everything; returns the exit code.

        Raises:
            KeyboardInterrupt: Stopped by a signal.
            DemoError, DevClusterError: It could not begin, or a step failed.
        """
        stage = self._stage
        self._view.tell(f"kraftquorum demo, in {stage.places.out}")
        stage.prepare()
        try:
            stage.build()
            stage.start_cluster()
            self._view.say(f"a Kubernetes API at {stage.cluster.server_url}, in this machine")
            try:
                asyncio.run(self._run())
            except (DemoError, DevClusterError):
                self._save_evidence()
                raise
        finally:
            began_s = self._clock()
            stage.stop()
            self._seconds["stop"] = self._clock() - began_s
        return self._finish()

    # -- while it runs ---------------------------------------------------------------------------

    async def _run(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None, "run by asyncio.run"  # noqa: S101
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, task)
        try:
            await self._with_operator()
        except asyncio.CancelledError:
            if self._signals:
                raise KeyboardInterrupt from None
            raise

    def _on_signal(self, task: asyncio.Task[None]) -> None:
        self._signals += 1
        if self._signals >= _PATIENCE:
            os._exit(130)
        self._view.tell("stopping, a few seconds …")
        if self._signals == 1:
            task.cancel()

    async def _with_operator(self) -> None:
        stage = self._stage
        async with AsyncExitStack() as stack:
            with stage.timed("operator"):
                await stage.cluster.kubectl_async("apply", "-f", str(stage.places.crds))
                await stage.cluster.kubectl_async(
                    "wait", "--for=condition=Established", "-f", str(stage.places.crds)
                )
                stack.push_async_callback(stage.operator.stop)
                await stage.operator.start(self._plan.start_s)
            self._view.say("the operator is active, a process of its own with a kubeconfig")
            api = ApiClient(stage.cluster.server_url, stage.cluster.token, stage.cluster.ca_file)
            api.open()
            stack.push_async_callback(api.close)
            watching = await stack.enter_async_context(stage.client())
            writing = await stack.enter_async_context(stage.client())
            watcher = Watcher(
                watching, api, stage.resource_path, self._scene, self._clock, self._view.say
            )
            writers = Writers(writing, self._scene.record, self._plan, self._clock)
            play = self._play = Play(
                stage=stage,
                plan=self._plan,
                scene=self._scene,
                view=self._view,
                watcher=watcher,
                writers=writers,
                clock=self._clock,
                seconds=self._seconds,
            )
            self._view.start()
            stack.callback(self._view.stop)
            await beside(
                self._perform(play),
                stage.operator.watch(),
                watcher.run(),
                writers.write_on(),
                self._draw(),
            )

    async def _perform(self, play: Play) -> None:
        await play.run()
        if self._hold:
            await self._stay(play)
        if (quorum := self._scene.quorum) is not None:
            self._final_voters = sorted(Seat.of(voter).node_id for voter in quorum.voters)

    async def _draw(self) -> None:
        while True:
            self._view.draw()
            await asyncio.sleep(_FRAME_S)

    async def _stay(self, play: Play) -> None:
        """Leave it running until a signal comes, which is then no reason to fail."""
        self._tell_proof(play)
        env = await asyncio.to_thread(holding.write_env, self._stage)
        self._view.tell("\nIt goes on running until Ctrl-C. In another terminal:\n")
        for line in await asyncio.to_thread(holding.commands, self._stage, env):
            self._view.tell(f"    {line}")
        task = asyncio.current_task()
        assert task is not None, "inside asyncio.run"  # noqa: S101
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self._signals:
                raise
            task.uncancel()

    # -- afterwards ------------------------------------------------------------------------------

    def _save_evidence(self) -> None:
        """Keep what explains a failure, and show the beginning of it."""
        logs = self._stage.places.logs
        described = keeping.keep_description(self._stage.cluster, logs)
        keeping.keep_logs(self._stage.cluster, logs)
        keeping.keep_writes(self._scene.record.writes, self._stage.places.out / "writes.jsonl")
        self._view.tell("\n--- kubectl describe krq")
        self._view.tell(described)
        shown = [logs / "operator.log", *sorted((logs / "cluster").glob("pods/**/*.log"))]
        for path in shown:
            self._view.tell(f"--- the end of {path}")
            self._view.tell(keeping.tail(path, _TAIL_LINES))
        self._view.tell(f"\nall of it is in {logs}\n")

    def _finish(self) -> int:
        """Look at what the replicas left, write everything down, and say how it went."""
        play, places = self._play, self._stage.places
        assert play is not None, "the script has run"  # noqa: S101
        assert play.verdict is not None, "its last step was the comparison"  # noqa: S101
        assert play.back is not None, "its last step was the comparison"  # noqa: S101
        kept = keeping.keep_data(places.state, places.out / "data")
        keeping.keep_logs(self._stage.cluster, places.logs)
        keeping.keep_writes(self._scene.record.writes, places.out / "writes.jsonl")
        final = [name for name in map(self._stage.pod, self._final_voters) if name in kept]
        logs = {name: read_log(places.out / "data" / name) for name in final}
        agreement = compare_logs(logs, play.back.high_watermark)
        history, record = self._scene.history, self._scene.record
        history.close(self._clock())
        end_s = history.acts[-1].span.until_s or self._clock()
        stall = record.longest_stall(end_s)
        self._seconds["longest_write_stall"] = stall.seconds
        timeline.draw(
            places.out / "timeline.png",
            history,
            record.acknowledged_at(),
            record.stalls(timeline.STALL_SHOWN_S),
            end_s,
        )
        if not self._hold:
            self._seconds["whole_demo"] = self._clock() - self._seconds.get("build", 0.0)
        ok = play.verdict.ok and agreement.ok
        found = report.make_report(
            ok=ok,
            verdict=play.verdict,
            seconds=self._seconds,
            history=history,
            stall=stall,
            controls=report.control_records(play.back.log),
            agreement=agreement,
            facts=self._facts(play),
        )
        text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        (places.out / "report.json").write_text(text, encoding="utf-8")
        if not self._hold:
            self._tell_proof(play)
        self._tell_end(agreement, ok=ok)
        return 0 if ok else 1

    def _facts(self, play: Play) -> Mapping[str, object]:
        assert play.back is not None, "the log was read back"  # noqa: S101
        return {
            "short": self._plan.zones is not None,
            "tzdata": tzdata_version(),
            "log_records": len(play.back.log),
            "keys": len(play.back.kv),
            "leader_kill": play.leader_kill,
        }

    def _tell_proof(self, play: Play) -> None:
        assert play.verdict is not None, "its last step was the comparison"  # noqa: S101
        assert play.back is not None, "its last step was the comparison"  # noqa: S101
        tell = self._view.tell
        tell("\nWhat the clients were told, against what was read back:\n")
        for line in report.verdict_lines(play.verdict):
            tell(line)
        tell("\nVoter changes in the log:\n")
        for line in report.control_lines(report.control_records(play.back.log)):
            tell(line)

    def _tell_end(self, agreement: Agreement, *, ok: bool) -> None:
        tell, out = self._view.tell, self._stage.places.out
        tell("\nTimes:\n")
        for line in report.timing_lines(self._seconds):
            tell(line)
        names = ", ".join(agreement.end_offsets)
        tell(
            f"\nThe files of {names} agree byte by byte up to offset {agreement.common_end} "
            f"({agreement.bytes_compared} bytes each)."
            if agreement.ok
            else "\nThe replicas' files do not agree:\n  " + "\n  ".join(agreement.differences)
        )
        tell("\nEvery promise was kept." if ok else "\nA PROMISE WAS BROKEN: see above.")
        tell(
            f"\nLook next at\n  {out}/timeline.png    the run as a picture"
            f"\n  {out}/report.json     all figures"
            f"\n  {out}/data/           each replica's directory as it ended"
            f"\n  {out}/logs/           what operator and nodes said"
            "\n  make demo HOLD=1      the same, left running to play with"
            "\n  docs/start.md         what each step shows"
        )
