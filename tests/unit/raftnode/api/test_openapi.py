"""The OpenAPI document covers the route table and hangs together."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from proofkit.memoryservice import MemoryService
from raftnode.api.errors import ERRORS, RETRIABLE_STATUSES, not_leader, refusal
from raftnode.api.http import ApiLimits, Route
from raftnode.api.model import ApiError
from raftnode.api.openapi import openapi, route_errors
from raftnode.api.server import all_routes


@pytest.fixture(scope="module")
def routes() -> tuple[Route, ...]:
    return all_routes(MemoryService(), ApiLimits(), CollectorRegistry())


@pytest.fixture(scope="module")
def document(routes: tuple[Route, ...]) -> Any:
    return json.loads(json.dumps(openapi(routes, version="1")))


def references(node: Any) -> set[str]:
    return set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(node)))


def test_every_reference_leads_somewhere(document: Any):
    schemas = document["components"]["schemas"]
    found = references(document)
    assert found
    for reference in found:
        assert reference.removeprefix("#/components/schemas/") in schemas


def test_every_route_is_an_operation_with_its_own_id(document: Any, routes: tuple[Route, ...]):
    for route in routes:
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == route.operation_id
        assert str(route.status) in operation["responses"]
    ids = [route.operation_id for route in routes]
    assert len(set(ids)) == len(ids)


def test_every_failure_is_an_api_error(document: Any):
    for path in document["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if status not in {"200", "101"}:
                    (content,) = answer["content"].values()
                    assert content["schema"]["$ref"].endswith("/ApiError")


def test_path_parameters_are_declared(document: Any):
    for path, operations in document["paths"].items():
        for operation in operations.values():
            declared = {
                one["name"] for one in operation.get("parameters", []) if one["in"] == "path"
            }
            assert declared == ({"key"} if "{key}" in path else set())


def test_query_parameters_have_bounds_defaults_and_words(document: Any):
    parameters = {one["name"]: one for one in document["paths"]["/v1/log"]["get"]["parameters"]}
    assert parameters["max_wait_ms"]["schema"]["maximum"] == 60_000
    assert parameters["max_wait_ms"]["schema"]["default"] == 0
    assert all(one["description"] for one in parameters.values())


def test_routes_name_only_errors_of_the_table(routes: tuple[Route, ...]):
    for route in routes:
        assert set(route_errors(route)) <= set(ERRORS)


def test_every_error_of_the_table_is_named_by_some_route(routes: tuple[Route, ...]):
    named = {name for route in routes for name in route_errors(route)}
    assert set(ERRORS) - named == {"NOT_FOUND", "METHOD_NOT_ALLOWED"}


def test_only_errors_of_certain_outcome_are_retriable():
    for name, kind in ERRORS.items():
        assert kind.retriable == (
            kind.outcome == "not_done" and kind.status in RETRIABLE_STATUSES
        ), name
    assert ERRORS["NOT_LEADER"].retriable
    assert not ERRORS["TIMED_OUT"].retriable
    assert not ERRORS["STALE_VOTER_RECORD"].retriable


def test_refusal_takes_status_and_outcome_from_the_table():
    error = refusal("LEADERSHIP_LOST", "gone")
    assert (error.status, error.outcome) == (504, "unknown")
    with pytest.raises(KeyError):
        refusal("NO_SUCH_NAME", "x")
    assert "knows of no leader" in str(not_leader(None, None))


def test_api_error_schema_shows_the_outcomes(document: Any):
    schema = document["components"]["schemas"][ApiError.__name__]
    assert schema["properties"]["outcome"]["enum"] == ["not_done", "unknown"]
