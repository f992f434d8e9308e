"""The operator as a process of its own, as a user would run it outside the cluster."""

import asyncio
import os
import sys
from pathlib import Path

import aiohttp

from kraftquorum_devcluster.processes import Child, spawn

from .errors import DeadlineError, OperatorEndedError

_POLL_S = 0.1
_GRACE_S = 8.0
_ACTIVE = "kraftquorum_operator_active 1"


class OperatorProcess:
    """Starts the operator, sees that it lives, stops it. It dies with this process.

    Args:
        kubeconfig: Of the cluster.
        log: Where its output goes.
        owner: Mark by which a later demo finds what a killed one left.
        metrics: Address and port of its metrics.
    """

    def __init__(self, kubeconfig: Path, log: Path, owner: str, metrics: tuple[str, int]) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._owner = owner
        self._host, self._port = metrics
        self._child: Child | None = None

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
        self._child = await spawn(
            "operator",
            self.command,
            log=self._log,
            cwd=self._log.parent,
            env={**os.environ, "KRAFTQUORUM_METRICS_HOST": self._host},
            owner=self._owner,
        )
        await self._await_active(self._child, within_s)

    async def watch(self) -> None:
        """Return never.

        Raises:
            OperatorEndedError: It ended by itself.
        """
        assert self._child is not None, "start() comes first"  # noqa: S101
        await self._child.process.wait()
        raise self._ended(self._child)

    def _ended(self, child: Child) -> OperatorEndedError:
        code = child.process.returncode
        return OperatorEndedError(f"the operator ended with exit code {code}; see {self._log}")

    async def _await_active(self, child: Child, within_s: float) -> None:
        seen = "no answer"
        try:
            async with asyncio.timeout(within_s), aiohttp.ClientSession() as session:
                while True:
                    if not child.running:
                        raise self._ended(child)
                    try:
                        async with session.get(self.metrics_url) as answer:
                            text = await answer.text()
                            if _ACTIVE in text:
                                return
                            seen = "it does not hold the Lease"
                    except aiohttp.ClientError as error:
                        seen = str(error)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise DeadlineError("the operator is active", within_s, seen) from None

    async def stop(self) -> None:
        """Stop it, with grace; nothing happens if it does not run."""
        if self._child is not None:
            await self._child.stop(_GRACE_S)
