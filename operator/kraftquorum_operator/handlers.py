"""The handlers of kopf: which watch wakes which quorum.

No other module imports kopf, so that all other modules run and are tested without it.

kopf only watches. Its daemons and its handlers of changes would write finalizers, annotations and
events into each resource, from an operator on standby too. So one task of our own per KRaftQuorum
reconciles it repeatedly; the watches of `clients/cache.py` only end its pause.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import kopf
import structlog

from kraftquorum_operator import names
from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.preflight import Namespaces
from kraftquorum_operator.reconcile import Outcome, Reconciler
from kraftquorum_operator.schedule.keepers import Keepers
from kraftquorum_operator.schedule.pauses import jittered_s
from kraftquorum_operator.schedule.wake_ups import Wakeups
from kraftquorum_operator.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

RESTART_PAUSE_S = 1.0
"""Pause before the operator restarts the watches."""

NAMESPACES_CHECK_S = 60.0
"""How often the operator checks which namespaces it can watch."""

STOP_CHECK_S = 1.0
"""How long a pausing task may take to notice that it is to stop."""

_TASKS_LEFT_BY_KOPF = ("watcher for ", "stop-flag waiter")
"""Name prefixes of the tasks that kopf does not end after an error."""

Watchable = Callable[[tuple[str, ...]], Awaitable[Namespaces]]
"""Which of the namespaces can be watched now; called with those that are watched."""


async def run_kopf(
    reconciler: Reconciler,
    wakeups: Wakeups,
    settings: Settings,
    stop: asyncio.Event | None,
    watchable: Watchable | None = None,
) -> None:
    """Run all handlers until a signal, or until `stop` is set.

    kopf gives up if a watch is refused with 410, or with a 5xx or 403 for some seconds. The
    operator then starts kopf again. It leaves out a namespace that it cannot watch, such as a
    deleted one, until it can.

    Args:
        reconciler: reconciles the quorums.
        wakeups: end the pauses of the quorums.
        settings: have the namespaces to watch.
        stop: ends it.
        watchable: called before each start and then every minute; None: watch all namespaces.
    """
    stop = stop or asyncio.Event()
    places = _Places(watchable, wakeups, settings.namespaces)
    while True:
        try:
            await places.check()
            if places.watched or not settings.namespaces:
                update = {"namespace": ",".join(places.watched) or None}
                changed = asyncio.Event()
                async with _until_namespaces_change(places, stop, changed) as flag:
                    await _run_once(reconciler, wakeups, settings.model_copy(update=update), flag)
                if not changed.is_set() or stop.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - of kopf's; those of handlers do not come here
            log.warning("watches_restarted", why=str(error)[:300], kind=type(error).__name__)
        watches_any = bool(places.watched) or not settings.namespaces
        if await _is_stopped(stop, RESTART_PAUSE_S if watches_any else NAMESPACES_CHECK_S):
            return


class _Places:
    """The namespaces to watch, and the rights that are missing in them."""

    def __init__(
        self, watchable: Watchable | None, wakeups: Wakeups, configured: tuple[str, ...]
    ) -> None:
        self._watchable = watchable
        self._wakeups = wakeups
        self._configured = configured
        self.watched = configured
        """All of them until the API server answers."""
        self._begun: tuple[str, ...] = ()
        self._missing: dict[str, tuple[str, ...]] = {}

    @property
    def may_change(self) -> bool:
        """Not if the operator watches the whole cluster."""
        return self._watchable is not None and bool(self._configured)

    async def check(self) -> bool:
        """Check once; returns whether others are to be watched, not so without an answer.

        A watch that is open does not end with its right. So the quorums of a namespace are looked
        at on the API server once other rights are missing there.
        """
        if self._watchable is None or not self._configured:
            return False
        try:
            able = await self._watchable(self._begun)
        except KubeError:
            return False
        self._begun = able.watched
        before, self._missing = self._missing, able.missing
        for place in able.watched:
            if able.missing.get(place) != before.get(place):
                lacking = list(able.missing.get(place, ()))
                log.warning("namespace_rights_changed", namespace=place, missing=lacking)
                self._wakeups.wake_all(place)
        if able.watched == self.watched:
            return False
        without = sorted(set(self._configured) - set(able.watched))
        log.warning("namespaces_changed", namespaces=list(able.watched), without=without)
        self.watched = able.watched
        return True


@asynccontextmanager
async def _until_namespaces_change(
    places: _Places, stop: asyncio.Event, changed: asyncio.Event
) -> AsyncGenerator[asyncio.Event]:
    """The event that stops kopf: set with `stop` or, with `changed`, after other namespaces."""
    if not places.may_change:
        yield stop
        return
    flag = asyncio.Event()

    async def check() -> None:
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(NAMESPACES_CHECK_S):
                    await stop.wait()
            if stop.is_set():
                break
            if await places.check():
                changed.set()
                break
        flag.set()

    # Not a task group: it would wrap the error that kopf raises into a group of errors.
    checking = asyncio.create_task(check(), name="namespaces")  # noqa: TID251
    try:
        yield flag
    finally:
        checking.cancel()


async def _is_stopped(stop: asyncio.Event, seconds: float) -> bool:
    """Wait, and handle the signals, because kopf does not run now."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


