"""The operator as a process of its own, as a user would run it outside the cluster."""

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

from kraftquorum_devcluster.backoff import Backoff
from kraftquorum_devcluster.processes import Child, spawn
from kraftquorum_devcluster.processnode.context import NodeSettings

from .errors import DeadlineError, OperatorEndedError
from .restarts import signal_name

_POLL_S = 0.1
_GRACE_S = 8.0
_ASK = aiohttp.ClientTimeout(total=5)
_ACTIVE = "kraftquorum_operator_active 1"


class OperatorProcess:
    """Starts the operator, sees that it lives, stops it. It dies with this process.

    Args:
        kubeconfig: Of the cluster.
        log: Where its output goes.
        owner: Mark by which a later demo finds what a killed one left.
        metrics: Address and port of its metrics.

    Attributes:
        restarts: How often `keep_running` started it again.
    """

    def __init__(self, kubeconfig: Path, log: Path, owner: str, metrics: tuple[str, int]) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._owner = owner
        self._host, self._port = metrics
        self._child: Child | None = None
        self._began_s = 0.0
        self.restarts = 0

    @property
    def metrics_url(self) -> str:
        """Where its metrics are."""
        return f"http://{self._host}:{self._port}/metrics"

    @property
    def command(self) -> list[str]:
        """The command line."""
        program = Path(sys.executable).with_name("kraftquorum-operator")
        options = ["--kubeconfig", str(self._kubeconfig), "--metrics-port", str(self._port)]
        return [str(program), "run", *options]

    async def start(self, within_s: float) -> None:
        """Start it and wait until it is the active operator.

        Raises:
            OperatorEndedError: It ended at once.
            DeadlineError: It did not take its Lease in time.
        """
        await self._await_active(await self._spawn(), within_s)

    async def watch(self) -> None:
        """Return never.

        Raises:
            OperatorEndedError: It ended by itself.
        """
        child = self._started()
        await child.process.wait()
        raise self._ended(child)

    async def keep_running(
        self, say: Callable[[str], None], settings: NodeSettings | None = None
    ) -> None:
        """Start it again whenever it ends, as a Deployment does; return never.

        The first restart is at once, the pauses before the next ones grow, as the process node's
        do for pods.

        Args:
            say: Called with a sentence when it ends and when it is active again.
            settings: For the pauses; None: the process node's.
        """
        settings = settings or NodeSettings()
        backoff = Backoff(
            settings.backoff_first_s, settings.backoff_max_s, settings.backoff_reset_s
        )
        child = self._started()
        while True:
            code = await child.process.wait()
            ended_s = time.monotonic()
            ran_s = ended_s - self._began_s
            pause_s = backoff.after(ran_s)
            self.restarts += 1
            when = f"after a pause of {pause_s:g} s" if pause_s else "at once"
            say(
                f"the operator {_ending(code)} after {ran_s:.1f} s; "
                f"it is restarted {when} (restart {self.restarts})"
            )
            await asyncio.sleep(pause_s)
            child = await self._spawn()
            try:
                await self._await_active(child, math.inf)
            except OperatorEndedError:
                continue
            say(f"the operator is active again, {time.monotonic() - ended_s:.1f} s after it ended")

    def _started(self) -> Child:
        assert self._child is not None, "start() comes first"  # noqa: S101
        return self._child

    async def _spawn(self) -> Child:
        self._began_s = time.monotonic()
        self._child = await spawn(
            "operator",
            self.command,
            log=self._log,
            cwd=self._log.parent,
            env={**os.environ, "KRAFTQUORUM_METRICS_HOST": self._host},
            owner=self._owner,
        )
        return self._child

    def _ended(self, child: Child) -> OperatorEndedError:
        assert child.process.returncode is not None, "it has ended"  # noqa: S101
        how = _ending(child.process.returncode)
        return OperatorEndedError(f"the operator {how}; see {self._log}")

    async def _await_active(self, child: Child, within_s: float) -> None:
        last_answer = "no answer"
        try:
            async with asyncio.timeout(within_s), aiohttp.ClientSession(timeout=_ASK) as session:
                while True:
                    if not child.running:
                        raise self._ended(child)
                    try:
                        async with session.get(self.metrics_url) as answer:
                            text = await answer.text()
                            if _ACTIVE in text:
                                return
                            last_answer = "it does not hold the Lease"
                    except (aiohttp.ClientError, TimeoutError) as error:
                        last_answer = str(error) or repr(error)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise DeadlineError("the operator is active", within_s, last_answer) from None

    async def stop(self) -> None:
        """Stop it, with grace; nothing happens if it does not run."""
        if self._child is not None:
            await self._child.stop(_GRACE_S)


def _ending(code: int) -> str:
    """How a process ended, by what its parent is given."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal_name(-code)}"
