"""Who may read `/metrics`: the owner of a bearer token to whom a role allows `get` on the path.

The server asks the API server (TokenReview, then SubjectAccessReview) and keeps the answer for a
short time, by a digest of the token. It never logs a token. Unknown tokens share a small budget of
reviews, so that a flood of them costs the API server little, and a token that was allowed a short
time ago has a budget of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.reviews import review_access, review_token
from kraftquorum_operator.errors import KubeError
from raftnode.log_limit import LineBudget

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

Verdict = Literal["allowed", "forbidden", "unauthenticated"]

ALLOWED_S = 30.0
"""How long the server lets a reader in after the API server allowed it: a right that is withdrawn
ends after this time."""
REFUSED_S = 5.0
"""How long the server refuses a token after the API server refused it."""
CACHED_MAX = 256
"""The most tokens in the cache."""
UNKNOWN_REVIEWS = 10
UNKNOWN_WINDOW_S = 5.0
"""How many tokens that were not allowed lately are reviewed in this time."""
REMEMBERED_S = 600.0
"""How long an allowed token keeps a budget of its own."""
TOKEN = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]{1,8192})")

Review = Callable[[str], Awaitable[Verdict]]
"""Asks the API server about a token."""


def kubernetes_review(kube: KubeClient, path: str) -> Review:
    """A review of `get` on a path by the API server."""

    async def review(token: str) -> Verdict:
        user = await review_token(kube, token)
        if user is None:
            return "unauthenticated"
        return "allowed" if await review_access(kube, user, "get", path) else "forbidden"

    return review


class TooManyReviewsError(Exception):
    """The budget for unknown tokens is used up."""


@dataclass(slots=True)
class _Entry:
    verdict: Verdict
    until_s: float


class Access:
    """Verdicts on tokens, cached for a short time."""

    def __init__(self, review: Review, clock: Callable[[], float] = time.monotonic) -> None:
        self._review = review
        self._clock = clock
        self._entries: dict[bytes, _Entry] = {}
        self._allowed_s: dict[bytes, float] = {}
        self._unknown_s: list[float] = []
        self._lock = asyncio.Lock()

    async def verdict(self, token: str) -> Verdict:
        """Whether the owner of a token may read.

        Raises:
            TooManyReviewsError: too many unknown tokens were reviewed a moment ago.
            KubeError: the API server did not answer, or the operator may not ask it.
        """
        key = hashlib.sha256(token.encode()).digest()
        cached = self._cached(key)
        if cached is not None:
            return cached
        async with self._lock:
            cached = self._cached(key)  # a request that waited may have the answer now
            if cached is not None:
                return cached
            self._claim_review(key)
            verdict = await self._review(token)
            self._keep(key, verdict)
            return verdict

    def _cached(self, key: bytes) -> Verdict | None:
        entry = self._entries.get(key)
        return entry.verdict if entry is not None and self._clock() < entry.until_s else None

    def _claim_review(self, key: bytes) -> None:
        now_s = self._clock()
        last_s = self._allowed_s.get(key)
        if last_s is not None and now_s - last_s < REMEMBERED_S:
            return
        self._unknown_s = [at_s for at_s in self._unknown_s if now_s - at_s < UNKNOWN_WINDOW_S]
        if len(self._unknown_s) >= UNKNOWN_REVIEWS:
            raise TooManyReviewsError
        self._unknown_s.append(now_s)

    def _keep(self, key: bytes, verdict: Verdict) -> None:
        now_s = self._clock()
        self._entries = {k: entry for k, entry in self._entries.items() if now_s < entry.until_s}
        if len(self._entries) >= CACHED_MAX:
            self._entries.clear()
        kept_s = ALLOWED_S if verdict == "allowed" else REFUSED_S
        self._entries[key] = _Entry(verdict, now_s + kept_s)
        self._allowed_s = {k: s for k, s in self._allowed_s.items() if now_s - s < REMEMBERED_S}
        if verdict == "allowed":
            if len(self._allowed_s) >= CACHED_MAX:
                self._allowed_s.clear()
            self._allowed_s[key] = now_s
        else:
            self._allowed_s.pop(key, None)


def authenticated(access: Access, path: str) -> Middleware:
    """A middleware: lets a request in only if the owner of its token may read.

    Args:
        access: the verdicts.
        path: which role a refusal names.
    """
    lines = LineBudget()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        match = TOKEN.fullmatch(request.headers.get("Authorization", ""))
        try:
            verdict = "unauthenticated" if match is None else await access.verdict(match[1])
        except TooManyReviewsError:
            return _refusal(503, "Too many unknown tokens; retry later.\n", {"Retry-After": "5"})
        except KubeError as error:
            lines.say(log.warning, "access_not_reviewed", why=str(error))
            return _refusal(
                503, "The API server does not review the token; see the operator's log.\n"
            )
        match verdict:
            case "allowed":
                return await handler(request)
            case "forbidden":
                text = f"No role allows the owner of the token to get {path}.\n"
                return _refusal(403, text)
            case "unauthenticated":
                text = "Send the token of a ServiceAccount: Authorization: Bearer TOKEN\n"
                return _refusal(401, text, {"WWW-Authenticate": "Bearer"})

    return check


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=text, headers=headers)
