"""Which requests a fault hits, and what faults there are. No I/O."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

_OBJECT_DEPTH = {"api": 2, "apis": 3}
_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """A request as Kubernetes sees it.

    Attributes:
        verb: get, list, watch, create, update, patch, delete or deletecollection.
        path: Path with query.
        body: What was sent.
    """

    verb: str
    path: str
    body: bytes = b""

    @classmethod
    def of(
        cls, method: str, path: str, query: Mapping[str, str], body: bytes = b""
    ) -> "RequestFacts":
        """Derive the verb as the API server does."""
        text = path
        if query:
            text += "?" + "&".join(f"{key}={value}" for key, value in query.items())
        return cls(_verb(method, path, query), text, body)


def _verb(method: str, path: str, query: Mapping[str, str]) -> str:
    if method in _WRITES:
        return _WRITES[method]
    named = _names_an_object(path)
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    if query.get("watch") in ("1", "true"):
        return "watch"
    return "get" if named else "list"


def _names_an_object(path: str) -> bool:
    """Whether a path ends at one object and not at a collection."""
    parts = path.strip("/").split("/")
    depth = _OBJECT_DEPTH.get(parts[0])
    if depth is None or len(parts) <= depth:
        return True  # /version, /healthz, discovery: never a list
    resource = parts[depth:]
    if resource[0] == "namespaces" and len(resource) > 2:
        resource = resource[2:]
    return len(resource) > 1


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error instead of forwarding."""

    status: int
    reason: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with this JSON instead of forwarding, as another API server would."""

    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait before forwarding."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection; `after` forwarding, if the write should take effect."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class CutWatch:
    """Break a watch off after so many events (of a client that asks for JSON) or bytes."""

    after_events: int | None = None
    after_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SilenceWatch:
    """Let a watch live but say nothing after so many events."""

    after_events: int = 0


@dataclass(frozen=True, slots=True)
class StaleAnswer:
    """Answer a read with what the same read was last answered before this rule hit.

    A read that was never answered before is forwarded, and its answer repeated
    from then on.
    """


class Gate:
    """Holds requests until released.

    Attributes:
        requests: Those that have arrived, in order.
    """

    def __init__(self, *, after: bool = False) -> None:
        self.after = after
        self.requests: list[RequestFacts] = []
        self._arrived = asyncio.Condition()
        self._released = asyncio.Event()

    async def arrived(self, count: int = 1, timeout_s: float = 30) -> RequestFacts:
        """Wait until ``count`` requests have arrived; returns the last of them.

        Raises:
            TimeoutError: They have not.
        """
        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    def release(self) -> None:
        """Let all go on that are held, and all that come."""
        self._released.set()

    async def hold(self, request: RequestFacts) -> None:
        """Called by the proxy."""
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        await self._released.wait()


Effect = Fail | Answer | Delay | Drop | CutWatch | SilenceWatch | StaleAnswer | Gate

_WATCH_ONLY = (CutWatch, SilenceWatch)


@dataclass(slots=True)
class Rule:
    """An effect, and which requests it hits.

    Attributes:
        verb: Only this verb; any if None.
        path: Regular expression searched in path and query; any if None.
        times: How many requests are hit; without end if None.
        skip: How many matching requests pass first.
        hits: How many were hit so far.
    """

    effect: Effect
    verb: str | None = None
    path: str | None = None
    times: int | None = None
    skip: int = 0
    hits: int = 0
    enabled: bool = True
    _seen: int = field(default=0, repr=False)

    VERBS: ClassVar[frozenset[str]] = frozenset(
        {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
    )

    def __post_init__(self) -> None:
        if self.verb is not None and self.verb not in self.VERBS:
            raise ValueError(f"verb {self.verb!r} is none of {', '.join(sorted(self.VERBS))}")
        re.compile(self.path or "")

    def take(self, request: RequestFacts) -> bool:
        """Whether this request is hit; counts it."""
        if not self.enabled or not self._matches(request):
            return False
        self._seen += 1
        if self._seen <= self.skip or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True

    def _matches(self, request: RequestFacts) -> bool:
        if isinstance(self.effect, _WATCH_ONLY) and request.verb != "watch":
            return False
        if self.verb is not None and request.verb != self.verb:
            return False
        return self.path is None or re.search(self.path, request.path) is not None

    def remove(self) -> None:
        """Hit nothing from now on; a gate lets its requests go."""
        self.enabled = False
        if isinstance(self.effect, Gate):
            self.effect.release()
