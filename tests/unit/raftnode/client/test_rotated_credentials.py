"""Credentials that change under load, and refusals by nodes: no request fails that need not."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from proofkit.certificates import Authority, replace_file
from proofkit.guardednode import guarded_node
from raftnode.api.model import ApiError
from raftnode.client import (
    ClientError,
    ClientSettings,
    Credentials,
    CredentialsError,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
    UnavailableError,
    credential_files,
    sessions,
)
from raftnode.core.types import Endpoint
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import Greeting, Refusal, Written

OLD, NEW = "0ld-t0ken-7a91", "n3w-t0ken-44c2"
HOST = "127.0.0.1"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credential_files, "CHECK_S", 0.02)
    monkeypatch.setattr(sessions, "RENEW_PAUSE_S", 0.05)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    replace_file(path, OLD.encode())
    return path


def client_of(
    *endpoints: Endpoint,
    token: Path | None = None,
    credentials: Credentials | None = None,
    cluster_id: str | None = None,
    with_sessions: bool = True,
) -> QuorumClient:
    return QuorumClient(
        endpoints,
        timeout_ms=60_000,
        sessions=with_sessions,
        settings=ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5, rng=random.Random(1)),
        credentials=credentials or Credentials(token_file=token, plaintext_token=True),
        cluster_id=cluster_id,
    )


@asynccontextmanager
async def load(client: QuorumClient, tasks: int = 4) -> AsyncGenerator[list[int]]:
    """Writes and reads without a pause; a failure of any fails the test."""
    done: list[int] = []
    stop = asyncio.Event()

    async def work(task: int) -> None:
        number = 0
        while not stop.is_set():
            written = await client.put(f"key-{task}-{number}", b"1")
            await client.list(f"key-{task}-{number}")
            done.append(written.base_offset)
            number += 1

    async with asyncio.TaskGroup() as group:
        for task in range(tasks):
            group.create_task(work(task))
        yield done
        stop.set()


async def until(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - of both ends, neither of which has an event
            await asyncio.sleep(0.005)


async def test_a_token_is_rotated_under_load_and_no_request_fails(token: Path):
    async with guarded_node(tokens={OLD}) as node, client_of(node.at, token=token) as client:
        assert node.tokens is not None
        async with load(client) as done:
            await until(lambda: len(done) > 20, "writes with the old token")
            node.tokens.add(NEW)
            replace_file(token, NEW.encode())
            await until(lambda: node.sessions == 2, "a session with the new token")
            await until(lambda: node.requests[-1][2] == NEW, "requests with the new token")
            node.tokens.remove(OLD)
            before = len(done)
            await until(lambda: len(done) > before + 20, "writes with the new token")
            await until(lambda: node.open_sessions == 1, "the old session to close")
        session = client._asker._sessions._open[node.at]  # type: ignore[union-attr]
        assert session.usable
        assert session.credentials == 1
        assert len(done) == len(set(done)) == node.service.appends, "nothing was written twice"


async def test_certificates_and_ca_are_rotated_under_load_and_no_request_fails(tmp_path: Path):
    old, new = Authority("old"), Authority("new")
    server = old.issue(tmp_path / "node", hosts=[HOST])
    app = old.issue(tmp_path / "app", common_name="app", also_trusted=[new])
    context = server.server_context(clients=old)
    context.load_verify_locations(cadata=new.pem.decode())  # the overlap
    credentials = Credentials(app.ca, app.certificate, app.key)
    async with (
        guarded_node(context) as node,
        client_of(node.at, credentials=credentials) as client,
        load(client) as done,
    ):
        await until(lambda: len(done) > 20, "writes with the old certificates")
        new.issue(tmp_path / "node", hosts=[HOST])
        context.load_cert_chain(server.certificate, server.key)
        new.issue(tmp_path / "app", common_name="app", also_trusted=[old])
        await until(lambda: node.sessions == 2, "a session with the new certificates")
        replace_file(app.ca, new.pem)  # the old CA is trusted no more
        await until(lambda: node.sessions == 3, "a session that trusts the new CA alone")
        before = len(done)
        await until(lambda: len(done) > before + 20, "writes with the new certificates")


async def test_a_session_with_the_old_token_serves_while_none_with_the_new_one_can_be_opened(
    token: Path,
):
    async with guarded_node(tokens={OLD}) as node, client_of(node.at, token=token) as client:
        assert node.tokens is not None
        await client.put("a", b"1")
        replace_file(token, NEW.encode())
        async with asyncio.timeout(30):
            while [path for _, path, given in node.requests if given == NEW].count(PATH) < 2:
                await client.put("a", b"1")
                await asyncio.sleep(0.005)
        assert node.sessions == 1
        node.tokens.add(NEW)
        while node.sessions < 2:
            await client.put("a", b"1")
            await asyncio.sleep(0.005)


async def test_a_refused_token_is_read_again_at_once(token: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(credential_files, "CHECK_S", 3600.0)
    async with (
        guarded_node(tokens={OLD}) as node,
        client_of(node.at, token=token, with_sessions=False) as client,
    ):
        await client.put("a", b"1")
        node.tokens = {NEW}
        replace_file(token, NEW.encode())
        await client.put("a", b"2")
        node.tokens = {OLD}
        replace_file(token, OLD.encode())
        await client.describe_node(node.at)
        assert node.service.appends == 2


async def test_a_session_whose_token_is_refused_is_replaced_and_the_operation_repeated(
    token: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(credential_files, "CHECK_S", 3600.0)
    accepted = {OLD}
    opened: list[str] = []
    done: list[str] = []
    refusals: list[str] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        given = request.headers["Authorization"].removeprefix("Bearer ")
        opened.append(given)
        websocket = web.WebSocketResponse(protocols=(SUBPROTOCOL,))
        await websocket.prepare(request)
        greeting = Greeting(1 << 20, 1 << 20, 1 << 20)
        await websocket.send_bytes(answers.encode_greeting(greeting))
        async for message in websocket:
            for operation in operations.decode_message(message.data):
                if given in accepted:
                    done.append(given)
                    answer = answers.encode_written(operation.operation_id, Written(7, 7, 3))
                else:
                    refusals.append(given)
                    refused = ApiError(
                        error="AUTHENTICATION_FAILED", message="expired", outcome="not_done"
                    )
                    answer = answers.encode_refusal(
                        operation.operation_id, Refusal(401, refused.model_dump_json().encode())
                    )
                await websocket.send_bytes(answers.encode_message([answer]))
        return websocket

    async with plain_server(serve) as at, client_of(at, token=token) as client:
        await client.put("a", b"1")
        accepted.clear()
        with pytest.raises(RefusedError, match="AUTHENTICATION_FAILED"):
            await client.put("a", b"1")
        assert opened == [OLD], "the file has not changed: no other session is tried"
        replace_file(token, NEW.encode())
        accepted.add(NEW)
        await asyncio.gather(*(client.put("a", b"1") for _ in range(50)))
        assert opened == [OLD, NEW]
        assert done == [OLD] + [NEW] * 50
        assert len(refusals) == 1 + 50, "the old session got none of them a second time"


async def test_a_refused_session_is_opened_once_the_node_knows_the_token(token: Path):
    async with guarded_node(tokens=set()) as node, client_of(node.at, token=token) as client:
        with pytest.raises(RefusedError, match="AUTHENTICATION_FAILED"):
            await client.put("a", b"1")
        node.tokens = {OLD}
        await client.put("a", b"1")
        assert node.sessions == 1, "the node serves sessions, and is not asked over HTTP instead"


@asynccontextmanager
async def plain_server(serve: Handler) -> AsyncGenerator[Endpoint]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield Endpoint(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("with_sessions", [True, False])
async def test_a_token_that_no_node_knows_is_refused_at_once(token: Path, with_sessions: bool):
    async with (
        guarded_node(tokens=set()) as first,
        guarded_node(tokens=set()) as second,
        client_of(first.at, second.at, token=token, with_sessions=with_sessions) as client,
    ):
        with pytest.raises(RefusedError) as caught:
            await client.put("a", b"1")
        assert (caught.value.error, caught.value.status) == ("AUTHENTICATION_FAILED", 401)
        for node in (first, second):
            assert len([path for _, path, _ in node.requests if path != PATH]) == 1
        assert OLD not in "".join(traceback.format_exception(caught.value)) + repr(caught.value)


async def test_a_token_that_one_node_does_not_know_yet_is_served_by_another(token: Path):
    async with (
        guarded_node(tokens=set()) as behind,
        guarded_node(tokens={OLD}) as node,
        client_of(behind.at, node.at, token=token) as client,
    ):
        for number in range(20):
            await client.put(f"key-{number}", b"1")
            await client.get(f"key-{number}", consistency="local")
        assert behind.requests, "it was asked"
        assert node.service.appends == 20


async def test_a_subject_that_may_not_write_is_refused_and_no_other_node_is_asked(token: Path):
    async with (
        guarded_node(tokens={OLD}) as first,
        guarded_node(tokens={OLD}) as second,
        client_of(first.at, second.at, token=token, with_sessions=False) as client,
    ):
        first.readers.add(OLD)
        second.readers.add(OLD)
        with pytest.raises(RefusedError) as caught:
            await client.put("a", b"1")
        assert (caught.value.error, caught.value.status) == ("AUTHORIZATION_FAILED", 403)
        assert len(first.requests + second.requests) == 1
        await client.get("a")


@pytest.mark.parametrize("with_sessions", [True, False])
async def test_a_node_of_another_cluster_refuses_and_changes_nothing(
    token: Path, with_sessions: bool
):
    async with (
        guarded_node() as node,
        client_of(
            node.at, token=token, cluster_id="OtherCluster", with_sessions=with_sessions
        ) as client,
    ):
        with pytest.raises(RefusedError, match=r"INCONSISTENT_CLUSTER_ID: .* belongs to 'memory'"):
            await client.put("a", b"1")
        assert node.service.appends == 0


async def test_a_cluster_id_that_is_none_is_refused_before_anything_is_sent():
    for text in ("", "a b", "a\r\nX-Other: 1", "x" * 65, "-x"):
        with pytest.raises(ValueError, match="cluster_id"):
            QuorumClient([Endpoint(HOST, 1)], cluster_id=text)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_token_goes_where_a_redirect_points(status: int, token: Path):
    stolen: list[str] = []

    async def steal(request: web.Request) -> web.StreamResponse:
        stolen.append(f"{request.method} {request.path} {dict(request.headers)}")
        return web.Response()

    async with plain_server(steal) as elsewhere:

        async def redirect(request: web.Request) -> web.StreamResponse:
            location = f"http://{elsewhere}{request.path_qs}"
            return web.Response(status=status, headers={"Location": location})

        async with plain_server(redirect) as at, client_of(at, token=token) as client:
            with pytest.raises(UnavailableError, match=f"it answers {status} with another addr"):
                await client.put("a", b"1", timeout_ms=200)
            with pytest.raises(UnavailableError):
                await client.list(timeout_ms=200)
        async with (
            plain_server(redirect) as at,
            client_of(at, token=token, with_sessions=False) as client,
        ):
            with pytest.raises(OutcomeUnknownError, match=f"HTTP {status}"):
                await client.put("a", b"1", timeout_ms=200)
    assert not stolen


async def test_no_error_and_no_log_line_has_the_token(
    token: Path, caplog: pytest.LogCaptureFixture
):
    """Whatever happens to a request, with the locals of each frame, as some loggers show them."""
    caplog.set_level(logging.DEBUG)

    async def fail(request: web.Request) -> web.StreamResponse:
        if request.query.get("prefix") == "cut":
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=500, text="no")

    shown: list[str] = []
    failures = 0
    async with plain_server(fail) as at, guarded_node(tokens=set()) as node:
        for endpoint in (at, node.at, Endpoint(HOST, 1)):
            for with_sessions in (True, False):
                client = client_of(endpoint, token=token, with_sessions=with_sessions)
                async with client:
                    for call in (
                        client.put("a", b"1", timeout_ms=100),
                        client.list("cut", timeout_ms=100),
                        client.describe_node(endpoint, timeout_ms=100),
                    ):
                        # A task of its own: this function's locals are none of the client's.
                        [error] = await asyncio.gather(call, return_exceptions=True)
                        assert isinstance(error, ClientError)
                        failures += 1
                        lines = traceback.TracebackException.from_exception(
                            error, capture_locals=True
                        )
                        shown += lines.format()
                        shown.append(f"{error!r} {vars(error)!r}")
                shown.append(f"{client!r} {vars(client)!r} {vars(client._asker)!r}")
    assert failures == 18
    text = "".join(shown) + caplog.text
    assert OLD not in text


async def test_a_client_whose_file_is_missing_is_not_opened(tmp_path: Path):
    client = client_of(Endpoint(HOST, 1), token=tmp_path / "absent")
    with pytest.raises(CredentialsError, match=r"token_file .*absent: No such file"):
        await client.__aenter__()