async def _run_once(
    reconciler: Reconciler, wakeups: Wakeups, settings: Settings, stop: asyncio.Event
) -> None:
    registry = kopf.OperatorRegistry()
    handlers = register(registry, reconciler, wakeups)
    liveness, host = settings.liveness_port, settings.liveness_host
    host = f"[{host}]" if ":" in host else host

    async def cleanup(**_: object) -> None:
        await handlers.stop()
        await _stop_watches()

    cast("Any", kopf.on).cleanup(registry=registry)(cleanup)
    try:
        await kopf.operator(
            registry=registry,
            # kopf's default needs the user's entry in passwd, which a container does not have.
            identity=cast("Any", settings.identity),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=list(settings.namespaces),
            liveness_endpoint=f"http://{host}:{liveness}/healthz" if liveness else None,
            stop_flag=stop,
        )
    finally:
        await handlers.stop()


async def _stop_watches() -> None:
    """Cancel what kopf leaves running when a watch fails.

    kopf 1.45 stops its other watches only where it is cancelled itself. After an error it closes
    the sessions first, and cancels them five seconds later, together with the task that each of
    them takes for a request to pause. A watch that waits for a request at that moment takes the
    cancellation for a pause and asks for new credentials, which never come: kopf waits for it for
    ever, and the operator reconciles no quorum. This runs before kopf closes the sessions.
    """
    left = {task for task in asyncio.all_tasks() if task.get_name().startswith(_TASKS_LEFT_BY_KOPF)}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)


def configure(settings: kopf.OperatorSettings) -> None:
    """Set kopf up: watches that end, short retries, and no writes."""
    # kopf removes its own finalizer where no handler needs it; the operator's is not kopf's.
    settings.persistence.finalizer = names.KOPF_FINALIZER
    settings.posting.enabled = False
    # No watch of CRDs and namespaces: it needs rights on the whole cluster, and delays the start-up
    # without them. The preflight has checked that the API server serves our resource.
    settings.scanning.disabled = True
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 300
    settings.watching.connect_timeout = 10
    settings.networking.error_backoffs = (0.1, 0.5, 1, 2, 3)
    settings.peering.standalone = True


def register(
    registry: kopf.OperatorRegistry, reconciler: Reconciler, wakeups: Wakeups
) -> _Handlers:
    """Register all handlers; the caller stops them."""
    resource = (names.GROUP, names.VERSION, names.PLURAL)
    handlers = _Handlers(reconciler, wakeups)

    # kopf takes functions, not methods.
    async def startup(settings: kopf.OperatorSettings, **_: object) -> None:
        configure(settings)

    async def changed(**given: Any) -> None:
        handlers.changed(**given)

    on = cast("Any", kopf.on)
    on.startup(registry=registry)(startup)
    on.login(registry=registry)(kopf.login_via_client)
    on.event(*resource, registry=registry)(changed)
    return handlers


class _Handlers:
    """The handlers; they have the reconciler and the wake-ups."""

    def __init__(self, reconciler: Reconciler, wakeups: Wakeups) -> None:
        self._reconciler = reconciler
        self._wakeups = wakeups
        self._keepers = Keepers(self.reconcile_until_stopped)

    async def stop(self) -> None:
        """Stop to reconcile."""
        await self._keepers.stop()

    async def reconcile_until_stopped(
        self, namespace: str, name: str, uid: str, stopped: object
    ) -> None:
        """Reconcile one quorum until it is gone or the operator exits."""
        changed = False
        while not stopped:
            outcome = await self._reconciler.reconcile(namespace, name, uid, changed=changed)
            if outcome.gone:
                self._wakeups.forget(namespace, name)
                break
            self._reconciler.event_poster.post(Owner(namespace, name, uid), outcome.events)
            changed = await self._pause(namespace, name, outcome, stopped)

    async def _pause(self, namespace: str, name: str, outcome: Outcome, stopped: object) -> bool:
        """Wait as long as a reconciliation says; returns whether a change ended it."""
        # Without a pause, an action that repeats would delay other quorums.
        pause_s = jittered_s(max(outcome.pause_s, 0.05))
        pause_s = max(pause_s, outcome.pause_min_s)
        began_s, changed = time.monotonic(), False
        while not stopped:
            past_s = time.monotonic() - began_s
            if past_s >= pause_s or (changed and past_s >= outcome.pause_min_s):
                break
            end_s = outcome.pause_min_s if changed else pause_s
            left_s = min(end_s - past_s, STOP_CHECK_S)
            changed = await self._wakeups.pause(namespace, name, left_s) or changed
        return changed

    def changed(
        self, *, namespace: str, name: str, uid: str, body: kopf.Body, **given: object
    ) -> None:
        """Begin to reconcile; end the pause if the spec changed or the deletion began."""
        if given.get("type") == "DELETED":
            self._reconciler.forget(namespace, name, uid)
            self._wakeups.wake(namespace, name)
            return
        self._keepers.begin(namespace, name, uid)
        self._reconciler.statuses.reported(body, time.time())
        status = cast("dict[str, Any]", body.get("status") or {})
        reported = status.get("observedGeneration")
        meta = body.metadata
        if reported != meta.get("generation") or "deletionTimestamp" in meta:
            self._wakeups.wake(namespace, name)
