"""The watches that feed the cache: complete, in order, and out of date while broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.clients import informer as informer_module
from kraftquorum_operator.clients.cache import CACHED, Cache
from kraftquorum_operator.clients.informer import Informer
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import GoneError, KubeUnavailableError
from kraftquorum_operator.model.objects import Body


def body(name: str, version: int, *, uid: str = "", instance: str = "q", **more: Any) -> Body:
    labels = {names.LABEL_APP: names.APP, names.LABEL_INSTANCE: instance}
    meta: Body = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
    meta |= {"resourceVersion": str(version), "labels": labels} | more
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


@dataclass
class Server:
    """Answers lists and watches from scripts, then watches that bring nothing more."""

    lists: list[list[Body] | Exception]
    watches: list[list[tuple[str, Body]] | Exception] = field(
        default_factory=list[list[tuple[str, Body]] | Exception]
    )
    since: list[str] = field(default_factory=list[str])
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def list_all(self, *_: object) -> tuple[list[Body], str]:
        await asyncio.sleep(0)
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, Exception):
            raise answer
        return answer, "10"

    async def watch(self, *given: object) -> AsyncGenerator[tuple[str, Body]]:
        self.since.append(str(given[3]))
        if not self.watches:
            self.idle.set()
            await asyncio.Event().wait()
        script = self.watches.pop(0)
        if isinstance(script, Exception):
            raise script
        for event in script:
            yield event


class Changes(list[tuple[int | None, int]]):
    """The versions of each change, before and after."""

    def __call__(self, before: Body | None, after: Body) -> None:
        old = None if before is None else int(before["metadata"]["resourceVersion"])
        self.append((old, int(after["metadata"]["resourceVersion"])))


async def followed(server: Server, changes: Changes | None = None) -> Informer:
    """An informer that has taken all that the server has."""
    informer = Informer(
        cast("KubeClient", server), "Pod", "ns", Changes() if changes is None else changes
    )
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await server.idle.wait()
        assert informer.fresh
        task.cancel()
    assert not informer.fresh, "an informer that has ended is out of date"
    return informer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "RETRY_FIRST_S", 0.001)


async def test_a_list_and_its_watch_give_the_objects_of_each_quorum() -> None:
    events = [
        ("MODIFIED", body("q-0", 12, managedFields=[{"manager": "kubelet"}])),
        ("ADDED", body("p-0", 13, instance="p")),
        ("DELETED", body("q-1", 14)),
        ("BOOKMARK", {"metadata": {"resourceVersion": "20"}}),
    ]
    server, changes = Server([[body("q-0", 3), body("q-1", 4)]], [events]), Changes()
    informer = await followed(server, changes)
    assert [b["metadata"]["name"] for b in informer.of_instance("ns", "q")] == ["q-0"]
    assert [b["metadata"]["name"] for b in informer.of_instance("ns", "p")] == ["p-0"]
    kept = informer.get("ns", "q-0")
    assert kept is not None
    assert kept["metadata"]["resourceVersion"] == "12"
    assert "managedFields" not in kept["metadata"]
    assert changes == [(None, 3), (None, 4), (3, 12), (None, 13), (4, 14)]
    assert server.since == ["10", "20"], "the watch goes on after the last event"


async def test_a_reader_has_a_copy_of_its_own() -> None:
    informer = await followed(Server([[body("q-0", 3)]]))
    first = informer.get("ns", "q-0")
    assert first is not None
    first["metadata"]["name"] = "changed"
    assert informer.get("ns", "q-0") == body("q-0", 3)


@pytest.mark.without(
    "kraftquorum_operator.clients.informer:Informer._replace",
    "self._drop(key, self._kept[key].body)",
    "pass",
)
async def test_what_was_deleted_during_a_gap_is_gone() -> None:
    """kopf's watch and its indices never report it."""
    gap = GoneError(410, "Expired", "too old")
    server, changes = Server([[body("q-0", 3), body("q-1", 4)], [body("q-0", 3)]], [gap]), Changes()
    informer = await followed(server, changes)
    assert informer.get("ns", "q-1") is None
    assert [b["metadata"]["name"] for b in informer.of_instance("ns", "q")] == ["q-0"]
    assert changes[2:] == [(4, 4)], "q-1 changed, q-0 did not"


