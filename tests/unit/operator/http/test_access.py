"""Who may read the metrics: tokens, verdicts, the cache, and what a flood of tokens costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import KubeUnavailableError, RefusedError
from kraftquorum_operator.http.access import (
    ALLOWED_S,
    CACHED_MAX,
    REFUSED_S,
    UNKNOWN_REVIEWS,
    UNKNOWN_WINDOW_S,
    Access,
    TooManyReviewsError,
    Verdict,
    kubernetes_review,
)
from kraftquorum_operator.http.listener import listening
from kraftquorum_operator.http.metrics_page import metrics_application

HOST = "127.0.0.1"
READER, STRANGER = "reader-token", "stranger-token"


class Reviews:
    """Answers for the API server, counts the reviews and holds the clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.verdicts: dict[str, Verdict] = {READER: "allowed", STRANGER: "forbidden"}
        self.asked: list[str] = []
        self.error: Exception | None = None

    async def __call__(self, token: str) -> Verdict:
        self.asked.append(token)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.verdicts.get(token, "unauthenticated")

    def access(self) -> Access:
        return Access(self, lambda: self.now_s)


@asynccontextmanager
async def served(access: Access) -> AsyncGenerator[Any]:
    """Requests to the metrics: status, headers and text by the Authorization header."""
    application = metrics_application(CollectorRegistry(), access)
    async with (
        listening(application, HOST, 0, "metrics") as port,
        aiohttp.ClientSession() as session,
    ):

        async def get(authorization: str | None, path: str = "/metrics") -> tuple[int, Any, str]:
            headers = {} if authorization is None else {"Authorization": authorization}
            async with session.get(f"http://{HOST}:{port}{path}", headers=headers) as answer:
                return answer.status, answer.headers, await answer.text()

        yield get


@pytest.mark.without(
    "kraftquorum_operator.http.metrics_page:metrics_application",
    "[] if access is None else [authenticated(access, PATH)]",
    "[]",
)
async def test_only_a_token_that_a_role_allows_reads_the_metrics() -> None:
    reviews = Reviews()
    async with served(reviews.access()) as get:
        for path in ("/metrics", "/"):
            assert (await get(f"Bearer {READER}", path))[0] == 200
            status, headers, text = await get(None, path)
            assert (status, headers.get("WWW-Authenticate")) == (401, "Bearer")
            assert "Authorization: Bearer" in text
            assert (await get(f"Bearer {STRANGER}", path))[0] == 403
            assert (await get("Bearer unknown", path))[0] == 401


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", f"Basic {READER}", f"Bearer {READER} x", "Bearer " + "a" * 8200],
)
async def test_what_is_no_bearer_token_is_refused_without_a_review(authorization: str) -> None:
    reviews = Reviews()
    async with served(reviews.access()) as get:
        status, _, _ = await get(authorization)
        assert status in {400, 401}  # aiohttp itself refuses headers above 8 kB
    assert reviews.asked == []


async def test_an_api_server_that_does_not_review_lets_no_reader_in() -> None:
    reviews = Reviews()
    async with served(reviews.access()) as get:
        for error in (
            KubeUnavailableError(0, "Unreachable", "down"),
            RefusedError(403, "Forbidden", "tokenreviews is forbidden"),
        ):
            reviews.error = error
            status, _, text = await get(f"Bearer {READER}")
            assert status == 503
            assert "down" not in text
            assert "forbidden" not in text


async def test_no_token_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    reviews = Reviews()
    async with served(reviews.access()) as get:
        for error in (None, KubeUnavailableError(0, "Unreachable", "down")):
            reviews.error = error
            for token in (READER, STRANGER):
                reviews.now_s += 60
                await get(f"Bearer {token}")
    shown = capsys.readouterr()
    assert "access_not_reviewed" in shown.out + shown.err
    for token in (READER, STRANGER):
        assert token not in shown.out + shown.err


