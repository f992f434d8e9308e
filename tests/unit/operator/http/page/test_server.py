"""The status page as it is served: read only, escaped, bounded, and without what it need not say."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import aiohttp
import pytest

from kraftquorum_operator.http import listener as served
from kraftquorum_operator.http.listener import CONNECTIONS_MAX, listening
from kraftquorum_operator.http.page import server as module
from kraftquorum_operator.http.page.render import OPERATION_WORDS, SECTIONS_MAX, STEP_WORDS
from kraftquorum_operator.http.page.server import StatusPage
from kraftquorum_operator.memory.status_cache import CachedStatus, StatusCache
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import Observation, Trouble
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.plan.actions import Decision, Wait
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.report.operations import STEPS
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    healthy,
    node,
    spec,
    with_node,
)

NOW_S = 1_790_000_000.0
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}{% raw %}"


TROUBLES = (Trouble(1, "pod demo-1", "WORDS", "WORDS"),)


def well(decision: Decision | None = None, observation: Observation | None = None) -> QuorumStatus:
    observation = observation or healthy()
    return build_status(
        spec(),
        observation,
        decision or decide(spec(), observation, NOW_MS),
        current_action=None,
        before=(),
        stamp=Stamp("2026-09-21T13:33:00Z", 1),
    )


@pytest.fixture
def statuses() -> StatusCache:
    statuses = StatusCache(QuorumStatus)
    statuses.observed(Owner("test", "demo", "uid"), 3, well(), NOW_S)
    return statuses


class Client:
    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session, self.port = session, port

    async def ask(self, path: str, method: str = "GET") -> tuple[int, Any, str]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url) as answer:
            return answer.status, answer.headers, await answer.text()


@pytest.fixture
async def client(statuses: StatusCache, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Client]:
    monkeypatch.setattr(module, "PAGE_AGE_MAX_S", 0.0)
    page = StatusPage(statuses, identity="operator-0", is_active=lambda: True, clock=lambda: NOW_S)
    async with (
        listening(page.application(), "127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as session,
    ):
        assert port is not None
        yield Client(session, port)


class Reader(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


async def test_the_page_says_what_a_person_on_call_asks(client: Client) -> None:
    status, headers, text = await client.ask("/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    words = " ".join(read(text).text.split())
    for said in ("The quorum is safe.", "1 voter may fail", "a1", "demo-0", "operator-0, active"):
        assert said in words


async def test_the_json_says_the_same_to_programs(client: Client) -> None:
    status, headers, text = await client.ask("/status.json")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    told = json.loads(text)
    assert told["format"] == "kraftquorum.io/status-page/v1"
    assert told["operator"] == {
        "identity": "operator-0",
        "version": "0.1.0",
        "active": True,
        "started": True,
    }
    (quorum,) = told["quorums"]
    assert (quorum["verdict"], quorum["votersWanted"]) == ("safe", 3)
    assert QuorumStatus.model_validate(quorum["status"]) == well()


async def test_only_reading_is_possible(client: Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
        for path in ("/", "/status.json", "/q/test/demo", "/status.js"):
            status, headers, _ = await client.ask(path, method)
            assert (status, headers["Allow"]) == (405, "GET,HEAD"), (method, path)
    status, headers, text = await client.ask("/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    "path", ["/", "/status.json", "/status.css", "/status.js", "/status.svg", "/q/test/demo", "/no"]
)
async def test_every_answer_forbids_what_is_from_elsewhere(client: Client, path: str) -> None:
    _, headers, text = await client.ask(path)
    policy = dict(
        part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert {policy[k] for k in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert headers["Server"] == "kraftquorum"
    assert not re.search(
        r"(https?:)?//(?!www\.w3\.org/2000/svg)[a-z]",
        re.sub(r"^//.*$", "", text, flags=re.MULTILINE),
    )


async def test_it_needs_no_inline_script_style_or_handler(client: Client) -> None:
    _, _, text = await client.ask("/")
    reader = read(text)
    assert [a for t, a in reader.tags if t == "script"] == [{"src": "status.js", "defer": None}]
    assert not [t for t, _ in reader.tags if t in {"style", "form", "iframe", "object", "img"}]
    assert not [k for _, a in reader.tags for k in a if k.startswith("on") or k == "style"]


@pytest.mark.parametrize("decision", [None, Wait("survivors_caught_up", "WORDS")])
async def test_nothing_that_a_quorum_is_called_or_says_becomes_markup(
    client: Client, statuses: StatusCache, decision: Decision | None
) -> None:
    clean = well(decision, replace(healthy(), troubles=TROUBLES))
    statuses.quorums["test", "demo"] = CachedStatus("test", "demo", "u", 3, clean, NOW_S, own=True)
    before = read((await client.ask("/"))[2])
    said = json.dumps(clean.model_dump(by_alias=True, mode="json"))
    for words in ("demo-", "WORDS", "3 voters, all caught up", "The operator starts", "cluster-a"):
        said = said.replace(words, json.dumps(HOSTILE)[1:-1])
    hostile = QuorumStatus.model_validate_json(said)
    statuses.quorums.clear()
    statuses.quorums[HOSTILE, HOSTILE] = CachedStatus(
        HOSTILE, HOSTILE, "u", 3, hostile, NOW_S, own=True
    )
    status, _, text = await client.ask("/")
    assert status == 200
    reader = read(text)
    assert [tag for tag, _ in reader.tags] == [tag for tag, _ in before.tags]
    assert [sorted(a) for _, a in reader.tags] == [sorted(a) for _, a in before.tags]
    assert reader.text.count("<script>alert(1)</script>") > 5
    assert "49" not in reader.text
    status, headers, text = await client.ask("/status.json")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(text)["quorums"][0]["name"] == HOSTILE


def test_the_template_trusts_nothing() -> None:
    text = (
        resources.files("kraftquorum_operator.http.page") / "templates/status.html.j2"
    ).read_text()
    assert not re.search(r"\|\s*safe|autoescape|Markup", text)


async def test_what_is_asked_for_is_never_said_back(client: Client) -> None:
    for path in ("/no<script>", "/q/test/no<script>", "/?a=<script>", "/q/a/b?x=<script>"):
        _, _, text = await client.ask(path)
        assert "<script>" not in text


async def test_what_stands_in_the_resource_beside_the_status_is_not_shown(
    client: Client, statuses: StatusCache
) -> None:
    resource = {
        "metadata": {
            "namespace": "test",
            "name": "second",
            "uid": "u2",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"},
            "labels": {"token": "hunter2"},
        },
        "spec": {"voters": 3, "image": "hunter2", "storage": {"className": "hunter2"}},
        "status": {**well().model_dump(by_alias=True, mode="json"), "password": "hunter2"},
    }
    statuses.reported(resource, NOW_S)
    for path in ("/", "/status.json", "/q/test/second"):
        status, _, text = await client.ask(path)
        assert status == 200
        assert "second" in text
        assert "hunter2" not in text


async def test_a_quorum_that_is_not_there_is_not_found(client: Client) -> None:
    assert (await client.ask("/q/test/demo"))[0] == 200
    assert (await client.ask("/q/test/other"))[0] == 404
    assert (await client.ask("/q/other/demo"))[0] == 404
    assert (await client.ask("/../../etc/passwd"))[0] == 404


async def test_the_guard_that_blocks_is_explained(client: Client, statuses: StatusCache) -> None:
    decision = Wait("majority_survives_removal", "without 1-a1 only 1 of 2")
    status = build_status(
        spec(), healthy(), decision, current_action=None, before=(), stamp=Stamp("x", 1)
    )
    statuses.observed(Owner("test", "demo", "uid"), 3, status, NOW_S)
    words = " ".join(read((await client.ask("/"))[2]).text.split())
    assert "Waits: majority_survives_removal" in words
    assert "without 1-a1 only 1 of 2" in words
    rule = GUARDS["majority_survives_removal"].doc.split("\n")[0]
    assert rule in words


async def test_an_operation_shows_its_steps(client: Client, statuses: StatusCache) -> None:
    observation = with_node(healthy(), node(1, "b"))
    status = build_status(
        spec(),
        observation,
        decide(spec(), observation, NOW_MS),
        current_action=None,
        before=(),
        stamp=Stamp("2026-09-21T13:33:00Z", 1),
    )
    statuses.observed(Owner("test", "demo", "uid"), 3, status, NOW_S)
    text = (await client.ask("/"))[2]
    words = " ".join(read(text).text.split())
    assert "Replacing the disk of demo-1" in words
    assert "step 3 of 5" in words
    assert '<li class="now" aria-current="step">Catch up' in text
    assert text.count('<li class="done">') == 2
    assert "b1" in words  # the storage that is to come
    assert "this storage is lost" in words


def test_every_step_and_operation_has_words() -> None:
    assert set(OPERATION_WORDS) == set(STEPS)
    assert set(STEP_WORDS) == {step for steps in STEPS.values() for step in steps}


async def test_many_quorums_are_listed_and_the_worst_shown_in_full(
    client: Client, statuses: StatusCache
) -> None:
    for number in range(SECTIONS_MAX + 10):
        statuses.observed(Owner("test", f"q{number:03}", f"u{number}"), 3, well(), NOW_S)
    text = (await client.ask("/"))[2]
    assert text.count("<section") == SECTIONS_MAX
    assert text.count('<li id="row-') == SECTIONS_MAX + 11
    assert 'href="q/test/q034"' in text
    assert 'href="#quorum-test.q000"' in text
    assert (await client.ask("/q/test/q034"))[2].count("<section") == 1


async def test_a_page_is_made_once_a_second_for_all_clients(
    statuses: StatusCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(module, "PAGE_AGE_MAX_S", 60.0)
    monkeypatch.setattr(module, "html", lambda *_, **__: made.append(1) or "page")
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with (
        listening(page.application(), "127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as session,
    ):
        assert port is not None
        client = Client(session, port)
        await asyncio.gather(*(client.ask("/") for _ in range(40)))
    assert len(made) == 1


class Held:
    """Makes a page once it is let go, which must be while it is at it."""

    def __init__(self, make: Callable[..., str]) -> None:
        self._make = make
        self.ready, self.go = threading.Event(), threading.Event()

    def __call__(self, *given: object, **named: object) -> str:
        self.ready.set()
        assert self.go.wait(60), "the loop stood still"
        return self._make(*given, **named)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


async def test_a_page_that_takes_long_does_not_hold_the_operator_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(lambda *_, **__: "page")
    monkeypatch.setattr(module, "html", held)
    asked = asyncio.ensure_future(client.ask("/"))  # noqa: TID251
    await until(held.ready.is_set)
    assert not asked.done()
    held.go.set()
    assert (await asked)[0] == 200


async def test_a_fault_is_logged_and_not_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("the token is hunter2")

    monkeypatch.setattr(module, "html", broken)
    status, headers, text = await client.ask("/")
    assert status == 500
    assert "hunter2" not in text
    assert "Content-Security-Policy" in headers


async def answered(client: Client, path: str) -> None:
    """Wait until there is room for one more connection: that others ended is seen in a moment."""
    async with asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.05)
            with suppress(aiohttp.ClientError):
                if (await client.ask(path))[0] == 200:
                    return


async def test_connections_are_bounded(client: Client) -> None:
    opened = [
        await asyncio.open_connection("127.0.0.1", client.port) for _ in range(CONNECTIONS_MAX)
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    for _, other in [*opened, (reader, writer)]:
        other.close()
    await answered(client, "/")


async def test_a_port_that_is_taken_costs_only_the_page(
    statuses: StatusCache, client: Client
) -> None:
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with listening(page.application(), "127.0.0.1", client.port, "page") as port:
        assert port is None
    assert (await client.ask("/"))[0] == 200


async def test_it_listens_on_several_addresses_and_one_that_cannot_be_had_is_left_out(
    statuses: StatusCache,
) -> None:
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with (
        listening(page.application(), "192.0.2.1, 127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as s,
    ):
        assert port is not None
        assert (await Client(s, port).ask("/"))[0] == 200


async def test_one_on_standby_says_so(statuses: StatusCache) -> None:
    page = StatusPage(statuses, identity="operator-1", is_active=lambda: False, clock=lambda: NOW_S)
    statuses.quorums["test", "demo"] = replace(statuses.quorums["test", "demo"], own=False)
    async with (
        listening(page.application(), "127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as session,
    ):
        assert port is not None
        words = (await Client(session, port).ask("/"))[2]
    assert "on standby" in words
    assert "as written into the resource" in words


async def test_a_quorum_that_is_deleted_while_its_page_waits_leaves_the_page_alive(
    statuses: StatusCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(module.html)
    monkeypatch.setattr(module, "html", held)
    monkeypatch.setattr(module, "PAGE_AGE_MAX_S", 0.0)
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with (
        listening(page.application(), "127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as session,
    ):
        assert port is not None
        client = Client(session, port)
        first = asyncio.ensure_future(client.ask("/"))  # noqa: TID251
        await until(held.ready.is_set)
        second = asyncio.ensure_future(client.ask("/q/test/demo"))  # noqa: TID251
        await until(lambda: page._lock._waiters)
        statuses.forget("test", "demo", "uid")
        held.go.set()
        assert [(await one)[0] for one in (first, second)] == [200, 404]
        assert (await client.ask("/"))[0] == 200


async def test_who_asks_and_reads_nothing_is_sent_away(
    statuses: StatusCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "CONNECTIONS_MAX", 1)
    monkeypatch.setattr(served, "SEND_S", 0.3)
    for number in range(600):
        statuses.observed(Owner("test", f"q{number:03}", f"u{number}"), 3, well(), NOW_S)
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with listening(page.application(), "127.0.0.1", 0, "page") as port:
        assert port is not None
        raw = socket.create_connection(("127.0.0.1", port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.sendall(b"GET /status.json HTTP/1.1\r\nHost: a\r\n\r\n" * 20)
        async with aiohttp.ClientSession() as session:
            await answered(Client(session, port), "/status.svg")
        raw.close()


async def test_who_connects_and_asks_nothing_is_sent_away(
    statuses: StatusCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "IDLE_S", 0.3)
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with listening(page.application(), "127.0.0.1", 0, "page") as port, asyncio.timeout(60):
        for said in (b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            assert await reader.read() == b""
            writer.close()


async def test_all_pages_of_a_second_are_judged_once(
    statuses: StatusCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []
    make = module.page_view
    monkeypatch.setattr(module, "PAGE_AGE_MAX_S", 60.0)
    monkeypatch.setattr(module, "page_view", lambda *given: judged.append(1) or make(*given))
    page = StatusPage(statuses, identity="o", is_active=lambda: True)
    async with (
        listening(page.application(), "127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as session,
    ):
        assert port is not None
        for path in ("/", "/status.json", "/q/test/demo", "/q/test/other"):
            await Client(session, port).ask(path)
    assert len(judged) == 1


@pytest.mark.parametrize(
    "when",
    [
        "",
        "yesterday",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+14:00",
        "2026-11-21",
        "2026-11-21T12:00:00",
        "\u202e2026",
    ],
)
async def test_a_time_that_is_none_costs_no_page(
    client: Client, statuses: StatusCache, when: str
) -> None:
    """A status can be written by hand, and the timeline in it goes on."""
    said = well().model_dump(mode="json")
    entry = {"at": when, "kind": "Fault", "message": "said by hand", "count": 2, "first": when}
    operation = {"kind": "Restart", "pod": "p", "step": "none", "number": 9, "steps": 1}
    said |= {"timeline": [entry], "operations": [operation | {"since": when, "step_since": when}]}
    status = QuorumStatus.model_validate(said)
    statuses.quorums["test", "demo"] = CachedStatus("test", "demo", "u", 3, status, NOW_S, own=True)
    for path in ("/", "/q/test/demo"):
        code, _, text = await client.ask(path)
        assert code == 200
        assert "said by hand" in text
    assert json.loads((await client.ask("/status.json"))[2])["quorums"][0]["verdict"] == "safe"


async def test_an_operator_that_waits_for_the_api_server_calls_no_quorum_absent(
    client: Client, statuses: StatusCache
) -> None:
    statuses.quorums.clear()
    statuses.ready = False
    words = " ".join(read((await client.ask("/"))[2]).text.split())
    assert "has not reached the API server" in words
    assert "The operator manages no quorum" not in words
    assert "on standby" not in words
    told = json.loads((await client.ask("/status.json"))[2])
    assert told["operator"]["started"] is False
    statuses.ready = True
    assert "The operator manages no quorum." in (await client.ask("/"))[2]


async def test_no_two_elements_share_an_id_whatever_quorums_are_called(
    client: Client, statuses: StatusCache
) -> None:
    for namespace in ("a", "name-a", "row-a", "link-a", "time-a", "quorum-a"):
        statuses.observed(Owner(namespace, "x.y", namespace), 3, well(), NOW_S)
    ids = [dict(a)["id"] for _, a in read((await client.ask("/"))[2]).tags if "id" in a]
    assert len(ids) == len(set(ids))


async def test_a_kafka_quorum_has_its_own_page_beside_a_quorum_of_its_name(
    statuses: StatusCache,
) -> None:
    kafka = StatusCache(KafkaQuorumStatus)
    kafka.observed(
        Owner("test", "demo", "kafka-uid"), 0, KafkaQuorumStatus(observed_generation=1), NOW_S
    )
    page = StatusPage(
        statuses, identity="o", is_active=lambda: True, kafka=kafka, clock=lambda: NOW_S
    )
    async with (
        listening(page.application(), "127.0.0.1", 0, "page") as port,
        aiohttp.ClientSession() as session,
    ):
        assert port is not None
        client = Client(session, port)
        shown = json.loads((await client.ask("/status.json"))[2])
        assert [one["name"] for one in shown["quorums"]] == ["demo"]
        assert [one["verdict"] for one in shown["kafkaQuorums"]] == ["unknown"]
        assert "Kafka quorum test/demo" in (await client.ask("/kafka/test/demo"))[2]
        assert "Kafka quorum test/demo" not in (await client.ask("/q/test/demo"))[2]
        assert (await client.ask("/kafka/test/other"))[0] == 404
        identifiers = [
            attributes["id"]
            for _, attributes in read((await client.ask("/"))[2]).tags
            if "id" in attributes
        ]
        assert len(identifiers) == len(set(identifiers))
