"""One run of the demo: set-up, script, proof, removal. `steps` has the script itself."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from types import FrameType

from rich.console import Console

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import DevClusterError

from . import shell_commands
from .conclusion import Conclusion, Proof
from .credentials import APP, REPORTS
from .demo_state import DemoState
from .environment import Environment
from .errors import DemoError
from .plan import Plan
from .restarts import PodRestarts
from .steps import DemoSteps
from .task_groups import run_with_background
from .view import make_view
from .watcher import Watcher
from .writers import Writers

_FRAME_S = 0.25
_PATIENCE = 3
"""So many signals, and the process ends without clearing away: the rest dies with it."""


def catch_signals() -> None:
    """Let every signal that asks for the end do what Ctrl-C does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class DemoRun:
    """One run.

    Args:
        environment: The cluster, the operator and the clients.
        plan: How much of it.
        console: Where people look.
        hold: Whether to leave everything running until a signal comes, and to restart the
            operator when it ends.
        spark: Whether the pipeline is to run on what is left.
    """

    def __init__(
        self,
        environment: Environment,
        plan: Plan,
        console: Console,
        *,
        hold: bool,
        spark: bool = False,
    ) -> None:
        self._environment = environment
        self._plan = plan
        self._began_s = time.monotonic()
        self._hold = hold
        self._spark = spark
        self._state = DemoState()
        self._view = make_view(console, self._state, self._clock)
        self._seconds = environment.seconds
        self._signals = 0
        self._proof: Proof | None = None

    def _clock(self) -> float:
        return time.monotonic() - self._began_s

    def execute(self) -> int:
        """Do everything; returns the exit code.

        Raises:
            KeyboardInterrupt: Stopped by a signal.
            DemoError, DevClusterError: It could not begin, or a step failed.
        """
        environment = self._environment
        conclusion = Conclusion(environment, self._state, self._view, self._clock, self._spark)
        self._view.tell(f"kraftquorum demo, in {environment.places.shown(environment.places.out)}")
        environment.prepare()
        try:
            environment.build()
            # The first run builds for minutes: times and the picture begin with the demo itself.
            self._began_s = time.monotonic()
            environment.start_cluster()
            self._view.say(f"a Kubernetes API at {environment.cluster.server_url}, on this machine")
            try:
                asyncio.run(self._run())
            except (DemoError, DevClusterError):
                conclusion.save_evidence()
                raise
        finally:
            catch_signals()
            with environment.timed("stop"):
                environment.stop()
            conclusion.keep()
        assert self._proof is not None, "the script's last step was the comparison"  # noqa: S101
        return conclusion.conclude(self._proof, held=self._hold)

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
        environment = self._environment
        async with AsyncExitStack() as stack:
            with environment.timed("operator"):
                await environment.apply_crds(self._plan.start_s)
                stack.push_async_callback(environment.operator.stop)
                await environment.operator.start(self._plan.start_s)
            self._view.say("the operator is active, a process of its own with a kubeconfig")
            api = ApiClient(
                environment.cluster.server_url,
                environment.cluster.token,
                environment.cluster.ca_file,
            )
            api.open()
            stack.push_async_callback(api.close)
            watching = await stack.enter_async_context(environment.client(REPORTS))
            writing = await stack.enter_async_context(environment.client(APP))
            watcher = Watcher(
                watching, api, environment.resource_path, self._state, self._clock, self._view.say
            )
            writers = Writers(writing, self._state.record, self._plan, self._clock)
            demo_steps = DemoSteps(
                environment=environment,
                plan=self._plan,
                state=self._state,
                view=self._view,
                watcher=watcher,
                writers=writers,
                clock=self._clock,
                seconds=self._seconds,
            )
            self._view.start()
            stack.callback(self._view.stop)
            restarts = PodRestarts(api, environment.pods_path, self._view.say)
            await run_with_background(
                self._perform(demo_steps),
                self._watch_operator(),
                watcher.run(),
                restarts.run(),
                writers.write_on(),
                self._draw(),
            )

    async def _watch_operator(self) -> None:
        """Let no end of the operator go unseen: it ends the demo, unless that is held."""
        if self._hold:
            await self._environment.operator.keep_running(self._view.say)
        else:
            await self._environment.operator.watch()

    async def _perform(self, demo_steps: DemoSteps) -> None:
        proof = self._proof = await demo_steps.run()
        if self._hold:
            await self._stay(proof)
            proof.voters = self._state.voters()
            proof.operator_restarts = self._environment.operator.restarts

    async def _draw(self) -> None:
        while True:
            self._view.draw()
            await asyncio.sleep(_FRAME_S)

    async def _stay(self, proof: Proof) -> None:
        """Leave it running until a signal comes, which is then no reason to fail."""
        for line in proof.lines():
            self._view.tell(line)
        env = await asyncio.to_thread(shell_commands.write_env, self._environment)
        self._view.tell("\nIt goes on running until Ctrl-C. In another terminal:\n")
        for line in await asyncio.to_thread(shell_commands.commands, self._environment, env):
            self._view.tell(f"    {line}")
        task = asyncio.current_task()
        assert task is not None, "inside asyncio.run"  # noqa: S101
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self._signals:
                raise
            task.uncancel()
