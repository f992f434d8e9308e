"""Every write names the operator as the manager of the fields."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from kraftquorum_operator import names
from kubeserver import client_of

CLIENT = "kraftquorum_operator.clients.kube:KubeClient"
QUERY = '("fieldManager", names.MANAGER)'


@pytest.mark.without(f"{CLIENT}.create", QUERY, '("fieldManager", "")')
@pytest.mark.without(f"{CLIENT}.apply", QUERY, '("fieldManager", "")')
@pytest.mark.without(f"{CLIENT}.patch", QUERY, '("fieldManager", "")')
@pytest.mark.without(f"{CLIENT}.replace", QUERY, '("fieldManager", "")')
async def test_the_api_server_records_one_manager_for_all_writes() -> None:
    managers: list[tuple[str, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        managers.append((request.method, request.query.get("fieldManager")))
        return web.json_response({})

    meta = {"name": "demo", "namespace": "test", "uid": "uid"}
    body: dict[str, Any] = {"kind": "Service", "metadata": meta}
    async with client_of(answer) as kube:
        await kube.create(body)
        await kube.apply(body)
        await kube.patch("Service", "test", "demo", uid="uid", change={})
        await kube.replace(body)
    assert managers == [(method, names.MANAGER) for method in ("POST", "PATCH", "PATCH", "PUT")]
