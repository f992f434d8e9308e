"""`/openapi.json`, generated from the route table and the models, so that it is never stale."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from raftnode.access.roles import ROLES_FOR, Verb
from raftnode.api.errors import ERRORS
from raftnode.api.guard import DATA_PATHS
from raftnode.api.http import Route
from raftnode.api.listeners import Part, part_of
from raftnode.api.media import BINARY, HEADER_CLUSTER_ID, JSON
from raftnode.api.model import ApiError, ApiModel
from raftnode.api.queries import KEY_MAX_BYTES

Json = dict[str, Any]

_REF = "#/components/schemas/{model}"
_INTERNAL = ("INCONSISTENT_CLUSTER_ID", "TOO_MANY_REQUESTS", "HEAD_TOO_LARGE", "INTERNAL")
_ACCESS = ("AUTHENTICATION_FAILED", "AUTHORIZATION_FAILED")
_BODY_ERRORS = ("INVALID_REQUEST", "BODY_TOO_LARGE", "BODY_TIMEOUT")


_SECURITY: Json = {
    "token": {"type": "http", "scheme": "bearer"},
    "certificate": {"type": "mutualTLS"},
}
"""How a client says who it is; which of them a node accepts, its settings say."""


def openapi(routes: Sequence[Route], *, version: str) -> Json:
    """Describe the routes as an OpenAPI 3.1 document."""
    paths: Json = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raftnode",
            "version": version,
            "description": "The HTTP API of a kraftquorum node.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": _schemas(routes), "securitySchemes": _SECURITY},
    }


def route_errors(route: Route) -> tuple[str, ...]:
    """List every error that a route may answer, with those of every request."""
    common: tuple[str, ...] = _INTERNAL
    if route.query is not None or "{" in route.path:
        common = ("INVALID_REQUEST", *common)
    if route.json_body is not None:
        common = (*_BODY_ERRORS, "UNSUPPORTED_MEDIA_TYPE", *_INTERNAL)
    elif route.binary_body is not None:
        common = (*_BODY_ERRORS, *_INTERNAL)
    if route.path.startswith(DATA_PATHS):
        common = ("TOO_MANY_CONNECTIONS", *common)
    if part_of(route) is not Part.HEALTH:
        common = ("WRONG_LISTENER", *common)
    if route.need.verb in ROLES_FOR:
        common = (*_ACCESS, *common)
    if route.need.verb is Verb.ADMIN:
        common = (*common, "AUDIT_LOG_FULL")
    return tuple(dict.fromkeys((*route.errors, *common)))


def _operation(route: Route) -> Json:
    operation: Json = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "responses": {str(route.status): _success(route), **_failures(route)},
        **_access(route),
    }
    parameters = _parameters(route)
    if parameters:
        operation["parameters"] = parameters
    content: Json = {}
    if route.json_body is not None:
        content[JSON] = {"schema": _ref(route.json_body)}
    if route.binary_body is not None:
        content[BINARY] = {"schema": {"description": route.binary_body}}
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _access(route: Route) -> Json:
    """What a client needs if the node has an access file."""
    roles = sorted(ROLES_FOR.get(route.need.verb, ()))
    credentials: list[Json] = [{name: []} for name in _SECURITY] if roles else []
    return {"security": [*credentials, {}], "x-roles": roles, "x-keys": route.need.scope.value}


def _parameters(route: Route) -> list[Json]:
    parameters: list[Json] = [
        {
            "name": HEADER_CLUSTER_ID,
            "in": "header",
            "required": False,
            "description": "The cluster that is meant; another one's node refuses.",
            "schema": {"type": "string"},
        }
    ]
    if "{key}" in route.path:
        parameters.append(
            {
                "name": "key",
                "in": "path",
                "required": True,
                "description": "The key in UTF-8, percent-encoded; slashes need no encoding.",
                "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX_BYTES},
            }
        )
    if route.query is not None:
        schema = route.query.model_json_schema()
        required = schema.get("required", [])
        for name, field in schema["properties"].items():
            shape = {key: value for key, value in field.items() if key != "description"}
            parameters.append(
                {
                    "name": name,
                    "in": "query",
                    "required": name in required,
                    "description": field.get("description", ""),
                    "schema": shape,
                }
            )
    return parameters


def _success(route: Route) -> Json:
    if route.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return {"description": "The connection is a WebSocket now."}
    response: Json = {"description": "Done."}
    if isinstance(route.response, str):
        shape: Json = {} if route.response == BINARY else {"type": "string"}
        response["content"] = {route.response: {"schema": shape}}
    else:
        response["content"] = {JSON: {"schema": _ref(route.response)}}
    if route.headers:
        response["headers"] = {
            name: {"required": True, "schema": {"type": "integer"}} for name in route.headers
        }
    return response


def _failures(route: Route) -> Json:
    by_status: dict[int, list[str]] = {}
    for name in route_errors(route):
        by_status.setdefault(ERRORS[name].status, []).append(name)
    return {
        str(status): {
            "description": ", ".join(names),
            "content": {JSON: {"schema": _ref(ApiError)}},
        }
        for status, names in sorted(by_status.items())
    }


def _schemas(routes: Sequence[Route]) -> Json:
    answers: dict[type[BaseModel], None] = {ApiError: None}
    bodies: dict[type[BaseModel], None] = {}
    for route in routes:
        if not isinstance(route.response, str):
            answers[route.response] = None
        if route.json_body is not None:
            bodies[route.json_body] = None
    _, schema = models_json_schema(
        [
            *((model, "serialization") for model in answers),
            *((model, "validation") for model in bodies),
        ],
        ref_template=_REF,
    )
    definitions: Json = schema["$defs"]
    return dict(sorted(definitions.items()))


def _ref(model: type[ApiModel]) -> Json:
    return {"$ref": _REF.format(model=model.__name__)}
