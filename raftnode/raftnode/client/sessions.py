"""The client's sessions, one for each node that it has asked."""

from __future__ import annotations

import asyncio

import aiohttp

from raftnode.client.exchange import NotSentError, describe_failure
from raftnode.client.session import NodeSession, NoSessionsError
from raftnode.core.types import Endpoint

HTTP_FOR_S = 30.0
"""For how long a node that serves no sessions is asked over HTTP, before a session is tried."""


class Sessions:
    """Opens a session with a node at the first operation, and keeps it.

    Args:
        http: what connections are made with; `close` closes it.
        connect_timeout_s: how long a node has to open a session.
    """

    def __init__(self, http: aiohttp.ClientSession, *, connect_timeout_s: float) -> None:
        self._http = http
        self._connect_timeout_s = connect_timeout_s
        self._open: dict[Endpoint, NodeSession] = {}
        self._opening: dict[Endpoint, asyncio.Task[NodeSession]] = {}
        self._http_until_s: dict[Endpoint, float] = {}
        self._closed = False

    async def to(self, endpoint: Endpoint, *, timeout_s: float) -> NodeSession:
        """Return the session with a node; callers that come together wait for the same one.

        Each caller waits only for its own `timeout_s`; the attempt goes on for the others.

        Raises:
            NoSessionsError: the node is to be asked over HTTP.
            NotSentError: no connection came about, or the client is closed.
        """
        if self._closed:
            raise NotSentError("the client is closed")
        session = self._open.get(endpoint)
        if session is not None and session.usable:
            return session
        loop = asyncio.get_running_loop()
        until_s = self._http_until_s.get(endpoint)
        if until_s is not None and loop.time() < until_s:
            raise NoSessionsError(f"{endpoint} serves no sessions")
        task = self._opening.get(endpoint)
        if task is None:
            opening = NodeSession.open(self._http, endpoint, timeout_s=self._connect_timeout_s)
            task = self._opening[endpoint] = loop.create_task(opening)
            task.add_done_callback(lambda done: self._opened(endpoint, done))
        # A caller that is cancelled leaves the attempt to the others.
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise NotSentError(describe_failure(error, timeout_s)) from error

    def _opened(self, endpoint: Endpoint, task: asyncio.Task[NodeSession]) -> None:
        self._opening.pop(endpoint, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._open[endpoint] = task.result()
        elif isinstance(error, NoSessionsError):
            self._http_until_s[endpoint] = asyncio.get_running_loop().time() + HTTP_FOR_S

    async def close(self) -> None:
        """Close all sessions; a read that is asked again opens no further one."""
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        sessions = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(session.close() for session in sessions))
        await self._http.close()