async def test_a_namesake_replaces_a_deleted_object() -> None:
    late = ("DELETED", body("q-0", 5, uid="old"))
    server = Server([[body("q-0", 3, uid="old")], [body("q-0", 9, uid="new")]])
    server.watches = [GoneError(410, "Expired", "too old"), [late]]
    informer = await followed(server)
    kept = informer.get("ns", "q-0")
    assert kept is not None
    assert kept["metadata"]["uid"] == "new"


async def test_an_answer_to_a_write_is_kept_until_a_watch_brings_newer() -> None:
    informer = await followed(Server([[body("q-0", 3)]]))
    informer.wrote(body("q-0", 8, note="mine"))
    informer._take(body("q-0", 5, note="older"))
    kept = informer.get("ns", "q-0")
    assert kept is not None
    assert kept["metadata"]["note"] == "mine"
    informer.wrote(body("q-0", 9, uid="another"))
    informer.wrote(body("q-7", 9))
    assert informer.get("ns", "q-0") == kept
    assert informer.get("ns", "q-7") is None, "a write alone makes nothing known"


async def test_a_failure_is_retried() -> None:
    down = KubeUnavailableError(0, "Unreachable", "down")
    server = Server([down, down, [body("q-0", 3)]], [down])
    informer = await followed(server)
    assert informer.get("ns", "q-0") is not None


async def test_an_answer_that_is_no_list_is_retried() -> None:
    server = Server([KeyError("metadata"), [body("q-0", 3)]])
    informer = await followed(server)
    assert informer.get("ns", "q-0") is not None


async def test_an_older_namesake_replaces_nothing() -> None:
    informer = await followed(Server([[body("q-0", 9, uid="new")]]))
    informer._take(body("q-0", 5, uid="old"))
    kept = informer.get("ns", "q-0")
    assert kept is not None
    assert kept["metadata"]["uid"] == "new"


async def test_a_quorum_is_read_from_the_watches_only_while_all_of_them_are_open() -> None:
    cache = Cache(cast("KubeClient", None), ("ns",), lambda *_: None)
    for informer in cache._informers.values():
        informer.fresh = True
    assert cache.reader(cast("KubeClient", None), "ns", "q") is not None
    assert cache.reader(cast("KubeClient", None), "elsewhere", "q") is None
    for kind in CACHED:
        broken = cache._informers[kind, "ns"]
        broken.fresh = False
        assert cache.reader(cast("KubeClient", None), "ns", "q") is None
        broken.fresh = True


def resource(version: int, generation: int = 1, **more: Any) -> Body:
    return body("q", version, generation=generation, **more) | {"kind": names.KIND}


def test_a_status_wakes_no_quorum_and_all_else_does() -> None:
    woken: list[tuple[str, str]] = []
    cache = Cache(cast("KubeClient", None), (), lambda *quorum: woken.append(quorum))
    informer = cache._informers[names.KIND, None]
    informer._take(resource(1))
    assert woken == [("ns", "q")]
    informer._take(resource(2) | {"status": {"phase": "Running"}})
    assert len(woken) == 1
    informer._take(resource(3, generation=2))
    informer._take(resource(4, generation=2, annotations={"renew": "now"}))
    informer._take(resource(5, deletionTimestamp="now"))
    assert len(woken) == 4
    cache._informers["Pod", None]._take(body("q-0", 6))
    assert woken[4:] == [("ns", "q")]


@pytest.mark.without(
    "kraftquorum_operator.clients.informer:Informer._follow",
    "await asyncio.sleep(RETRY_FIRST_S)",
    "pass",
)
async def test_watches_that_end_at_once_are_not_opened_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(informer_module, "RETRY_FIRST_S", 600.0)
    server = Server([[body("q-0", 3)]], [[] for _ in range(1000)])
    informer = Informer(cast("KubeClient", server), "Pod", "ns", Changes())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
    # A test that is held up for a second takes a watch for one that lasted.
    assert 1 <= len(server.since) <= 3
