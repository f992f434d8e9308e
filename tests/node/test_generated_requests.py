"""Requests that schemathesis makes from the OpenAPI document, to a real node with an access file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)

from proofkit.localquorum import LocalQuorum
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.access.access_list import token_hash

CLUSTER_ID = "SchemaSchemaSchemaSche"
OPEN = {"live", "ready"}
READS = OPEN | {"readLog", "listKeys", "getKey", "describeQuorum", "describeNode", "nodeState"}
WRITES = {"appendRecords", "putKey", "deleteKey"}
METRICS = {"metrics"}
"""What a generated request can do: a change of voters needs ids and addresses of this quorum."""
EXAMPLES = 5
"""Requests for each operation."""

CONFORMANCE = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
"""What holds for an answer whose status the document has."""

PATIENT = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def send(operation: Any, base_url: str, token: str | None, answers: list[tuple[int, Any]]) -> None:
    """Send requests for an operation, right and wrong ones."""
    documented = {int(status) for status in operation.definition.raw["responses"]}
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    # A leader without followers resigns without success, for ten seconds.
    examples = 1 if operation.definition.raw["operationId"] == "resign" else EXAMPLES

    @settings(PATIENT, max_examples=examples)
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        # A wait would only take time.
        for name in ("timeout_ms", "max_wait_ms"):
            if isinstance(case.query, dict) and name in case.query:
                case.query[name] = 1
        if token is not None:  # another cluster's id would hide what is behind it
            case.headers = {}
        response = case.call(base_url=base_url, headers=headers, timeout=30)
        status = response.status_code
        assert status in documented | {404, 405, 413, 415}, (case.method, case.path, status)
        if status in documented:
            case.validate_response(response, checks=CONFORMANCE)
        body = json.loads(response.content) if status >= 400 else None
        answers.append((status, body))

    ask()


def get_key(schema: Any, base_url: str, token: str | None) -> tuple[int, Any]:
    """Read the key that is there: generated keys are not."""
    case = schema["/v1/kv/{key}"]["GET"].Case(path_parameters={"key": "key"})
    headers = {"Authorization": f"Bearer {token}"}
    response = case.call(base_url=base_url, headers=headers, timeout=30)
    case.validate_response(response, checks=CONFORMANCE)
    return response.status_code, None


@pytest.mark.parametrize(
    "who",
    [
        "without",
        *(pytest.param(w, marks=pytest.mark.extended) for w in ("unknown", "reader", "all")),
    ],
)
async def test_generated_requests_get_documented_answers_and_change_what_they_may(
    who: str, tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
):
    security = QuorumSecurity(
        tmp_path / "security", CLUSTER_ID, peer_tls="disabled", api_tls="disabled"
    )
    document = json.loads(security.access_file.read_text())
    document["subjects"].append(
        {"name": "reader", "token_hashes": [token_hash(b"reader")], "grants": [{"roles": ["read"]}]}
    )
    security.access_file.write_text(json.dumps(document))
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    quorum = LocalQuorum(tmp_path, 1, network, cache, cluster_id=CLUSTER_ID, security=security)
    async with quorum:
        await quorum.form(1)
        await quorum.put("key", b"value")
        base_url = f"http://{quorum.nodes[0].api}"
        admin = security.token_file("admin").read_text()
        token = {"without": None, "unknown": "unknown", "reader": "reader", "all": admin}[who]
        raw = await asyncio.to_thread(
            requests.get,
            f"{base_url}/openapi.json",
            headers={"Authorization": f"Bearer {admin}"},
            timeout=30,
        )
        schema = schemathesis.openapi.from_dict(raw.json())
        before = await quorum.info(quorum.nodes[0])
        asked: dict[str, list[tuple[int, Any]]] = {}
        for result in schema.get_all_operations():
            operation = result.ok()
            operation_id = operation.definition.raw["operationId"]
            answers = asked.setdefault(operation_id, [])
            await asyncio.to_thread(send, operation, base_url, token, answers)
        assert all(asked.values())
        if who in {"reader", "all"}:
            asked["getKey"].append(await asyncio.to_thread(get_key, schema, base_url, token))
            succeeded = {
                name
                for name, answers in asked.items()
                if any(status == 200 for status, _ in answers)
            }
            assert succeeded >= READS | (WRITES | METRICS if who == "all" else set())
        after = await quorum.info(quorum.nodes[0])
        if who in {"without", "unknown"}:
            closed = {
                status
                for name, answers in asked.items()
                if name not in OPEN
                for status, _ in answers
            }
            # 404: a key without a character is no route.
            assert closed <= {401, 404, 405, 431}
            assert 401 in closed
        if who != "all":
            assert (after.log_end_offset, after.voters, after.epoch) == (
                before.log_end_offset,
                before.voters,
                before.epoch,
            )
        else:
            assert after.log_end_offset > before.log_end_offset
        assert not any(status == 500 for answers in asked.values() for status, _ in answers)
