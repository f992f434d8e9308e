"""A 404 ends the care for a quorum only if the API server says that this object does not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import web

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import NotFoundError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.settings import Settings
from kubeserver import client_of

NO_SUCH_OBJECT = {
    "kind": "Status",
    "reason": "NotFound",
    "message": 'kraftquorums.kraftquorum.io "demo" not found',
    "details": {"name": "demo", "group": names.GROUP, "kind": names.PLURAL},
}
NO_SUCH_KIND = {
    "kind": "Status",
    "reason": "NotFound",
    "message": "the server could not find the requested resource",
    "details": {},
}


class ApiServer:
    """Answers each request with 404, for the reason that a test sets."""

    def __init__(self) -> None:
        self.text = ""

    async def answer(self, _: web.Request) -> web.Response:
        return web.Response(status=404, text=self.text)


class Held:
    held = True


@pytest.fixture
async def server() -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    server = ApiServer()
    async with client_of(server.answer) as kube:
        yield server, kube


@pytest.mark.parametrize(
    ("answer", "gone"),
    [(NO_SUCH_OBJECT, True), (NO_SUCH_KIND, False), (None, False)],
    ids=["no such object", "no such kind", "no API at the path"],
)
async def test_only_a_404_about_the_object_ends_the_care(
    server: tuple[ApiServer, KubeClient], answer: dict[str, Any] | None, gone: bool
) -> None:
    """An API server that starts, or whose CRD is applied again, answers 404 for a short time."""
    api, kube = server
    api.text = web.json_response(answer).text or "" if answer else "404 page not found\n"
    reconciler = Reconciler(
        kube=kube,
        nodes=HttpNodes(1.0),
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )
    outcome = await reconciler.reconcile("test", "demo", "uid-1")
    assert (outcome.gone, outcome.failed) == (gone, not gone)


async def test_a_child_whose_kind_is_not_served_is_not_reported_as_absent(
    server: tuple[ApiServer, KubeClient],
) -> None:
    api, kube = server
    api.text = web.json_response(NO_SUCH_KIND).text or ""
    with pytest.raises(NotFoundError, match="could not find the requested resource"):
        await kube.get("StatefulSet", "test", "demo")
