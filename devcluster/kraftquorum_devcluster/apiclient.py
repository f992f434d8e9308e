"""A thin asynchronous client of the Kubernetes API: JSON in, JSON out.

Just what the process node needs. No retries here: callers know what may be
repeated. `informer` builds list-and-watch on it.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from kraftquorum_devcluster.objects import Json

from .connections import TlsConnector
from .errors import ApiError

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_WATCH_SECONDS = 240
_WATCH_LINE_MAX = 8 * 2**20


class ApiClient:
    """One session to one API server."""

    def __init__(self, server_url: str, token: str, ca_file: Path) -> None:
        self._base = server_url.rstrip("/")
        self._ca_file = ca_file
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Make the session. Duty of the caller: `close` it."""
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            connector=TlsConnector(self._ca_file),
            read_bufsize=_WATCH_LINE_MAX,
        )

    async def close(self) -> None:
        """Close the session and what is open in it."""
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **params: str) -> Json:
        """GET an object or a list."""
        return await self._send("GET", path, params=params)

    async def post(self, path: str, body: Json) -> Json:
        """POST a new object."""
        return await self._send("POST", path, body=body)

    async def patch(self, path: str, body: Json, content_type: str = MERGE) -> Json:
        """PATCH an object."""
        return await self._send("PATCH", path, body=body, content_type=content_type)

    async def delete(self, path: str, options: Json | None = None) -> Json:
        """DELETE an object."""
        return await self._send("DELETE", path, body=options)

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[tuple[str, Json]]:
        """Events after ``resource_version``, until the server or the network ends it.

        Raises:
            ApiError: Also for an ERROR event, for example 410 Gone.
        """
        params = {
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(sock_connect=10, sock_read=_WATCH_SECONDS + 10)
        async with self._opened().get(self._base + path, params=params, timeout=timeout) as answer:
            if answer.status >= 400:
                raise _error(answer.status, await answer.text())
            async for line in answer.content:
                event: Json = json.loads(line)
                if event["type"] == "ERROR":
                    status: Json = event["object"]
                    raise _error(int(status.get("code", 500)), json.dumps(status))
                yield event["type"], event["object"]

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> Json:
        headers = {"Content-Type": content_type} if body is not None else {}
        data = json.dumps(body) if body is not None else None
        async with self._opened().request(
            method, self._base + path, params=params, data=data, headers=headers, timeout=_TIMEOUT
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise _error(answer.status, text)
            result: Json = json.loads(text)
            return result

    def _opened(self) -> aiohttp.ClientSession:
        assert self._session is not None, "call open() first"  # noqa: S101
        return self._session


def _error(status: int, text: str) -> ApiError:
    try:
        body: Json = json.loads(text)
        return ApiError(status, str(body.get("reason", "")), str(body.get("message", text)))
    except (ValueError, AttributeError):
        return ApiError(status, "", text[:500])
