"""One container of a pod: a local process, started, probed and started again.

Knows the process and its `ContainerState`; `worker` knows the pod and reports.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from kraftquorum_devcluster import clock
from kraftquorum_devcluster.backoff import Backoff
from kraftquorum_devcluster.errors import ApiError, NotReadyToRunError
from kraftquorum_devcluster.objects import Json, child
from kraftquorum_devcluster.processes import CONTAINER_VARIABLE, Child, kill_owned, spawn
from kraftquorum_devcluster.tasks import TaskSet

from .context import NodeSettings
from .mounts import PathRewriter
from .podspec import stop_hook
from .prober import ProbeTarget, run_hook, watch_probe
from .probes import ProbeKind
from .status import ContainerState, Terminated

_MESSAGE_MAX_BYTES = 4096
_LOG_FALLBACK_BYTES = 2048
_RETRY_PREPARE_S = 0.5
_LOGS_KEPT = 5
_GRACE_AFTER_HOOK_S = 2.0
"""What the process has left at least, however long its hook took: the kubelet's number."""


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a start needs.

    Attributes:
        command: The command line, expanded and rewritten.
        env: The complete environment.
        termination_file: Where the process may leave its last words.
    """

    command: list[str]
    env: dict[str, str]
    cwd: Path
    termination_file: Path
    rewriter: PathRewriter


@dataclass(frozen=True, slots=True)
class ContainerHooks:
    """What the container asks of its pod.

    Attributes:
        prepare: Makes the `Launch`; may raise `NotReadyToRunError`.
        changed: Called after each change of the state.
        tell: Emits an event: reason, message, whether it is a warning.
    """

    prepare: Callable[[Json], Awaitable[Launch]]
    changed: Callable[[], None]
    tell: Callable[[str, str, bool], None]


def _not_begun(program: str, now: str) -> Terminated:
    """How a container ends that names a program which does not exist, as containerd says it."""
    return Terminated(
        exit_code=128,
        started_at=now,
        finished_at=now,
        container_id="",
        message=f'exec: "{program}": executable file not found in $PATH',
        begun=False,
    )


def base_path(programs: Path) -> str:
    """PATH of a container: given programs first, then those beside this Python."""
    beside = str(Path(sys.executable).parent)
    return os.pathsep.join([str(programs), beside, os.environ.get("PATH", os.defpath)])


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """What the pod says of all its containers.

    Attributes:
        restart: `Always`, `OnFailure` or `Never`.
        grace_s: how long a container may take to end.
    """

    restart: str
    grace_s: float


class Container:
    """Runs the command by the pod's restart policy until `stop`."""

    def __init__(
        self,
        spec: Json,
        *,
        policy: ContainerPolicy,
        address: str,
        owner: str,
        logs_dir: Path,
        settings: NodeSettings,
        hooks: ContainerHooks,
        before: Json | None,
    ) -> None:
        self.spec = spec
        self.logs_dir = logs_dir
        self.child: Child | None = None
        self.state = ContainerState(spec["name"], spec.get("image") or "")
        self._restart_policy = policy.restart
        self._grace_s = policy.grace_s
        self._address = address
        self._owner = owner
        self._mark = str(logs_dir)  # names pod, uid and container
        self._settings = settings
        self._hooks = hooks
        self._starts = 0
        self._target: ProbeTarget | None = None
        self._backoff = Backoff(
            settings.backoff_first_s, settings.backoff_max_s, settings.backoff_reset_s
        )
        self._ran_s = 0.0
        if before is not None:
            self._carry_over(before)

    def _carry_over(self, before: Json) -> None:
        """Go on from the status that a former process node reported.

        Its process is gone, so a start after it counts as a restart.
        """
        self.state.restart_count = int(before.get("restartCount") or 0)
        if (running := child(before, "state").get("running")) is not None:
            self.state.restart_count += 1
            self.state.last = Terminated(
                exit_code=137,
                started_at=running.get("startedAt") or clock.now(),
                finished_at=clock.now(),
                container_id=before.get("containerID") or "",
                message="the process node was restarted",
            )

    def log_file(self, restart: int | None = None) -> Path:
        """Log of the process now, or of an earlier one."""
        number = self.state.restart_count if restart is None else restart
        return self.logs_dir / f"{number}.log"

    async def run(self) -> None:
        """Run until the restart policy says that it is over, or until cancelled."""
        while True:
            terminated = await self._run_once()
            if not self._restarts_after(terminated.exit_code):
                self.state.terminated = terminated
                self._hooks.changed()
                return
            self.state.last = terminated
            pause_s = self._backoff.after(self._ran_s)
            if pause_s:
                message = f"back-off {pause_s:g} s restarting container"
                self.state.waiting = ("CrashLoopBackOff", message)
                self._hooks.tell("BackOff", message, True)
            self._hooks.changed()
            await asyncio.sleep(pause_s)
            self.state.restart_count += 1

    async def stop(self, grace_s: float, *, hook: bool = False) -> None:
        """End the process, its `preStop` first with ``hook``; a hook's time is part of the grace.

        Duty of the caller: cancel `run` first.
        """
        if self.child is None:
            return
        if hook and grace_s > 0:
            grace_s = await self._before_stop(self.child, grace_s)
        await self.child.end(grace_s)
        await self._end_leftovers(self.child)

    async def _before_stop(self, child: Child, grace_s: float) -> float:
        """Run ``lifecycle.preStop`` as the kubelet does; returns what is left of the grace."""
        hook = stop_hook(self.spec)
        if hook is None or self._target is None or not child.running:
            return grace_s
        begun = time.monotonic()
        problem = await run_hook(hook, self._target, child, grace_s)
        if problem is not None:
            self._hooks.tell("FailedPreStopHook", f"PreStopHook failed: {problem}", True)
        return max(_GRACE_AFTER_HOOK_S, grace_s - (time.monotonic() - begun))

    async def _end_leftovers(self, child: Child) -> None:
        """Kill what the process left behind: there is no PID namespace to do it."""
        child.signal(signal.SIGKILL)
        await asyncio.to_thread(kill_owned, self._mark, CONTAINER_VARIABLE)

    def _restarts_after(self, exit_code: int) -> bool:
        match self._restart_policy:
            case "Never":
                return False
            case "OnFailure":
                return exit_code != 0
            case _:
                return True

    async def _run_once(self) -> Terminated:
        launch = await self._prepared()
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        self._starts += 1
        started_at, begun = clock.now(), time.monotonic()
        self._ran_s = 0.0
        if shutil.which(launch.command[0], path=launch.env["PATH"]) is None:
            return _not_begun(launch.command[0], started_at)
        child = await spawn(
            self.spec["name"],
            launch.command,
            log=self.log_file(),
            cwd=launch.cwd,
            env=launch.env | {CONTAINER_VARIABLE: self._mark},
            owner=self._owner,
        )
        self.child = child
        self.state.container_id = f"process://{child.pid}"
        self.state.running_since = started_at
        self.state.started = "startupProbe" not in self.spec
        self.state.ready = self.state.started and "readinessProbe" not in self.spec
        self._hooks.tell("Started", f"Started container {self.spec['name']}", False)
        self._hooks.changed()
        self._target = self._probe_target(launch)
        probes = TaskSet(f"probes/{self.spec['name']}")
        try:
            probes.start(self._probe(child, self._target, probes), "all")
            code = await child.process.wait()
        finally:
            await probes.cancel_all()
        await self._end_leftovers(child)
        self.state.running_since = None
        self.state.started = self.state.ready = False
        exit_code = code if code >= 0 else 128 - code
        self._ran_s = time.monotonic() - begun
        self._forget_old_logs()
        return Terminated(
            exit_code=exit_code,
            started_at=started_at,
            finished_at=clock.now(),
            container_id=self.state.container_id,
            message=self._last_words(launch.termination_file, exit_code),
        )

    async def _prepared(self) -> Launch:
        while True:
            try:
                return await self._hooks.prepare(self.spec)
            except NotReadyToRunError as error:
                problem = (error.reason, str(error))
            except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = ("CreateContainerError", str(error) or repr(error))
            if self.state.waiting != problem:
                self.state.waiting = problem
                self._hooks.tell(*problem, True)
                self._hooks.changed()
            await asyncio.sleep(_RETRY_PREPARE_S)

    def _probe_target(self, launch: Launch) -> ProbeTarget:
        return ProbeTarget(
            container=self.spec,
            address=self._address,
            env=launch.env,
            cwd=launch.cwd,
            log=self.log_file(),
            owner=self._owner,
            rewrite=launch.rewriter.rewrite,
        )

    async def _probe(self, child: Child, target: ProbeTarget, tasks: TaskSet) -> None:
        async def watch(kind: ProbeKind, changed: Callable[[bool, str], None]) -> bool:
            if kind.value not in self.spec:
                return True
            return await watch_probe(kind, target, self._settings.eager_probe_s, changed)

        def alive(kind: ProbeKind) -> Callable[[bool, str], None]:
            def changed(holds: bool, text: str) -> None:  # noqa: FBT001 - a callback
                if not holds:
                    tasks.start(self._kill(child, kind, text), "kill")

            return changed

        if not await watch(ProbeKind.STARTUP, alive(ProbeKind.STARTUP)):
            return
        self.state.started = True
        self.state.ready = "readinessProbe" not in self.spec
        self._hooks.changed()
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(ProbeKind.READINESS, self._readiness_changed))
            group.create_task(watch(ProbeKind.LIVENESS, alive(ProbeKind.LIVENESS)))

    def _readiness_changed(self, holds: bool, text: str) -> None:  # noqa: FBT001 - a callback
        self.state.ready = holds
        if not holds:
            self._hooks.tell("Unhealthy", f"Readiness probe failed: {text}", True)
        self._hooks.changed()

    async def _kill(self, child: Child, kind: ProbeKind, text: str) -> None:
        word = kind.value.removesuffix("Probe").capitalize()
        self._hooks.tell("Unhealthy", f"{word} probe failed: {text}", True)
        self._hooks.tell("Killing", f"Container {self.spec['name']} will be restarted", False)
        # Stopping a cancelled probe task must not stop the killing half-way.
        with contextlib.suppress(asyncio.CancelledError):
            grace_s = await self._before_stop(child, self._grace_s)
            child.signal(signal.SIGTERM)
            await asyncio.sleep(grace_s)
        child.signal(signal.SIGKILL)

    def _last_words(self, termination_file: Path, exit_code: int) -> str:
        """The termination message, by ``terminationMessagePolicy``."""
        text = b""
        with contextlib.suppress(OSError):
            text = termination_file.read_bytes()[:_MESSAGE_MAX_BYTES]
        fallback = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not text and fallback and exit_code != 0:
            with contextlib.suppress(OSError), self.log_file().open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_FALLBACK_BYTES))
                text = log.read()
        return text.decode("utf-8", "replace")

    def _forget_old_logs(self) -> None:
        self.log_file(self.state.restart_count - _LOGS_KEPT).unlink(missing_ok=True)
