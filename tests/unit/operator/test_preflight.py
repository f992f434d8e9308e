"""The operator waits for an API server that knows its resource, and says so."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from kraftquorum_operator.errors import (
    KubeError,
    KubeUnavailableError,
    NotFoundError,
    RefusedError,
)
from kraftquorum_operator.preflight import await_api, explain


class FakeKube:
    """Fails with each error in turn, then answers."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)

    async def probe(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


AWAY = KubeUnavailableError(0, "Unreachable", "GET /apis: connection refused")
NO_CRD = NotFoundError(404, "NotFound", "not found")
FORBIDDEN = RefusedError(403, "Forbidden", "no")


async def test_each_reason_is_told_once_while_it_lasts() -> None:
    kube = FakeKube(AWAY, AWAY, AWAY, NO_CRD, NO_CRD)
    with capture_logs() as logs:
        await await_api(cast("Any", kube), retry_s=0)
    assert [line["event"] for line in logs] == [
        "waiting for the API server",
        "waiting for the API server",
        "the API server is there",
    ]
    assert not kube.errors


async def test_a_server_that_is_there_is_not_worth_a_line() -> None:
    with capture_logs() as logs:
        await await_api(cast("Any", FakeKube()), retry_s=0)
    assert logs == []


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (AWAY, "cannot be reached"),
        (NO_CRD, "crds print"),
        (FORBIDDEN, "token and roles"),
        (KubeUnavailableError(503, "x", "busy"), "does not answer as it should"),
    ],
)
def test_a_person_is_told_what_to_do(error: KubeError, says: str) -> None:
    assert says in explain(error)
