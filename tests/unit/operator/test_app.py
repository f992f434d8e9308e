"""The running operator, without a cluster."""

import asyncio
import contextlib
from typing import Any

import kopf
import pytest
from structlog.testing import capture_logs

from kraftquorum_operator import app, handlers
from kraftquorum_operator.clients.lease_thread import LeaseThread
from kraftquorum_operator.handlers import configure, run_kopf
from kraftquorum_operator.preflight import Namespaces
from kraftquorum_operator.schedule.wake_ups import Wakeups
from kraftquorum_operator.settings import load_settings


class Lease:
    """Is kept for ever, and counts how often it was let go of."""

    def __init__(self) -> None:
        self.running = False
        self.released = 0
        self.may_renew = lambda: True

    async def run(self) -> None:
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False

    async def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("error", [None, RuntimeError("broken")])
async def test_the_lease_is_kept_while_there_is_work_and_let_go_of_whatever_happens(error):
    lease, kept = Lease(), []

    async def work() -> None:
        async with asyncio.timeout(60):
            while not lease.running:  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.01)
        kept.append(lease.running)
        if error is not None:
            raise error

    with contextlib.suppress(ExceptionGroup):
        await app._run(LeaseThread(lease), work)
    assert kept == [True]
    assert (lease.running, lease.released) == (False, 1)


async def test_kopf_is_told_who_it_is_and_need_not_look_the_user_up(monkeypatch):
    """A container's user has no entry in passwd, and kopf would end with a KeyError."""
    given: dict[str, Any] = {}

    async def operator(**arguments: Any) -> None:
        given.update(arguments)

    monkeypatch.setattr(kopf, "operator", operator)
    settings = load_settings(identity="me")
    await run_kopf(None, Wakeups(), settings, None)
    assert given["identity"] == "me"


@pytest.mark.parametrize(
    ("namespace", "clusterwide", "namespaces", "lease"),
    [
        (None, True, [], "default"),
        ("", True, [], "default"),
        ("a", False, ["a"], "a"),
        ("b, a,b", False, ["b", "a"], "default"),
    ],
)
async def test_kopf_is_told_which_namespaces_to_watch(
    monkeypatch, namespace, clusterwide, namespaces, lease
):
    given: dict[str, Any] = {}

    async def operator(**arguments: Any) -> None:
        given.update(arguments)

    monkeypatch.setattr(kopf, "operator", operator)
    settings = load_settings(namespace=namespace, liveness_port=9, liveness_host="::1")
    await run_kopf(None, Wakeups(), settings, None)
    assert given["clusterwide"] is clusterwide
    assert given["namespaces"] == namespaces
    assert given["liveness_endpoint"] == "http://[::1]:9/healthz"
    assert settings.lease_place == lease


def test_kopf_reads_neither_crds_nor_namespaces():
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.scanning.disabled is True


async def test_a_namespace_that_is_gone_restarts_no_other_one_again_and_again(monkeypatch):
    """Its roles went with it; kopf ended on its watch, and all daemons with kopf, each second."""
    runs: list[list[str]] = []
    gone, stop = {"b"}, asyncio.Event()
    served = asyncio.Event()

    async def operator(**arguments: Any) -> None:
        runs.append(arguments["namespaces"])
        if gone & set(arguments["namespaces"]):
            raise kopf.PermanentError("403 Forbidden")
        served.set()
        await arguments["stop_flag"].wait()

    async def watchable(_watched: tuple[str, ...]) -> Namespaces:
        return Namespaces(tuple(name for name in ("a", "b", "c") if name not in gone))

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(handlers, "RESTART_PAUSE_S", 0.001)
    monkeypatch.setattr(handlers, "NAMESPACES_CHECK_S", 0.001)
    settings = load_settings(namespace="a,b,c")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(run_kopf(None, Wakeups(), settings, stop, watchable))
        await served.wait()
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert runs == [["a", "c"]], "once, and left alone"
        served.clear()
        gone.clear()
        await served.wait()
        assert runs[1:] == [["a", "b", "c"]], "it is back"
        served.clear()
        gone |= {"a", "b"}
        await served.wait()
        assert runs[2:] == [["c"]]
        stop.set()


async def test_no_namespace_that_can_be_watched_is_waited_for_and_never_all_of_them(monkeypatch):
    runs: list[object] = []
    stop, answers = asyncio.Event(), iter([(), (), ("a",)])

    async def operator(**arguments: Any) -> None:
        runs.append((arguments["clusterwide"], arguments["namespaces"]))

    async def watchable(_watched: tuple[str, ...]) -> Namespaces:
        return Namespaces(next(answers))

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(handlers, "RESTART_PAUSE_S", 0.001)
    monkeypatch.setattr(handlers, "NAMESPACES_CHECK_S", 0.001)
    async with asyncio.timeout(60):
        await run_kopf(None, Wakeups(), load_settings(namespace="a"), stop, watchable)
    assert runs == [(False, ["a"])]


@pytest.mark.without(
    "kraftquorum_operator.handlers:_Places.check", "self._wakeups.wake_all(place)", "pass"
)
async def test_a_right_that_is_taken_away_wakes_the_quorums_of_its_namespace() -> None:
    """Open watches outlive their right, so a quorum at rest would notice nothing."""
    missing: dict[str, tuple[str, ...]] = {}

    given: list[tuple[str, ...]] = []

    async def watchable(watched: tuple[str, ...]) -> Namespaces:
        given.append(watched)
        return Namespaces(("a", "b"), dict(missing))

    wakeups = Wakeups()
    places = handlers._Places(watchable, wakeups, ("a", "b"))

    async def woken() -> list[str]:
        return [place for place in ("a", "b") if await wakeups.pause(place, "demo", 0.001)]

    assert await woken() == []
    assert [await places.check(), await woken()] == [False, []]
    missing["b"] = ("list pods in namespace b",)
    with capture_logs() as logs:
        assert [await places.check(), await woken()] == [False, ["b"]]
    assert logs[0]["missing"] == ["list pods in namespace b"]
    assert [await places.check(), await woken()] == [False, []], "once"
    missing.clear()
    assert [await places.check(), await woken()] == [False, ["b"]]
    assert given[:2] == [(), ("a", "b")], "a start is no going on"


async def test_kopf_that_gives_up_is_started_again_until_it_is_told_to_stop(monkeypatch):
    """It ends for good on a watch that is refused with 410."""
    runs: list[object] = []
    stop = asyncio.Event()

    async def operator(**arguments: Any) -> None:
        runs.append(arguments["stop_flag"])
        if len(runs) < 3:
            raise kopf.PermanentError("410 Gone")

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(handlers, "RESTART_PAUSE_S", 0.01)
    await run_kopf(None, Wakeups(), load_settings(), stop)
    assert runs == [stop] * 3

    async def broken(**_: Any) -> None:
        stop.set()
        raise kopf.PermanentError("410 Gone")

    monkeypatch.setattr(kopf, "operator", broken)
    monkeypatch.setattr(handlers, "RESTART_PAUSE_S", 60)
    async with asyncio.timeout(60):
        await run_kopf(None, Wakeups(), load_settings(), stop)
