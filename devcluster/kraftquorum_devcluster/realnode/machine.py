"""One node from outside: its files, its first process, commands run on it."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from kraftquorum_devcluster.errors import CommandError, StartError
from kraftquorum_devcluster.files import remove_tree, write_atomically
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.processes import Child, spawn

from .packages import search_path
from .settings import (
    NodePlan,
    cni_config,
    containerd_config,
    init_config,
    kubelet_config,
    proxy_config,
)

_INIT = str(Path(__file__).with_name("nodeinit.py"))
_FIRST_PROCESS_S = 10.0
_END_S = 10.0


class Machine:
    """A node; its files lie under ``state_dir/nodes/<name>``."""

    def __init__(
        self,
        plan: NodePlan,
        state_dir: Path,
        namespace: Path,
        binaries: Path,
        server_url: str,
        *,
        in_memory: bool,
    ) -> None:
        self.plan = plan
        self.first_pid = 0
        self._state_dir = state_dir
        self._directory = state_dir / "nodes" / plan.name
        self._logs_dir = state_dir / "logs" / plan.name
        self._namespace = namespace
        self._binaries = binaries
        self._server_url = server_url
        self._in_memory = in_memory
        self._child: Child | None = None

    async def start(self, tokens: Mapping[str, str], pki_dir: Path, owner: str) -> None:
        """Start the node's programs; they go on by themselves.

        Args:
            tokens: Of the users ``kubelet`` and ``kube-proxy``.
            pki_dir: Where the cluster's certificates are.
            owner: Mark of the processes, see `processes`.

        Raises:
            StartError: The first process did not come up.
        """
        await asyncio.to_thread(self._write, tokens, pki_dir)
        log = self._logs_dir / "init.log"
        self._child = await spawn(
            self.plan.name,
            [
                *["nsenter", f"--net={self._namespace}"],
                *["unshare", "--mount", "--propagation=slave", "--pid", "--fork"],
                *["--kill-child", "--mount-proc"],
                *[sys.executable, "-I", "-S", _INIT, str(self._directory / "config" / "init.json")],
            ],
            log=log,
            cwd=self._directory,
            env={"PATH": search_path()},
            owner=owner,
        )
        self.first_pid = await self._first_process()

    async def stop(self) -> None:
        """End everything on the node, at once."""
        if self._child is not None:
            await self._child.stop(0)
        if self.first_pid:
            await asyncio.to_thread(_await_end, self.first_pid)

    async def _first_process(self) -> int:
        assert self._child is not None  # noqa: S101 - only called by `start`
        pid = self._child.pid
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_PROCESS_S):
                while self._child.running:
                    if children := child_pids(pid):
                        return children[0]
                    await asyncio.sleep(0.02)
        log = (self._logs_dir / "init.log").read_text(encoding="utf-8", errors="replace")
        raise StartError(self.plan.name, log[-1000:])

    def _write(self, tokens: Mapping[str, str], pki_dir: Path) -> None:
        private_dir(self._logs_dir)
        config = private_dir(self._directory / "config")
        for name in ("lib", "log"):
            directory = private_dir(self._directory / name)
            directory.chmod(0o755)
        # Addresses of pods that a killed node never gave back.
        remove_tree(self._directory / "lib" / "cni")
        for name in ("bin", "logs"):
            private_dir(config / name)
        cni = private_dir(config / "cni")
        write_atomically(cni / "10-kraftquorum.conflist", cni_config(self.plan))
        inside = private_dir(config / "pki")
        for file in ("ca.crt", "server.crt", "server.key"):
            write_atomically(inside / file, (pki_dir / file).read_text(encoding="utf-8"))
        texts = {
            "containerd.toml": containerd_config(),
            "kubelet.json": kubelet_config(self.plan),
            "kube-proxy.json": proxy_config(self.plan),
            "init.json": init_config(
                self.plan,
                self._directory,
                self._logs_dir,
                self._binaries,
                in_memory=self._in_memory,
            ),
        }
        for name, text in texts.items():
            write_atomically(config / name, text)
        for user, token in tokens.items():
            write_kubeconfig(
                config / f"{user}.kubeconfig", self._server_url, token, pki_dir / "ca.crt"
            )


def _await_end(first_pid: int) -> None:
    """Wait for a first process, which ends after all others of its namespace."""
    deadline = time.monotonic() + _END_S
    while Path(f"/proc/{first_pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def child_pids(pid: int) -> list[int]:
    """Children of a process's main thread; none if it is gone."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [int(word) for word in text.split()]
    return []


def run_on_node(
    first_pid: int, *command: str, stdin: Path | None = None, timeout_s: float = 300
) -> str:
    """Run a program in the namespaces of a node; returns what it printed.

    Raises:
        CommandError: It ended with an error.
    """
    words = ["nsenter", f"--target={first_pid}", "--mount", "--net", "--pid", *command]
    with (stdin or Path(os.devnull)).open("rb") as source:
        done = subprocess.run(
            words,
            stdin=source,
            env={"PATH": search_path()},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    if done.returncode != 0:
        raise CommandError(" ".join(command), done.returncode, done.stderr)
    return done.stdout