async def test_a_verdict_is_kept_for_a_short_time_and_then_asked_for_again() -> None:
    reviews = Reviews()
    access = reviews.access()
    for _ in range(3):
        assert await access.verdict(READER) == "allowed"
        assert await access.verdict(STRANGER) == "forbidden"
    assert reviews.asked == [READER, STRANGER]
    reviews.verdicts = {STRANGER: "allowed"}
    reviews.now_s += REFUSED_S
    assert await access.verdict(STRANGER) == "allowed"
    assert await access.verdict(READER) == "allowed"
    reviews.now_s += ALLOWED_S - REFUSED_S
    assert await access.verdict(READER) == "unauthenticated", "a withdrawn right ends"


async def test_many_requests_with_one_token_are_one_review() -> None:
    reviews = Reviews()
    access = reviews.access()
    verdicts = await asyncio.gather(*(access.verdict(READER) for _ in range(50)))
    assert set(verdicts) == {"allowed"}
    assert reviews.asked == [READER]


@pytest.mark.without(
    "kraftquorum_operator.http.access:Access._claim_review",
    "len(self._unknown_s) >= UNKNOWN_REVIEWS",
    "False",
)
async def test_a_flood_of_unknown_tokens_costs_few_reviews_and_keeps_no_reader_out() -> None:
    reviews = Reviews()
    access = reviews.access()
    assert await access.verdict(READER) == "allowed"
    reviews.now_s += ALLOWED_S
    refused = 0
    for number in range(1000):
        try:
            await access.verdict(f"guess-{number}")
        except TooManyReviewsError:
            refused += 1
    assert refused == 1000 - UNKNOWN_REVIEWS
    assert await access.verdict(READER) == "allowed", "it was allowed a short time ago"
    reviews.now_s += UNKNOWN_WINDOW_S
    assert await access.verdict("guess-after") == "unauthenticated"
    async with served(access) as get:
        for number in range(UNKNOWN_REVIEWS):
            await get(f"Bearer more-{number}")
        status, headers, _ = await get("Bearer last")
        assert (status, headers["Retry-After"]) == (503, "5")


async def test_the_cache_is_bounded() -> None:
    reviews = Reviews()
    access = reviews.access()
    for number in range(2 * CACHED_MAX):
        reviews.now_s += UNKNOWN_WINDOW_S / UNKNOWN_REVIEWS
        reviews.verdicts[f"t{number}"] = "allowed"
        await access.verdict(f"t{number}")
    assert len(access._entries) <= CACHED_MAX
    assert len(access._allowed_s) <= CACHED_MAX


class ApiServer:
    """Answers reviews over real HTTP, as the API server does."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.user: dict[str, Any] = {
            "username": "system:serviceaccount:monitoring:prometheus",
            "uid": "u-1",
            "groups": ["system:serviceaccounts"],
            "extra": {"authentication.kubernetes.io/pod-name": ["p-0"]},
        }
        self.authenticated, self.access = True, {"allowed": True}

    async def token(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        status = {"authenticated": self.authenticated}
        return web.json_response({"status": status | {"user": self.user}})

    async def subject(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        return web.json_response({"status": self.access})

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[KubeClient]:
        application = web.Application()
        application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self.token)
        application.router.add_post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews", self.subject
        )
        from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415

        async with listening(application, HOST, 0, "api") as port:
            configuration = Configuration()
            configuration.host = f"http://{HOST}:{port}"
            kube = KubeClient(configuration, 5)
            try:
                yield kube
            finally:
                await kube.close()


async def test_the_api_server_is_asked_who_it_is_and_then_whether_they_may_get_the_path() -> None:
    server = ApiServer()
    async with server.client() as kube:
        review = kubernetes_review(kube, "/metrics")
        assert await review(READER) == "allowed"
        token, subject = server.bodies
        assert token["kind"] == "TokenReview"
        assert token["spec"] == {"token": READER}
        assert subject["kind"] == "SubjectAccessReview"
        assert subject["spec"] == {
            "user": server.user["username"],
            "uid": "u-1",
            "groups": ["system:serviceaccounts"],
            "extra": {"authentication.kubernetes.io/pod-name": ["p-0"]},
            "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
        }
        for refusal in ({"allowed": False}, {"allowed": True, "denied": True}, {}):
            server.access = refusal
            assert await review(READER) == "forbidden"
        server.authenticated = False
        asked = len(server.bodies)
        assert await review(READER) == "unauthenticated"
        assert len(server.bodies) == asked + 1
