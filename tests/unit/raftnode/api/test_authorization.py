"""Every route of the router with every role; sessions; other clusters."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from proofkit.accounttokens import AUDIENCE, ISSUER, AccountIssuer, write_keys
from proofkit.certificates import Authority
from proofkit.fullpipe import FullPipe
from proofkit.memoryservice import MemoryService
from raftnode.access.access_file import AccessFile, FollowedFile, open_access_file
from raftnode.access.access_list import Presented, token_hash
from raftnode.access.audit_log import AuditLog, AuditRecord
from raftnode.access.roles import Role, Verb
from raftnode.access.service_accounts import LEEWAY_S, AccountTokens, KeySet
from raftnode.api import session_route
from raftnode.api.authorization import Caller, Gate
from raftnode.api.client_certificate import ClientCertificate
from raftnode.api.errors import refusal
from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits
from raftnode.api.listeners import Listener
from raftnode.api.media import HEADER_CLUSTER_ID
from raftnode.api.metrics import AccessMetrics, LimitMetrics
from raftnode.api.openapi import openapi
from raftnode.api.server import ApiServer, all_routes, make_app
from raftnode.api.service import NewRecord
from raftnode.api.session_route import CLOSE_REFUSED
from raftnode.core.types import Endpoint
from raftnode.errors import RequestError
from raftnode.limits.model import ClientLimits, Limit
from raftnode.logformat import encode_keyless_batch
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import AnswerKind
from raftnode.session.operations import VERBS, Kind
from raftnode.tls.certificates import Certificate, read_certificates

GATE = "api.authorization:Gate"
READ, WRITE, ADMIN, METRICS = Role
KEY = "app/key"

ALLOWED: dict[str, set[Role]] = {
    "appendRecords": {WRITE},
    "readLog": {READ},
    "listKeys": {READ},
    "getKey": {READ},
    "putKey": {WRITE},
    "deleteKey": {WRITE},
    "describeQuorum": {READ, WRITE, ADMIN},
    "addVoter": {ADMIN},
    "removeVoter": {ADMIN},
    "reassign": {ADMIN},
    "cancelReassignment": {ADMIN},
    "upgrade": {ADMIN},
    "resign": {ADMIN},
    "form": {ADMIN},
    "join": {ADMIN},
    "describeApi": {READ, WRITE, ADMIN},
    "describeNode": {READ, WRITE, ADMIN},
    "nodeState": {READ, WRITE, ADMIN},
    "metrics": {METRICS},
    "openSession": {READ, WRITE},
}
"""The roles that a route admits."""

OPEN = {"live", "ready"}
"""The routes that admit each client."""

OF_KEYS = {"getKey", "putKey", "deleteKey"}
OF_ALL_RECORDS = {"appendRecords", "readLog", "listKeys"}

DOCUMENT = openapi(all_routes(MemoryService(), ApiLimits(), CollectorRegistry()), version="1")
OPERATIONS: dict[str, tuple[str, str]] = {
    operation["operationId"]: (method.upper(), path.replace("{key}", KEY))
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
} | {"describeApi": ("GET", "/openapi.json")}
"""The document does not describe itself."""


def entry(name: str, *grants: Any) -> dict[str, Any]:
    return {
        "name": name,
        "token_hashes": [token_hash(name.encode())],
        "grants": [
            grant if isinstance(grant, dict) else {"roles": [grant.value]} for grant in grants
        ],
    }


SUBJECTS = [
    *(entry(role.value, role) for role in Role),
    entry("all", *Role),
    entry("mine", {"roles": ["read", "write"], "key_prefixes": ["app/"]}),
    entry("theirs", {"roles": ["read", "write"], "key_prefixes": ["other/"]}),
]


@dataclass
class Api:
    service: MemoryService
    http: aiohttp.ClientSession
    at: Endpoint
    registry: CollectorRegistry
    path: Path
    file: AccessFile | None
    guard: Guard

    async def ask(
        self, method: str, path: str, token: str | None = None, **options: Any
    ) -> tuple[int, Any, dict[str, str]]:
        headers = dict(options.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with self.http.request(
            method, f"http://{self.at}{path}", headers=headers, **options
        ) as response:
            data = await response.read()
            body = json.loads(data) if response.content_type == "application/json" else data
            return response.status, body, dict(response.headers)

    async def operate(self, operation_id: str, token: str | None, **options: Any) -> Any:
        method, path = OPERATIONS[operation_id]
        return await self.ask(method, path, token, **options)

    async def grant(self, *subjects: Any) -> None:
        self.path.write_text(json.dumps({"subjects": [*subjects]}))
        assert self.file is not None
        assert not await self.file.refresh()
        assert await self.file.refresh()

    def refused(self, reason: str) -> float | None:
        return self.registry.get_sample_value(
            "raftnode_access_refusals_total", {"listener": "api", "reason": reason}
        )

    def limited(self, limit: Limit) -> float | None:
        return self.registry.get_sample_value(
            "raftnode_client_refusals_total", {"listener": "api", "limit": limit.value}
        )

    def state(self) -> Any:
        return self.service.describe_node()

    @asynccontextmanager
    async def session(self, token: str | None) -> AsyncIterator[Session]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        websocket = await self.http.ws_connect(
            f"http://{self.at}{PATH}", protocols=(SUBPROTOCOL,), headers=headers
        )
        try:
            answers.decode_greeting(await websocket.receive_bytes())
            yield Session(websocket)
        finally:
            await websocket.close()


@dataclass
class Session:
    websocket: aiohttp.ClientWebSocketResponse
    last: int = 0

    async def begin(self, kind: int, body: bytes) -> None:
        self.last += 1
        head = operations.encode_head(self.last, 10_000, kind, body)
        await self.websocket.send_bytes(operations.encode_message([head, body]))

    async def answer(self) -> str:
        async with asyncio.timeout(30):
            [answer] = answers.decode_message(await self.websocket.receive_bytes())
        if answer.kind != AnswerKind.REFUSED:
            return "done"
        return str(json.loads(answers.decode_refusal(answer.body).error)["error"])

    async def ask(self, kind: int, body: bytes) -> str:
        await self.begin(kind, body)
        return await self.answer()


BODIES: dict[Kind, bytes] = {
    Kind.PUT: operations.put_body(KEY.encode(), b"value"),
    Kind.DELETE: KEY.encode(),
    Kind.GET: operations.get_body(KEY.encode(), linearizable=True),
    Kind.APPEND: operations.append_body([b"value"]),
    Kind.READ: operations.read_body(0, 1 << 20, 0),
    Kind.APPEND_BATCH: encode_keyless_batch([bytes(operations.BATCH_BYTES_MIN)], 0),
}
SESSION_ROLES: dict[Kind, Role] = {
    Kind.PUT: WRITE,
    Kind.DELETE: WRITE,
    Kind.GET: READ,
    Kind.APPEND: WRITE,
    Kind.READ: READ,
    Kind.APPEND_BATCH: WRITE,
}


@asynccontextmanager
async def served(
    tmp_path: Path,
    subjects: list[Any] | None,
    anonymous: Any = None,
    accounts: AccountTokens | None = None,
    audit: AuditLog | None = None,
    **limits: int,
) -> AsyncIterator[Api]:
    service, registry = MemoryService(), CollectorRegistry()
    await service.append([NewRecord(KEY.encode(), b"value")], timeout_ms=1000)
    path, file = tmp_path / "access.json", None
    if subjects is not None:
        value: dict[str, Any] = {"subjects": subjects}
        if anonymous is not None:
            value["anonymous"] = {"grants": anonymous}
        path.write_text(json.dumps(value))
        file = open_access_file(path)
    gate = Gate(service, file, accounts, observer=AccessMetrics(registry), audit=audit)
    guard = Guard(ClientLimits(**limits), LimitMetrics(registry).of(Listener.API))
    app = make_app(service, registry=registry, version="1", gate=gate, guard=guard)
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        async with aiohttp.ClientSession() as http:
            yield Api(service, http, at, registry, path, file, guard)
    finally:
        await server.stop()
        if audit is not None:
            audit.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with served(tmp_path, SUBJECTS) as made:
        yield made


def error_of(body: Any) -> str:
    return str(body["error"]) if isinstance(body, dict) and "error" in body else ""


def test_every_route_has_a_row():
    app = make_app(MemoryService(), registry=CollectorRegistry(), version="1")
    routed = {
        (route.method, route.resource and route.resource.canonical.replace("{key}", KEY))
        for route in app.router.routes()
    }
    assert routed == set(OPERATIONS.values())
    assert set(OPERATIONS) == set(ALLOWED) | OPEN


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("operation_id", sorted(ALLOWED))
async def test_a_route_admits_its_roles_and_no_other(operation_id: str, role: Role, api: Api):
    before = api.state()
    status, body, _ = await api.operate(operation_id, role.value)
    if role in ALLOWED[operation_id]:
        assert status not in {401, 403}
        return
    assert (status, error_of(body)) == (403, "AUTHORIZATION_FAILED")
    assert body["outcome"] == "not_done"
    assert f"{role.value} lacks the role" in body["message"]
    assert api.state() == before
    assert api.refused("role_missing") == 1


@pytest.mark.parametrize("token", [None, "stranger", ""])
@pytest.mark.parametrize("operation_id", sorted(ALLOWED))
async def test_a_route_refuses_unknown_clients_and_changes_nothing(
    operation_id: str, token: str | None, api: Api
):
    before = api.state()
    status, body, headers = await api.operate(operation_id, token)
    assert (status, error_of(body)) == (401, "AUTHENTICATION_FAILED")
    assert headers["WWW-Authenticate"] == "Bearer"
    assert body["outcome"] == "not_done"
    assert api.state() == before
    assert api.refused("no_credentials" if token is None else "unknown_credentials") == 1


@pytest.mark.parametrize("token", [None, "stranger", "metrics"])
@pytest.mark.parametrize("operation_id", sorted(OPEN))
async def test_probes_are_open_to_each_client(operation_id: str, token: str | None, api: Api):
    status, _, _ = await api.operate(operation_id, token)
    assert status == 200


@pytest.mark.parametrize("operation_id", sorted(ALLOWED))
async def test_prefixes_are_for_the_keys_that_begin_with_them(operation_id: str, api: Api):
    status, _, _ = await api.operate(operation_id, "mine")
    other, body, _ = await api.operate(operation_id, "theirs")
    if operation_id in OF_KEYS:
        assert status == 200
        assert (other, error_of(body)) == (403, "AUTHORIZATION_FAILED")
        assert api.refused("outside_prefixes") == 1
    elif operation_id in OF_ALL_RECORDS:
        assert (status, other) == (403, 403)
        assert api.refused("outside_prefixes") == 2


@pytest.mark.without("api.needs:raw_key", "unquote_to_bytes", "str.encode")
async def test_the_key_that_counts_is_the_decoded_one(api: Api):
    for path in ("/v1/kv/app%2Fkey", "/v1/kv/%61pp/key", "/v%31/kv/app/key"):
        url = aiohttp.client.URL(f"http://{api.at}{path}", encoded=True)
        async with api.http.get(url, headers={"Authorization": "Bearer mine"}) as response:
            assert response.status == 200, path
    for path in ("/v1/kv/%6Fther/key", "/v1/kv/../app/key", "/v1/kv//app/key"):
        url = aiohttp.client.URL(f"http://{api.at}{path}", encoded=True)
        async with api.http.get(url, headers={"Authorization": "Bearer mine"}) as response:
            assert response.status == 403, path


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?prefix=app/", 200),
        ("?prefix=app/k", 200),
        ("?prefix=app", 403),
        ("?prefix=", 403),
        ("?prefix=b", 403),
        ("?after=app/", 403),
        ("?prefix=app/&prefix=", 400),
        ("?prefix=&prefix=app/", 403),
    ],
)
async def test_a_listing_is_for_keys_of_the_prefixes_alone(query: str, status: int, api: Api):
    assert (await api.ask("GET", f"/v1/kv{query}", "mine"))[0] == status


@pytest.mark.parametrize(
    "header", ["Basic all", "Bearer", "Bearer ", "all", "bearer  ", "Token all"]
)
async def test_another_header_than_a_bearer_token_is_refused(header: str, api: Api):
    status, body, _ = await api.ask("GET", "/v1/node", headers={"Authorization": header})
    assert (status, error_of(body)) == (401, "AUTHENTICATION_FAILED")
    status, _, _ = await api.ask("GET", "/v1/node", headers={"Authorization": "bEARER  all"})
    assert status == 200


async def test_two_authorization_headers_are_refused(api: Api):
    reader, writer = await asyncio.open_connection(api.at.host, api.at.port)
    writer.write(
        b"GET /v1/node HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer all\r\n"
        b"Authorization: Bearer all\r\nConnection: close\r\n\r\n"
    )
    answer = await reader.read()
    writer.close()
    assert b" 401 " in answer.splitlines()[0] or b" 400 " in answer.splitlines()[0]


async def test_a_refused_body_is_not_read(api: Api):
    """A client that may not write takes no memory for its bodies."""
    reader, writer = await asyncio.open_connection(api.at.host, api.at.port)
    writer.write(b"PUT /v1/kv/a HTTP/1.1\r\nHost: n\r\nContent-Length: 1000000\r\n\r\n")
    async with asyncio.timeout(10):
        assert b" 401 " in await reader.readline()
    writer.transport.abort()


async def test_anonymous_clients_get_what_the_file_grants_them(tmp_path: Path):
    async with served(tmp_path, SUBJECTS, [{"roles": ["metrics"]}]) as api:
        assert (await api.operate("metrics", None))[0] == 200
        assert (await api.operate("metrics", "read"))[0] == 200
        assert (await api.operate("metrics", "stranger"))[0] == 401
        assert (await api.operate("readLog", None))[0] == 401


@pytest.mark.parametrize("operation_id", sorted({*ALLOWED, *OPEN}))
async def test_without_an_access_file_every_request_is_allowed(operation_id: str, tmp_path: Path):
    async with served(tmp_path, None) as api:
        for token in (None, "stranger"):
            assert (await api.operate(operation_id, token))[0] not in {401, 403, 409}


@pytest.mark.without(f"{GATE}.permit", "own is not None and meant != own", "False")
async def test_a_request_for_another_cluster_is_refused_and_changes_nothing(tmp_path: Path):
    for subjects, token in ((None, None), (SUBJECTS, "all")):
        async with served(tmp_path, subjects) as api:
            before = api.state()
            for operation_id in OPERATIONS:
                status, body, _ = await api.operate(
                    operation_id, token, headers={HEADER_CLUSTER_ID: "other"}
                )
                assert (status, error_of(body)) == (409, "INCONSISTENT_CLUSTER_ID"), operation_id
                assert body["outcome"] == "not_done"
            assert api.state() == before
            assert api.refused("other_cluster") == len(OPERATIONS)
            headers = {HEADER_CLUSTER_ID: "memory"}
            status, _, _ = await api.operate("putKey", token, headers=headers)
            assert status == 200


async def test_a_client_without_credentials_does_not_learn_the_cluster_id(api: Api):
    status, body, _ = await api.operate("getKey", None, headers={HEADER_CLUSTER_ID: "other"})
    assert status == 401
    assert "memory" not in body["message"]


async def test_a_blank_node_belongs_to_no_cluster_yet(tmp_path: Path):
    service = MemoryService(cluster_id=None)
    server = ApiServer(make_app(service, registry=CollectorRegistry(), version="1"))
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://{at}/v1/node", headers={HEADER_CLUSTER_ID: "any"}) as response,
        ):
            assert response.status == 200
    finally:
        await server.stop()


def test_every_operation_of_a_session_has_a_row():
    assert set(BODIES) == set(SESSION_ROLES) == set(VERBS) == set(Kind)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("role", [READ, WRITE])
async def test_an_operation_of_a_session_admits_its_role(kind: Kind, role: Role, api: Api):
    before = api.state()
    async with api.session(role.value) as session:
        answer = await session.ask(kind, BODIES[kind])
    if SESSION_ROLES[kind] is role:
        assert answer == "done"
    else:
        assert answer == "AUTHORIZATION_FAILED"
        assert api.state() == before


@pytest.mark.parametrize("kind", Kind)
async def test_prefixes_hold_in_sessions(kind: Kind, api: Api):
    async with api.session("mine") as session:
        of_key = kind in {Kind.PUT, Kind.DELETE, Kind.GET}
        expected = "done" if of_key else "AUTHORIZATION_FAILED"
        assert await session.ask(kind, BODIES[kind]) == expected
    async with api.session("theirs") as session:
        assert await session.ask(kind, BODIES[kind]) == "AUTHORIZATION_FAILED"


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.without("api.authorization:Caller.identity", "self.outdated", "False")
async def test_an_open_session_is_bound_by_a_new_access_file(kind: Kind, api: Api):
    async with api.session("all") as session:
        assert await session.ask(kind, BODIES[kind]) == "done"
        await api.grant(entry("all", METRICS))
        assert await session.ask(kind, BODIES[kind]) == "AUTHORIZATION_FAILED"
        await api.grant(entry("other", READ))
        assert await session.ask(kind, BODIES[kind]) == "AUTHENTICATION_FAILED"
        await api.grant(entry("all", *Role))
        assert await session.ask(kind, BODIES[kind]) == "done"


@pytest.mark.without("api.session:Session._read", "self._check(pending)", "None")
async def test_a_read_that_waits_in_a_session_is_refused_after_a_revocation(api: Api):
    async with api.session("all") as session:
        end = api.state().log_end_offset
        await session.begin(Kind.READ, operations.read_body(end, 1 << 20, 20_000))
        assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "done"
        await api.grant(entry("other", READ))
        await api.service.append([NewRecord(None, b"secret")], timeout_ms=1000)
        assert await session.answer() == "AUTHENTICATION_FAILED"


@pytest.mark.without("api.session:Session.answer_read", "self._check(pending, pending.key)", "None")
async def test_a_get_that_waits_in_a_session_is_refused_after_a_revocation(api: Api):
    async with api.session("all") as session:
        api.service.hold()
        await session.begin(Kind.GET, BODIES[Kind.GET])
        async with asyncio.timeout(10):
            while not api.service.held:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        await api.grant(entry("other", READ))
        api.service.release()
        assert await session.answer() == "AUTHENTICATION_FAILED"


@pytest.mark.without(f"{GATE}.permit_answer", "caller.outdated", "False")
async def test_a_long_poll_is_refused_after_a_revocation(api: Api):
    end = api.state().log_end_offset
    path = f"/v1/log?offset={end}&max_wait_ms=20000"
    async with asyncio.TaskGroup() as group:
        polled = group.create_task(api.ask("GET", path, "all"))
        await asyncio.sleep(0.2)
        await api.grant(entry("other", READ))
        await api.service.append([NewRecord(None, b"secret")], timeout_ms=1000)
    assert polled.result()[0] == 401


async def written_while(api: Api, *subjects: Any) -> tuple[int, Any]:
    """A write by `all` whose body arrives half before and half after a new access file."""
    granted = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        await granted.wait()
        yield b"half"

    async with asyncio.TaskGroup() as group:
        write = group.create_task(api.operate("putKey", "all", data=body()))
        async with asyncio.timeout(30):
            while not api.guard.bodies.total:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        await api.grant(*subjects)
        granted.set()
    status, answer, _ = write.result()
    return status, answer


@pytest.mark.without(
    "api.authorization:Gate.permit_body",
    "request[CALLER].check(need.verb, need.target(request))",
    "pass",
)
async def test_a_body_that_arrives_after_a_revocation_changes_nothing(api: Api):
    before = api.state()
    status, answer = await written_while(api, entry("other", READ))
    assert (status, answer.get("outcome")) == (401, "not_done")
    assert api.state() == before
    assert api.guard.bodies.total == 0


@pytest.mark.without("api.guard:Guard.take_bytes", "request.get(_HOLDER) or ", "")
async def test_a_subject_that_is_renamed_as_its_body_arrives_gives_back_what_it_took(api: Api):
    status, _ = await written_while(api, entry("all", *Role) | {"name": "renamed"})
    assert status == 200
    assert api.guard.bodies.total == 0


async def test_a_write_that_was_begun_is_answered_after_a_revocation(api: Api):
    """Its outcome is known: a refusal would say that it was not done."""
    async with api.session("all") as session:
        api.service.hold()
        await session.begin(Kind.PUT, BODIES[Kind.PUT])
        async with asyncio.timeout(10):
            while not api.service.held:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        await api.grant(entry("other", READ))
        api.service.release()
        assert await session.answer() == "done"


async def test_a_failure_of_a_write_keeps_its_outcome_after_a_revocation(api: Api):
    api.service.fail_next(refusal("LEADERSHIP_LOST", "gone"))
    status, body, _ = await api.operate("putKey", "all", data=b"1")
    assert (status, body["outcome"]) == (504, "unknown")


@pytest.mark.without("api.guard:_holder_of", "holder_of(request, address)", "address")
async def test_limits_count_by_subject_and_unknown_tokens_by_address(tmp_path: Path):
    subjects = [entry("one", READ), entry("two", READ)]
    async with served(tmp_path, subjects, holder_requests_max=1) as api:
        end = api.state().log_end_offset
        path = f"/v1/log?offset={end}&max_wait_ms=1000"
        poll = asyncio.get_running_loop().create_task(api.ask("GET", path, "one"))
        await asyncio.sleep(0.3)
        status, body, _ = await api.ask("GET", path, "one")
        other, _, _ = await api.ask("GET", "/v1/log", "two")
        stranger, _, _ = await api.ask("GET", "/v1/log", "stranger")
        assert (await poll)[0] == 200
        assert (status, other, stranger) == (429, 200, 401)
        assert "requests of subject one are in flight" in body["message"]


async def sessions_end(api: Api) -> None:
    """Wait until the node counts no session."""
    for _ in range(500):
        if not api.guard.sessions.total:
            return
        await asyncio.sleep(0.01)
    pytest.fail("a session that has ended is still counted")


@pytest.mark.without("api.guard:Guard.__init__", "limits.holder_sessions_max", "9")
@pytest.mark.without(
    "api.guard:Guard.take_session", "else Limit.HOLDER_SESSIONS", "else Limit.SESSIONS"
)
@pytest.mark.without("api.guard:Guard.take_session", "self.sessions.give_back(holder)", "None")
@pytest.mark.without("api.guard:_holder_of", "holder_of(request, address)", "address")
async def test_a_subject_has_as_many_sessions_as_its_limit_and_takes_none_of_another(
    tmp_path: Path,
):
    subjects = [entry("one", READ), entry("two", READ)]
    async with served(tmp_path, subjects, holder_sessions_max=2) as api:
        async with api.session("one") as first, api.session("one"):
            status, body, _ = await api.operate(
                "openSession", "one", headers={"Sec-WebSocket-Protocol": SUBPROTOCOL}
            )
            assert (status, error_of(body)) == (503, "TOO_MANY_SESSIONS")
            assert "2 sessions of subject one are open" in body["message"]
            assert (api.limited(Limit.HOLDER_SESSIONS), api.limited(Limit.SESSIONS)) == (1, 0)
            async with api.session("two") as other:
                assert await other.ask(Kind.GET, BODIES[Kind.GET]) == "done"
            assert await first.ask(Kind.GET, BODIES[Kind.GET]) == "done"
        await sessions_end(api)
        async with api.session("one") as again:
            assert await again.ask(Kind.GET, BODIES[Kind.GET]) == "done"
        assert api.limited(Limit.HOLDER_SESSIONS) == 1


def test_the_document_says_what_each_operation_needs():
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            operation_id = operation["operationId"]
            roles = sorted(role.value for role in ALLOWED.get(operation_id, ()))
            assert operation["x-roles"] == roles
            named = set(operation["responses"])
            assert ({"401", "403"} <= named) == (operation_id not in OPEN)
            assert "409" in named


async def test_a_service_account_is_known_by_its_token_until_that_ends(tmp_path: Path):
    issuer = AccountIssuer()
    write_keys(tmp_path / "jwks.json", issuer)
    accounts = AccountTokens(
        FollowedFile("access_jwks_file", tmp_path / "jwks.json", KeySet.parse),
        audience=AUDIENCE,
        issuer=ISSUER,
    )
    app = entry("app", READ) | {"service_accounts": ["shop/app"], "token_hashes": []}
    async with served(tmp_path, [app, entry("other", READ)], accounts=accounts) as api:
        assert (await api.operate("getKey", issuer.token()))[0] == 200
        assert (await api.operate("putKey", issuer.token()))[0] == 403
        assert (await api.operate("getKey", "other"))[0] == 200
        for wrong in (issuer.token(name="x"), issuer.token(aud="x"), AccountIssuer().token()):
            status, body, _ = await api.operate("getKey", wrong)
            assert (status, error_of(body)) == (401, "AUTHENTICATION_FAILED")
        async with api.session(issuer.token(exp=int(time.time()) - LEEWAY_S + 3)) as session:
            assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "done"
            await asyncio.sleep(4)
            assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "AUTHENTICATION_FAILED"


async def closing(session: Session) -> aiohttp.WSMessage:
    try:
        return await session.websocket.receive(timeout=10)
    except TimeoutError:
        pytest.fail("the session is not closed")


@pytest.mark.parametrize("how", ["withdrawn", "expired", "role lost"])
@pytest.mark.without("api.session_route:_refuse_when_idle", "caller.check(SESSION.verb)", "pass")
async def test_an_idle_session_is_closed_once_its_caller_may_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    monkeypatch.setattr(session_route, "CALLER_LOOK_S", 0.05)
    issuer = AccountIssuer()
    write_keys(tmp_path / "jwks.json", issuer)
    keys = FollowedFile("access_jwks_file", tmp_path / "jwks.json", KeySet.parse)
    accounts = AccountTokens(keys, audience=AUDIENCE, issuer=ISSUER)
    app = entry("app", READ) | {"service_accounts": ["shop/app"]}
    audit = AuditLog(tmp_path / "audit")
    async with served(tmp_path, [app, entry("other", READ)], accounts=accounts, audit=audit) as api:
        token = "app"
        if how == "expired":
            token = issuer.token(exp=int(time.time()) - LEEWAY_S + 3)
        async with api.session("other") as other, api.session(token) as session:
            assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "done"
            if how == "withdrawn":
                await api.grant(entry("other", READ))
            elif how == "role lost":
                await api.grant(entry("other", READ), entry("app", METRICS))
            closed = await closing(session)
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, CLOSE_REFUSED)
            code = "AUTHORIZATION_FAILED" if how == "role lost" else "AUTHENTICATION_FAILED"
            assert str(closed.extra).startswith(f"{code}: ")
            assert await other.ask(Kind.GET, BODIES[Kind.GET]) == "done"
        [line] = audited(tmp_path, audit)
        assert (line["event"], line["operation"], line["verb"]) == (
            "refused",
            "openSession",
            "session",
        )


async def test_a_session_with_an_operation_under_way_is_closed_after_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session_route, "CALLER_LOOK_S", 0.05)
    async with served(tmp_path, [entry("app", READ)]) as api, api.session("app") as session:
        await session.begin(Kind.READ, operations.read_body(10_000, 1 << 20, 2_000))
        await asyncio.sleep(0.1)
        await api.grant(entry("other", READ))
        assert await session.answer() == "AUTHENTICATION_FAILED"
        closed = await closing(session)
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, CLOSE_REFUSED)


def verified_by(chain: Sequence[Certificate], expires_s: float = math.inf) -> ClientCertificate:
    return ClientCertificate(frozenset(ca.authority for ca in chain), expires_s)


@pytest.mark.parametrize("with_access_file", [True, False])
@pytest.mark.without(
    "api.authorization:Caller.outdated", "self._gate.trusted is not self._trusted", "False"
)
def test_what_comes_on_a_connection_is_refused_once_its_ca_is_withdrawn(
    tmp_path: Path, with_access_file: bool
):
    former, later = (read_certificates(Authority().pem) for _ in range(2))
    trusted = former + later
    path = tmp_path / "access.json"
    path.write_text(json.dumps({"subjects": [entry("app", READ)]}))
    file = open_access_file(path) if with_access_file else None
    gate = Gate(MemoryService(), file, trusted=lambda: trusted)
    presented = Presented(token_hash=token_hash(b"app"))
    first, second, bare = (
        Caller(gate, presented, "address", certificate)
        for certificate in (verified_by(former), verified_by(later), None)
    )
    for caller in (first, second, bare):
        caller.check(Verb.READ)
    trusted = later
    for verb in (Verb.READ, Verb.SESSION):
        with pytest.raises(RequestError, match="CA that the node no longer trusts") as refused:
            first.check(verb)
        assert (refused.value.error, refused.value.status) == ("AUTHENTICATION_FAILED", 401)
    first.check(Verb.HEALTH)
    for caller in (second, bare):
        caller.check(Verb.READ)


@pytest.mark.parametrize("with_access_file", [True, False])
@pytest.mark.without("api.authorization:Caller.identity", "time.time() >= self._expires_s", "False")
@pytest.mark.without("api.authorization:Caller._look_up", "now_s >= certificate.expires_s", "False")
def test_what_comes_on_a_connection_is_refused_once_its_certificate_has_expired(
    tmp_path: Path, with_access_file: bool
):
    path = tmp_path / "access.json"
    path.write_text(json.dumps({"subjects": [entry("app", READ)]}))
    file = open_access_file(path) if with_access_file else None
    trusted = read_certificates(Authority().pem)
    gate = Gate(MemoryService(), file, trusted=lambda: trusted)
    presented = Presented(token_hash=token_hash(b"app"))
    end_s = time.time() + 2
    caller = Caller(gate, presented, "address", verified_by(trusted, end_s))
    caller.check(Verb.READ)
    while time.time() < end_s:
        time.sleep(0.05)
    for verb in (Verb.READ, Verb.SESSION):
        with pytest.raises(RequestError, match="certificate of this connection has expired"):
            caller.check(verb)
    caller.check(Verb.HEALTH)


@pytest.mark.without("api.authorization:Gate.still_valid", "signed_with is None", "True")
@pytest.mark.without(
    "api.authorization:Caller.outdated", "self._gate.keys is not self._keys", "False"
)
async def test_an_open_session_is_refused_once_the_key_of_its_token_is_withdrawn(tmp_path: Path):
    issuer, next_issuer = AccountIssuer("1"), AccountIssuer("2")
    write_keys(tmp_path / "jwks.json", issuer)
    file = FollowedFile("access_jwks_file", tmp_path / "jwks.json", KeySet.parse)
    accounts = AccountTokens(file, audience=AUDIENCE, issuer=ISSUER)
    app = entry("app", READ) | {"service_accounts": ["shop/app"], "token_hashes": []}
    async with (
        served(tmp_path, [app], accounts=accounts) as api,
        api.session(issuer.token()) as session,
    ):
        assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "done"
        write_keys(tmp_path / "jwks.json", next_issuer, issuer)
        assert not await file.refresh()
        assert await file.refresh()
        assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "done"
        write_keys(tmp_path / "jwks.json", next_issuer)
        assert not await file.refresh()
        assert await file.refresh()
        assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "AUTHENTICATION_FAILED"
        write_keys(tmp_path / "jwks.json", next_issuer, issuer)
        assert not await file.refresh()
        assert await file.refresh()
        assert await session.ask(Kind.GET, BODIES[Kind.GET]) == "done"


def audited(tmp_path: Path, audit: AuditLog) -> list[Any]:
    assert audit.flush()
    return [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]


UPGRADE = {"raft_version": 2}
CHANGES = {operation_id for operation_id, roles in ALLOWED.items() if roles == {ADMIN}}


@pytest.mark.without(f"{GATE}.audited", "need.verb not in _CHANGES", "True")
async def test_each_change_leaves_a_line_with_its_outcome(tmp_path: Path):
    audit = AuditLog(tmp_path / "audit")
    async with served(tmp_path, SUBJECTS, audit=audit) as api:
        for operation_id in sorted(CHANGES):
            await api.operate(operation_id, "admin", json={"x": 1})
        lines = audited(tmp_path, audit)
        assert {line["operation"] for line in lines} == CHANGES
        assert {line["outcome"] for line in lines} == {"not_done"}
        assert {line["error"] for line in lines} == {"INVALID_REQUEST"}
        for line in lines:
            assert (line["event"], line["subject"], line["authenticated_by"]) == (
                "changed",
                "admin",
                "token",
            )
            assert (line["remote"], line["listener"]) == ("127.0.0.1", "api")
        await api.operate("upgrade", "admin", json=UPGRADE)
        done = audited(tmp_path, audit)[-1]
        assert (done["outcome"], done["target"]) == ("done", '{"raft_version":2}')
        assert "error" not in done
        api.service.fail_next(refusal("LEADERSHIP_LOST", "gone"))
        await api.operate("upgrade", "admin", json=UPGRADE)
        assert audited(tmp_path, audit)[-1]["outcome"] == "unknown"
        before = len(audited(tmp_path, audit))
        await api.operate("putKey", "all", data=b"1")
        await api.operate("getKey", "all")
        assert len(audited(tmp_path, audit)) == before


@pytest.mark.without(f"{GATE}.audited", "not has_place and", "False and")
async def test_a_change_that_would_leave_no_line_is_refused_and_others_are_not(tmp_path: Path):
    with FullPipe(tmp_path / "audit") as pipe:
        audit = AuditLog(tmp_path / "audit")
        async with served(tmp_path, SUBJECTS, audit=audit) as api:
            while audit.reserve():
                audit.reserved_change(AuditRecord("changed"))
            before = api.state()
            for operation_id in sorted(CHANGES - {"resign"}):
                status, body, _ = await api.operate(operation_id, "admin", json=UPGRADE)
                assert (status, body["error"], body["outcome"]) == (
                    503,
                    "AUDIT_LOG_FULL",
                    "not_done",
                )
                assert "1024 lines" in body["message"]
            assert api.state() == before
            status, _, _ = await api.operate("resign", "admin", json={})
            assert status < 300
            assert (await api.operate("putKey", "all", data=b"1"))[0] == 200
            while not audit.flush(0.01):
                pipe.read()
            status, _, _ = await api.operate("upgrade", "admin", json=UPGRADE)
            assert status < 300


async def test_each_refusal_leaves_a_line_without_a_secret(tmp_path: Path):
    async with served(tmp_path, SUBJECTS, audit=AuditLog(tmp_path / "audit")) as api:
        await api.operate("addVoter", "read")
        await api.operate("getKey", "a-token-of-no-subject")
        await api.operate("getKey", None)
        await api.operate("getKey", "theirs")
        await api.operate("getKey", "read", headers={HEADER_CLUSTER_ID: "other"})
        async with api.session("read") as session:
            await session.ask(Kind.PUT, BODIES[Kind.PUT])
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(line["reason"], line.get("subject"), line["error"]) for line in lines] == [
        ("role_missing", "read", "AUTHORIZATION_FAILED"),
        ("unknown_credentials", None, "AUTHENTICATION_FAILED"),
        ("no_credentials", None, "AUTHENTICATION_FAILED"),
        ("outside_prefixes", "theirs", "AUTHORIZATION_FAILED"),
        ("other_cluster", "read", "INCONSISTENT_CLUSTER_ID"),
        ("role_missing", "read", "AUTHORIZATION_FAILED"),
    ]
    assert {(line["event"], line["outcome"]) for line in lines} == {("refused", "not_done")}
    text = (tmp_path / "audit").read_text()
    assert "a-token-of-no-subject" not in text
    assert token_hash(b"a-token-of-no-subject") not in text
    assert KEY not in text
