"""Keeps what reads by name have answered for a while: Secrets, objects of cert-manager, keys.

The operator may not list Secrets, so it cannot watch them either. Only an evaluation that finds
nothing to do uses what is kept here.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kraftquorum_operator.clients.cache import CACHED, KubeReader
from kraftquorum_operator.model.objects import Body

Key = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(slots=True)
class KeptReads:
    """The last answers for one quorum, in memory alone; None: the object is not there."""

    _answers: dict[Key, tuple[float, Body | None]] = field(
        default_factory=dict[Key, tuple[float, Body | None]], repr=False
    )

    async def read(
        self, key: Key, max_age_s: float, ask: Callable[[], Awaitable[Body | None]]
    ) -> Body | None:
        """An answer that is not too old, or a new one, which is kept.

        Args:
            key: what is read.
            max_age_s: how old an answer may be; 0: it is asked for.
            ask: reads it. A failure is not kept.

        Returns:
            A copy, which the caller may change.
        """
        at_s, body = self._answers.get(key, (float("-inf"), None))
        if time.monotonic() - at_s >= max_age_s:
            self._answers.pop(key, None)
            at_s, body = time.monotonic(), await ask()
            self._answers[key] = at_s, body
        return copy.deepcopy(body)

    def clear(self) -> None:
        """Forget all answers."""
        self._answers.clear()


@dataclass(frozen=True, slots=True)
class KeepingReader:
    """Reads from the API server, and keeps what no watch brings.

    Attributes:
        kube: reads.
        kept: what was read.
        max_age_s: how old may be what no watch brings.
    """

    kube: KubeReader
    kept: KeptReads
    max_age_s: float = 0.0

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object; None if it is not there."""
        if kind in CACHED:
            return await self.kube.get(kind, namespace, name)
        return await self.kept.read(
            (kind, namespace, name), self.max_age_s, lambda: self.kube.get(kind, namespace, name)
        )

    async def list(
        self, kind: str, namespace: str, selector: str = "", *, fields: str = ""
    ) -> list[Body]:
        """Read all objects of a kind."""
        return await self.kube.list(kind, namespace, selector, fields=fields)

    async def read_url(self, url: str) -> Body:
        """Read what is no resource."""
        key = ("", "", url)
        answer = await self.kept.read(key, self.max_age_s, lambda: self.kube.read_url(url))
        return {} if answer is None else answer

    async def version(self) -> tuple[int, int] | None:
        """Major and minor version of the API server."""
        return await self.kube.version()
