"""The operator as a process of its own, with its default settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kraftquorum_bench.process_usage import cpu_us, resident_mib

PROGRAM = Path(sys.executable).parent / "kraftquorum-operator"
END_S = 20.0
"""How long the operator may take to end."""


class OperatorProcess:
    """One operator.

    Args:
        kubeconfig: of its own user.
        log: where its log goes.
        settings: KRAFTQUORUM_* variables that are not the defaults.
    """

    def __init__(
        self, kubeconfig: Path, log: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("KRAFTQUORUM_")}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [PROGRAM, "run", "--kubeconfig", kubeconfig],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=inherited | dict(settings or {}),
            )
        self.log = log

    def check_running(self) -> None:
        """Raise if it has ended by itself, with the end of its log.

        Raises:
            RuntimeError: it has.
        """
        code = self._process.poll()
        if code is not None:
            end = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"the operator exited with code {code}: {end}")

    @property
    def resident_mib(self) -> float:
        """Memory that is in RAM."""
        return resident_mib(self._process.pid)

    @property
    def cpu_s(self) -> float:
        """Processor time of its living threads."""
        return cpu_us(self._process.pid) / 1e6

    def stop(self) -> None:
        """End it; by SIGKILL if it does not end in time."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
