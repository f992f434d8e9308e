"""Restarts of the pods' containers, as their status tells them: what ended, and how."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError
from raftnode.errors import ExitCode

_EVERY_S = 0.3
_SIGNALLED = 128
"""A container that a signal ended has this exit code and the signal's number on top."""


class PodRestarts:
    """Reports each restart of a container of the pods, once.

    Args:
        api: Of the cluster, opened.
        path: Of the pods at the API server.
        say: Called with a sentence for each restart.
    """

    def __init__(self, api: ApiClient, path: str, say: Callable[[str], None]) -> None:
        self._api = api
        self._path = path
        self._say = say
        self._known: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Look until cancelled; an API server that does not answer is asked again."""
        while True:
            with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
                for text in self.observe((await self._api.get(self._path))["items"]):
                    self._say(text)
            await asyncio.sleep(_EVERY_S)

    def observe(self, pods: Sequence[dict[str, Any]]) -> list[str]:
        """Take in the pods as they are; returns what was restarted since, in words."""
        said: list[str] = []
        for pod in pods:
            for status in pod.get("status", {}).get("containerStatuses", ()):
                key = (pod["metadata"]["uid"], status["name"])
                count = int(status.get("restartCount", 0))
                if count > self._known.get(key, 0):
                    said.append(_sentence(pod["metadata"]["name"], status, count))
                self._known[key] = count
        return said


def _sentence(pod: str, status: dict[str, Any], count: int) -> str:
    ended = status.get("lastState", {}).get("terminated")
    how = "ended" if ended is None else f"ended with {exit_code_words(int(ended['exitCode']))}"
    return f"pod {pod}: {status['name']} {how} and was restarted (restart {count})"


def exit_code_words(code: int) -> str:
    """A container's exit code, with the node's or the signal's name."""
    if code > _SIGNALLED:
        return f"exit code {code} ({signal_name(code - _SIGNALLED)})"
    try:
        return f"exit code {code} ({ExitCode(code).name})"
    except ValueError:
        return f"exit code {code}"


def signal_name(number: int) -> str:
    """SIGKILL for 9; `signal 35` for one that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
