"""The client's sessions, one for each node that it has asked."""

from __future__ import annotations

import asyncio

import aiohttp

from raftnode.client.credential_files import PLAIN, LoadedCredentials
from raftnode.client.exchange import NotSentError, describe_failure
from raftnode.client.session import NodeSession, NoSessionsError
from raftnode.core.types import Endpoint

HTTP_FOR_S = 30.0
"""For how long a node that serves no sessions is asked over HTTP, before a session is tried."""


RENEW_PAUSE_S = 5.0
"""How long the client waits after a session with new credentials could not be opened."""


class Sessions:
    """Opens a session with a node at the first operation, and keeps it.

    When the credentials change, the session with the old ones serves until one with the new ones
    is open, and closes once its last operation is answered.

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
        self._renew_after_s: dict[Endpoint, float] = {}
        self._closed = False

    async def to(
        self, endpoint: Endpoint, loaded: LoadedCredentials = PLAIN, *, timeout_s: float
    ) -> NodeSession:
        """Return the session with a node; callers that come together wait for the same one.

        Each caller waits only for its own `timeout_s`; the attempt goes on for the others.

        Raises:
            NoSessionsError: the node is to be asked over HTTP.
            NotSentError: no connection came about, or the client is closed.
        """
        if self._closed:
            raise NotSentError("the client is closed")
        session = self._open.get(endpoint)
        loop = asyncio.get_running_loop()
        if session is not None and session.usable:
            if session.credentials != loaded.version:
                self._renew(endpoint, loaded, loop.time())
            return session
        until_s = self._http_until_s.get(endpoint)
        if until_s is not None and loop.time() < until_s:
            raise NoSessionsError(f"{endpoint} serves no sessions")
        task = self._opening.get(endpoint)
        if task is None:
            task = self._begin_to_open(endpoint, loaded)
        # A caller that is cancelled leaves the attempt to the others.
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise NotSentError(describe_failure(error, timeout_s), timed_out=True) from error

    def retire(self, endpoint: Endpoint, *, before: int) -> None:
        """Give no further operation to a session whose credentials are older than that version."""
        session = self._open.get(endpoint)
        if session is not None and session.usable and session.credentials < before:
            del self._open[endpoint]
            session.retire()

    def _renew(self, endpoint: Endpoint, loaded: LoadedCredentials, now_s: float) -> None:
        """Begin to open a session with newer credentials, beside the one that serves."""
        if endpoint not in self._opening and now_s >= self._renew_after_s.get(endpoint, 0.0):
            self._begin_to_open(endpoint, loaded)

    def _begin_to_open(
        self, endpoint: Endpoint, loaded: LoadedCredentials
    ) -> asyncio.Task[NodeSession]:
        opening = NodeSession.open(
            self._http, endpoint, timeout_s=self._connect_timeout_s, loaded=loaded
        )
        task = self._opening[endpoint] = asyncio.get_running_loop().create_task(opening)
        task.add_done_callback(lambda done: self._opened(endpoint, done))
        return task

    def _opened(self, endpoint: Endpoint, task: asyncio.Task[NodeSession]) -> None:
        self._opening.pop(endpoint, None)
        if task.cancelled():
            return
        now_s = asyncio.get_running_loop().time()
        error = task.exception()
        if error is None:
            former = self._open.get(endpoint)
            self._open[endpoint] = task.result()
            self._renew_after_s.pop(endpoint, None)
            if former is not None and former.usable:
                former.retire()
        else:
            self._renew_after_s[endpoint] = now_s + RENEW_PAUSE_S
            if isinstance(error, NoSessionsError) and error.lasting:
                self._http_until_s[endpoint] = now_s + HTTP_FOR_S

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
