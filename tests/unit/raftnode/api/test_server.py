"""The whole API on a real listener, with a node in memory behind it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge
from yarl import URL

from proofkit.memoryservice import MemoryService
from raftnode.api import kv_routes
from raftnode.api.errors import ERRORS, refusal
from raftnode.api.http import ApiLimits
from raftnode.api.metrics import HttpMetrics
from raftnode.api.model import ApiError, QuorumInfo
from raftnode.api.server import ApiServer, make_app
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, format_directory_id

LIMITS = ApiLimits(record_max_bytes=1100, batch_max_bytes=1600)
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2 << 64 | 7))


@dataclass
class Api:
    service: MemoryService
    session: aiohttp.ClientSession
    base: str
    registry: CollectorRegistry

    async def call(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> tuple[int, Any, Any]:
        if isinstance(body, bytes):
            options["data"] = body
        elif body is not None:
            options["json"] = body
        url = URL(self.base + path, encoded=True)
        async with self.session.request(method, url, **options) as answer:
            raw = await answer.read()
            found = json.loads(raw) if answer.content_type == "application/json" else raw
            return answer.status, found, answer.headers

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> ApiError:
        status, found, _ = await self.call(method, path, body, **options)
        error = ApiError.model_validate(found)
        assert ERRORS[error.error].status == status
        assert ERRORS[error.error].outcome == error.outcome
        return error


async def serve(service: MemoryService) -> AsyncIterator[Api]:
    registry = CollectorRegistry()
    app = make_app(
        service,
        registry=registry,
        version="1.2.3",
        limits=LIMITS,
        observer=HttpMetrics(registry),
    )
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        async with aiohttp.ClientSession() as session:
            yield Api(service, session, f"http://{at}", registry)
    finally:
        await server.stop()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async for one in serve(MemoryService()):
        yield one


@pytest.fixture
async def blank() -> AsyncIterator[Api]:
    async for one in serve(MemoryService(cluster_id=None)):
        yield one


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


# The log.


async def test_append_of_raw_bytes_is_one_record_that_reads_back(api: Api):
    status, appended, headers = await api.call(
        "POST", "/v1/log", b"\x00\xff", headers={"Content-Type": "application/octet-stream"}
    )
    assert status == 200
    assert appended["base_offset"] == appended["last_offset"]
    assert headers["Raft-Offset"] == str(appended["last_offset"])
    assert headers["Raft-Epoch"] == str(appended["epoch"])
    _, read, _ = await api.call("GET", f"/v1/log?offset={appended['base_offset']}")
    (record,) = read["records"]
    assert record["key"] is None
    assert record["value"] == b64(b"\x00\xff")
    assert read["next_offset"] == read["high_watermark"] == appended["last_offset"] + 1


async def test_append_of_json_takes_consecutive_offsets(api: Api):
    body = {"records": [{"value": b64(b"a")}, {"value": ""}, {"value": b64(b"c")}]}
    _, appended, _ = await api.call("POST", "/v1/log", body)
    assert appended["last_offset"] == appended["base_offset"] + 2
    _, read, _ = await api.call("GET", f"/v1/log?offset={appended['base_offset']}")
    assert [record["value"] for record in read["records"]] == [b64(b"a"), "", b64(b"c")]


async def test_control_records_show_their_kind_and_fields(api: Api):
    _, read, _ = await api.call("GET", "/v1/log")
    kinds = [record["control"] for record in read["records"]]
    assert kinds == ["LeaderChange", "RaftVersion", "AddVoter", "FormationCompleted"]
    voter = read["records"][2]["fields"]["voter"]
    assert voter["directory_id"] == format_directory_id(api.service.key.directory_id)


async def test_read_waits_for_a_record_that_is_not_there_yet(api: Api):
    _, read, _ = await api.call("GET", "/v1/log")
    end = read["next_offset"]
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(api.call("GET", f"/v1/log?offset={end}&max_wait_ms=30000"))
        group.create_task(api.call("PUT", "/v1/kv/a", b"1"))
    _, found, _ = poll.result()
    assert [record["offset"] for record in found["records"]] == [end]


async def test_read_past_the_end_answers_empty_after_its_wait(api: Api):
    _, read, _ = await api.call("GET", "/v1/log?offset=1000&max_wait_ms=1")
    assert read["records"] == []
    assert read["next_offset"] == 1000


async def test_read_stops_at_max_bytes_but_brings_one_record(api: Api):
    body = {"records": [{"value": b64(b"x" * 100)}] * 3}
    _, appended, _ = await api.call("POST", "/v1/log", body)
    _, read, _ = await api.call("GET", f"/v1/log?offset={appended['base_offset']}&max_bytes=1")
    assert len(read["records"]) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "body: Invalid JSON"),
        (b"\xff\xfe", "body: Invalid JSON"),
        (b"[]", "body: Input should be an object"),
        (b"{}", "records: Field required"),
        (b'{"records": []}', "records: Tuple should have at least 1 item"),
        (b'{"records": [{"value": 5}]}', "records.0.value: Input should be a valid string"),
        (b'{"records": [{"value": "a"}]}', "records.0.value: not base64"),
        (b'{"records": [{"value": "YQ==\\n"}]}', "records.0.value: not base64"),
        (b'{"records": [{"value": "YQ==", "k": 1}]}', "records.0.k: Extra inputs"),
        (b'{"records": [{"value": "YQ=="}], "x": 1}', "x: Extra inputs"),
        (b"[" * 5000, "body: Invalid JSON"),
    ],
)
async def test_bad_body_is_refused_with_the_field(api: Api, body: bytes, says: str):
    error = await api.refused("POST", "/v1/log", body, headers={"Content-Type": "application/json"})
    assert error.error == "INVALID_REQUEST"
    assert says in error.message
    assert api.service.appends == 0


async def test_sizes_are_refused_by_name_with_what_is_allowed(api: Api):
    binary = {"Content-Type": "application/octet-stream"}
    error = await api.refused("POST", "/v1/log", b"x" * 1101, headers=binary)
    assert error.error == "RECORD_TOO_LARGE"
    assert "1100" in error.message
    error = await api.refused("POST", "/v1/log", {"records": [{"value": b64(b"x" * 1101)}]})
    assert (error.error, "records.0" in error.message) == ("RECORD_TOO_LARGE", True)
    error = await api.refused("POST", "/v1/log", {"records": [{"value": b64(b"x" * 900)}] * 2})
    assert error.error == "BATCH_TOO_LARGE"
    huge = io.BytesIO(b'{"records": [{"value": "' + b"A" * 2_000_000 + b'"}]}')
    error = await api.refused(
        "POST", "/v1/log", data=huge, headers={"Content-Type": "application/json"}
    )
    assert error.error == "BODY_TOO_LARGE"
    assert api.service.appends == 0


async def test_body_of_unknown_length_is_cut_at_the_limit(api: Api):
    async def endless():
        while True:
            yield b"x" * 4096

    try:
        status, found, _ = await api.call("PUT", "/v1/kv/a", data=endless())
    except aiohttp.ClientOSError:
        return  # the server hung up before the client looked
    assert (status, found["error"]) == (413, "RECORD_TOO_LARGE")


async def test_other_content_types_are_refused_naming_the_allowed_ones(api: Api):
    error = await api.refused("POST", "/v1/log", b"x", headers={"Content-Type": "text/plain"})
    assert error.error == "UNSUPPORTED_MEDIA_TYPE"
    assert "application/json or application/octet-stream" in error.message
    error = await api.refused("POST", "/v1/form", b"{}", headers={"Content-Type": "text/plain"})
    assert error.error == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("offset=-1", "offset: Input should be greater than or equal to 0"),
        ("offset=x", "offset: Input should be a valid integer"),
        ("offset=" + "9" * 5000, "offset"),
        ("max_wait_ms=999999999", "max_wait_ms: Input should be less than or equal to 60000"),
        ("wat=1", "wat: Extra inputs are not permitted"),
        ("offset=1&offset=2", "query: offset is given twice"),
    ],
)
async def test_bad_query_is_refused_with_the_parameter(api: Api, query: str, says: str):
    error = await api.refused("GET", f"/v1/log?{query}")
    assert error.error == "INVALID_REQUEST"
    assert says in error.message


# Keys.


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("Europe%2FBerlin", "Europe/Berlin"),
        ("a%25b%3Fc%23d", "a%b?c#d"),
        ("a/../b", "a/../b"),
        ("%2E%2E", ".."),
        ("/lead//double/", "/lead//double/"),
        ("%C3%A9%00+", "é\0+"),
        ("x" * 1024, "x" * 1024),
    ],
)
async def test_key_is_all_of_the_path_decoded_once(api: Api, path: str, key: str):
    status, appended, _ = await api.call("PUT", f"/v1/kv/{path}", b"v")
    assert status == 200
    assert api.service.kv.get(key.encode()) is not None
    status, value, headers = await api.call("GET", f"/v1/kv/{path}")
    assert (status, value) == (200, b"v")
    assert headers["Raft-Offset"] == str(appended["last_offset"])
    assert headers["Raft-Epoch"] == str(appended["epoch"])


async def test_escapes_before_the_key_are_no_part_of_it(api: Api):
    status, _, _ = await api.call("PUT", "/v%31/%6Bv/a%2Fb", b"v")
    assert status == 200
    _, page, _ = await api.call("GET", "/v1/kv")
    assert [entry["key"] for entry in page["entries"]] == ["a/b"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "key: is empty"),
        ("x" * 1025, "key: 1025 bytes; at most 1024"),
        ("%FF", "key: is not UTF-8 at byte 0"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_bad_key_is_refused(api: Api, method: str, path: str, says: str):
    error = await api.refused(method, f"/v1/kv/{path}")
    assert error.error == "INVALID_REQUEST"
    assert says in error.message


async def test_empty_value_is_a_value_and_delete_is_a_null_record(api: Api):
    await api.call("PUT", "/v1/kv/a", b"")
    assert (await api.call("GET", "/v1/kv/a"))[:2] == (200, b"")
    _, appended, _ = await api.call("DELETE", "/v1/kv/a")
    assert (await api.refused("GET", "/v1/kv/a")).error == "KEY_NOT_FOUND"
    _, read, _ = await api.call("GET", f"/v1/log?offset={appended['base_offset']}")
    assert (read["records"][0]["key"], read["records"][0]["value"]) == (b64(b"a"), None)


async def test_list_goes_page_by_page_in_byte_order(api: Api):
    for key in ("b/2", "a", "b/1", "b/10", "c"):
        await api.call("PUT", f"/v1/kv/{key}", key.encode())
    _, page, _ = await api.call("GET", "/v1/kv?prefix=b/&limit=2")
    assert [entry["key"] for entry in page["entries"]] == ["b/1", "b/10"]
    assert page["next"] == "b/10"
    _, page, _ = await api.call("GET", "/v1/kv?prefix=b/&limit=2&after=b/10")
    assert [entry["key"] for entry in page["entries"]] == ["b/2"]
    assert page["next"] is None


# Leaders.


async def test_follower_refuses_writes_and_names_the_leader(api: Api):
    api.service.follow(OTHER, Endpoint("node-2", 9080))
    for method, path in (
        ("PUT", "/v1/kv/a"),
        ("DELETE", "/v1/kv/a"),
        ("GET", "/v1/kv/a"),
        ("GET", "/v1/kv"),
        ("GET", "/v1/quorum?confirmed=true"),
    ):
        error = await api.refused(method, path)
        assert error.error == "NOT_LEADER"
        assert error.leader is not None
        assert error.leader.key == OTHER
        assert error.leader_api == "node-2:9080"
        assert error.outcome == "not_done"


async def test_follower_serves_local_reads_and_the_log(api: Api):
    await api.call("PUT", "/v1/kv/a", b"1")
    api.service.follow(None)
    assert (await api.call("GET", "/v1/kv/a?consistency=local"))[:2] == (200, b"1")
    assert (await api.call("GET", "/v1/log"))[0] == 200
    error = await api.refused("PUT", "/v1/kv/a", b"2")
    assert (error.leader, error.leader_api) == (None, None)


async def test_unknown_outcome_is_said(api: Api):
    api.service.fail_next(refusal("TIMED_OUT", "appended at 7"))
    error = await api.refused("PUT", "/v1/kv/a", b"1")
    assert (error.error, error.outcome) == ("TIMED_OUT", "unknown")


async def test_fault_of_the_node_is_an_unknown_outcome_without_its_details(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    def broken() -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(api.service, "describe_node", broken)
    error = await api.refused("GET", "/v1/node")
    assert (error.error, error.outcome) == ("INTERNAL", "unknown")
    assert "secret" not in error.message


# Voters.


async def test_voters_change_by_compare_and_set(api: Api):
    api.service.observe_replica(OTHER)
    _, raw, _ = await api.call("GET", "/v1/quorum?confirmed=true")
    quorum = QuorumInfo.model_validate_json(json.dumps(raw))
    assert quorum.confirmed
    expected = quorum.voter_record.model_dump()
    voter = {"node_id": 2, "directory_id": format_directory_id(OTHER.directory_id)}
    status, changed, _ = await api.call(
        "POST",
        "/v1/quorum/voters",
        {"voter": {**voter, "endpoint": "node-2:9093"}, "expected": expected},
    )
    assert status == 200
    assert voter in changed["voters"]
    error = await api.refused(
        "POST", "/v1/quorum/voters/remove", {"voter": voter, "expected": expected}
    )
    assert error.error == "STALE_VOTER_RECORD"
    status, changed, _ = await api.call(
        "POST",
        "/v1/quorum/voters/remove",
        {"voter": voter, "expected": changed["voter_record"]},
    )
    assert status == 200
    assert voter not in changed["voters"]


@pytest.mark.rule("P3", "P28", "P30", "P33")
async def test_voter_change_for_another_cluster_is_refused_before_anything_else(api: Api):
    """As INVALID_CLUSTER_ID in the KIPs; without a cluster id the request is for any cluster."""
    api.service.observe_replica(OTHER)
    quorum = await api.service.describe_quorum(confirmed=False, timeout_ms=1)
    expected, before = quorum.voter_record.model_dump(), api.service.describe_node().voters
    voter = {"node_id": 2, "directory_id": format_directory_id(OTHER.directory_id)}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("voters", {"voter": voter, "expected": expected}),
        ("voters/remove", {"voter": voter, "expected": expected}),
        ("reassignment", {"targets": [voter], "expected": expected}),
        ("reassignment/cancel", {}),
    ]
    for path, body in requests:
        error = await api.refused("POST", f"/v1/quorum/{path}", {**body, "cluster_id": "other"})
        assert (error.error, error.outcome) == ("INCONSISTENT_CLUSTER_ID", "not_done")
    assert api.service.describe_node().voters == before
    own = {**requests[0][1], "cluster_id": quorum.cluster_id}
    assert (await api.call("POST", "/v1/quorum/voters", own))[0] == 200


@pytest.mark.parametrize(
    ("voter", "says"),
    [
        ({"node_id": 1}, "voter.directory_id: Field required"),
        ({"node_id": "1", "directory_id": "x" * 22}, "voter.node_id: Input should be a valid int"),
        ({"node_id": True, "directory_id": "x" * 22}, "voter.node_id"),
        ({"node_id": 2**31, "directory_id": "x" * 22}, "voter.node_id: Input should be less"),
        ({"node_id": 1, "directory_id": "short"}, "voter.directory_id: not a directory id"),
        ({"node_id": 1, "directory_id": "y" * 99}, "voter.directory_id: String should have at"),
        ({"node_id": 1, "directory_id": "x" * 22, "endpoint": "a b:1"}, "voter.endpoint"),
        ({"node_id": 1, "directory_id": "x" * 22, "endpoint": "a:0"}, "voter.endpoint"),
    ],
)
async def test_bad_voter_is_refused_with_the_field(api: Api, voter: Any, says: str):
    error = await api.refused(
        "POST", "/v1/quorum/voters", {"voter": voter, "expected": {"offset": 1, "epoch": 1}}
    )
    assert error.error == "INVALID_REQUEST"
    assert says in error.message


async def test_resign_answers_once_the_node_has_stopped_leading(api: Api):
    _, before, _ = await api.call("GET", "/v1/node")
    _, after, _ = await api.call("POST", "/v1/quorum/resign", {})
    assert after["epoch"] > before["epoch"]


# Formation.


async def test_blank_node_forms_once_and_takes_the_same_latch_again(blank: Api):
    assert (await blank.refused("PUT", "/v1/kv/a", b"1")).error == "NODE_BLANK"
    own = {
        "node_id": 1,
        "directory_id": format_directory_id(blank.service.key.directory_id),
        "endpoint": "node-1:9093",
    }
    other = {**own, "node_id": 9}
    error = await blank.refused("POST", "/v1/form", {"cluster_id": "c", "voters": [other]})
    assert error.error == "NOT_LISTED"
    latch = {"cluster_id": "c", "voters": [own]}
    for _ in range(2):
        status, node, _ = await blank.call("POST", "/v1/form", latch)
        assert (status, node["cluster_id"], node["role"]) == (200, "c", "leader")
    error = await blank.refused("POST", "/v1/form", {**latch, "cluster_id": "d"})
    assert error.error == "ALREADY_FORMED"


async def test_cluster_id_that_a_properties_file_would_misread_is_refused(blank: Api):
    for cluster_id in ("", "a\nnode.id=5", "a=b", "x" * 65, ".."):
        error = await blank.refused("POST", "/v1/join", {"cluster_id": cluster_id})
        assert error.error == "INVALID_REQUEST"
        assert "cluster_id" in error.message


async def test_join_makes_an_observer_of_that_cluster_only(blank: Api):
    _, node, _ = await blank.call("POST", "/v1/join", {"cluster_id": "c"})
    assert (node["cluster_id"], node["role"]) == ("c", "observer")
    error = await blank.refused("POST", "/v1/join", {"cluster_id": "d"})
    assert error.error == "INCONSISTENT_CLUSTER_ID"


# The node.


async def test_liveness_is_not_readiness(blank: Api):
    assert (await blank.call("GET", "/healthz/live"))[0] == 200
    error = await blank.refused("GET", "/healthz/ready")
    assert (error.error, "blank" in error.message) == ("NOT_READY", True)


async def test_ready_gives_its_reason(api: Api):
    status, health, _ = await api.call("GET", "/healthz/ready")
    assert (status, health["status"]) == (200, "ready")
    assert health["reason"]


async def test_metrics_expose_the_registry_and_no_label_that_a_client_made_up(api: Api):
    Gauge("demo_metric", "A metric.", registry=api.registry).set(7)
    await api.call("GET", "/made/up")
    await api.call("BREW", "/v1/node")
    await api.call("GET", "/v1/kv/some-key?consistency=local")
    status, text, headers = await api.call("GET", "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert b"demo_metric 7.0" in text
    assert b'path="/v1/kv/{key}"' in text
    for made_up in (b"made/up", b"BREW", b"some-key"):
        assert made_up not in text


async def test_unknown_path_and_method_are_api_errors(api: Api):
    assert (await api.refused("GET", "/nope")).error == "NOT_FOUND"
    error = await api.refused("DELETE", "/v1/node")
    assert error.error == "METHOD_NOT_ALLOWED"
    assert "GET" in error.message


async def test_a_listing_ends_before_its_values_are_too_many(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kv_routes, "_PAGE_MAX_BYTES", 2500)
    for name in "abcd":
        await api.call("PUT", f"/v1/kv/{name}", b"x" * 1000)
    _, page, _ = await api.call("GET", "/v1/kv?limit=1000")
    assert [entry["key"] for entry in page["entries"]] == ["a", "b"]
    _, rest, _ = await api.call("GET", f"/v1/kv?limit=1000&after={page['next']}")
    assert [entry["key"] for entry in rest["entries"]] == ["c", "d"]


@pytest.mark.parametrize("path", ["/v1/log?offset=0", "/v1/kv", "/v1/kv?consistency=local"])
async def test_large_answers_wait_for_their_turn(path: str):
    service = MemoryService()
    async for api in serve(service):
        async with service.turns.turn():
            asked = asyncio.get_running_loop().create_task(api.call("GET", path))
            _, _, _ = await api.call("GET", "/v1/node")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asked), 0.1)
        status, _, _ = await asked
        assert status == 200


async def test_bytes_that_are_not_http_do_not_stop_the_server(api: Api):
    host, port = api.base.removeprefix("http://").split(":")
    for garbage in (b"\x00\x01\x02\xff\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00"):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert (await api.call("GET", "/healthz/live"))[0] == 200
