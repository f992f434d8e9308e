"""Asks the questions of a container's probes, and runs its hook before the end.

`probes` decides what answers mean.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from kraftquorum_devcluster.objects import Json, children
from kraftquorum_devcluster.processes import Child, spawn
from kraftquorum_devcluster.tasks import TaskSet

from .podspec import port_number
from .probes import ProbeKind, ProbeSchedule, ProbeSettings, ProbeState


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """Where and how the probes of one container ask.

    Attributes:
        rewrite: Replaces mount paths in the command of an ``exec`` probe.
    """

    container: Json
    address: str
    env: Mapping[str, str]
    cwd: Path
    log: Path
    owner: str
    rewrite: Callable[[str], str]


async def watch_probe(
    kind: ProbeKind,
    target: ProbeTarget,
    eager_period_s: float,
    changed: Callable[[bool, str], None],
) -> bool:
    """Ask until cancelled; a startup probe ends with its first verdict, which is returned.

    ``changed`` is called with each new verdict and the last answer's text.
    """
    spec: Json = target.container[kind.value]
    settings = ProbeSettings.from_spec(spec)
    state = ProbeState(settings)
    schedule = ProbeSchedule(settings, eager_period_s)
    begun = time.monotonic()
    await asyncio.sleep(settings.initial_delay_s)
    while True:
        success, text = await _ask(spec, target, settings.timeout_s)
        elapsed_s = time.monotonic() - begun
        if schedule.counts(elapsed_s, success=success) and state.observe(success=success):
            changed(bool(state.holds), text)
            if kind is ProbeKind.STARTUP:
                return bool(state.holds)
        await asyncio.sleep(schedule.delay_s)


async def run_hook(hook: Json, target: ProbeTarget, child: Child, timeout_s: float) -> str | None:
    """Run a `preStop` until it ends, the container's process does, or the time is up.

    Returns:
        What went wrong, None if nothing.
    """
    tasks = TaskSet("preStop")
    try:
        asking = tasks.start(_ask(hook, target, timeout_s), "hook")
        ended = tasks.start(child.process.wait(), "container")
        await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            return "the container ended before it"
        success, text = asking.result()
        return None if success else text
    finally:
        await tasks.cancel_all()


async def _ask(spec: Json, target: ProbeTarget, timeout_s: float) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(timeout_s):
            if action := spec.get("httpGet"):
                return await _http(action, target)
            if action := spec.get("tcpSocket"):
                return await _tcp(action, target)
            return await _exec(spec["exec"]["command"], target)
    except TimeoutError:
        return False, f"no answer within {timeout_s:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return False, str(error) or type(error).__name__


async def _http(action: Json, target: ProbeTarget) -> tuple[bool, str]:
    scheme = str(action.get("scheme") or "HTTP").lower()
    host = action.get("host") or target.address
    port = port_number(target.container, action["port"])
    path = str(action.get("path") or "/")
    headers = {h["name"]: h["value"] for h in children(action, "httpHeaders")}
    # As the kubelet: certificates are not verified, redirects not followed here.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001  # pyright: ignore[reportPrivateUsage]
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"{scheme}://{host}:{port}/{path.removeprefix('/')}",
            headers=headers,
            ssl=context,
            allow_redirects=False,
        ) as answer,
    ):
        return 200 <= answer.status < 400, f"HTTP {answer.status}"


async def _tcp(action: Json, target: ProbeTarget) -> tuple[bool, str]:
    host = action.get("host") or target.address
    _, writer = await asyncio.open_connection(host, port_number(target.container, action["port"]))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True, "connected"


async def _exec(command: Sequence[str], target: ProbeTarget) -> tuple[bool, str]:
    child = await spawn(
        "probe",
        [target.rewrite(word) for word in command],
        log=target.log,
        cwd=target.cwd,
        env=target.env,
        owner=target.owner,
    )
    try:
        code = await child.process.wait()
    finally:
        await child.stop(0)
    return code == 0, f"exit code {code}"
