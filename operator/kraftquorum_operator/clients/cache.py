"""Reads of a quorum's objects from what watches have delivered.

An evaluation that reads here decides only that nothing is to be done. Every action is decided once
more, on what the API server answers then, so that a cache that is behind delays an action and never
causes one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, cast

from kraftquorum_operator import names
from kraftquorum_operator.clients.informer import Informer
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.model.objects import Body

COMPARED = ("StatefulSet", "PodDisruptionBudget", "Service", "NetworkPolicy")
"""Kinds whose objects are compared with what is wanted, by who manages which field."""

CACHED = (names.KIND, "Pod", "PersistentVolumeClaim", "ConfigMap", *COMPARED)
"""Kinds that are watched. Secrets are not: a watch would read every Secret of a namespace."""


class KubeReader(Protocol):
    """What an observation reads. Every method raises `KubeError`, as in `KubeClient`."""

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object; None if it is not there."""
        ...

    async def list(
        self, kind: str, namespace: str, selector: str = "", *, fields: str = ""
    ) -> list[Body]:
        """Read all objects of a kind."""
        ...

    async def read_url(self, url: str) -> Body:
        """Read what is no resource."""
        ...

    async def version(self) -> tuple[int, int] | None:
        """Major and minor version of the API server."""
        ...


@dataclass(frozen=True, slots=True)
class CachedQuorum:
    """The objects of one quorum, as the watches delivered them; all else from the API server."""

    kube: KubeReader
    cache: Cache
    name: str

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object, from the API server if no watch has it; None if it is not there."""
        informer = self.cache.informer(kind, namespace)
        body = None if informer is None else informer.get(namespace, name)
        # An object that another client made under this name has no label that the watch asks for.
        return await self.kube.get(kind, namespace, name) if body is None else body

    async def list(
        self, kind: str, namespace: str, selector: str = "", *, fields: str = ""
    ) -> list[Body]:
        """Read the objects of a kind with this quorum's label."""
        informer = None if fields else self.cache.informer(kind, namespace)
        if informer is None:
            return await self.kube.list(kind, namespace, selector, fields=fields)
        return informer.of_instance(namespace, self.name)

    async def read_url(self, url: str) -> Body:
        """Read what is no resource."""
        return await self.kube.read_url(url)

    async def version(self) -> tuple[int, int] | None:
        """Major and minor version of the API server."""
        return await self.kube.version()


@dataclass(slots=True)
class Cache:
    """The watches of all kinds; an async context manager.

    Args:
        kube: for the watches. It needs a connection for each of them.
        namespaces: that are watched; empty: all.
        wake: has a quorum reconciled.
    """

    kube: KubeClient
    namespaces: tuple[str, ...]
    wake: Callable[[str, str], None]
    _informers: dict[tuple[str, str | None], Informer] = field(
        default_factory=dict[tuple[str, str | None], Informer]
    )
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def __post_init__(self) -> None:
        places: Iterable[str | None] = self.namespaces or (None,)
        for namespace in places:
            for kind in CACHED:
                own = kind == names.KIND
                informer = Informer(
                    self.kube,
                    kind,
                    namespace,
                    self._resource_changed if own else self._child_changed,
                    with_managers=kind in COMPARED,
                )
                if own:
                    informer.selector = ""
                self._informers[kind, namespace] = informer

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        for (kind, namespace), informer in self._informers.items():
            name = f"informer {kind} {namespace or ''}"
            self._tasks.append(self._group.create_task(informer.run(), name=name))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(kind, error, trace)

    def reader(self, kube: KubeReader, namespace: str, name: str) -> KubeReader | None:
        """A reader of one quorum; None while a watch of it is not open."""
        informers = (self.informer(kind, namespace) for kind in CACHED)
        if any(informer is None for informer in informers):
            return None
        return CachedQuorum(kube, self, name)

    def informer(self, kind: str, namespace: str) -> Informer | None:
        """The informer of a kind, while it is up to date."""
        place = namespace if self.namespaces else None
        informer = self._informers.get((kind, place))
        return informer if informer is not None and informer.fresh else None

    def wrote(self, body: Body) -> None:
        """Keep what the API server answered to a write."""
        informer = self.informer(str(body["kind"]), str(body["metadata"]["namespace"]))
        if informer is not None:
            informer.wrote(body)

    def _resource_changed(self, before: Body | None, body: Body) -> None:
        """Wake a quorum for what a person changes; a status is the operator's own."""
        if before is None or _wanted(before) != _wanted(body):
            self.wake(*_key(body))

    def _child_changed(self, _before: Body | None, body: Body) -> None:
        labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
        instance = labels.get(names.LABEL_INSTANCE)
        if instance is not None:
            self.wake(str(body["metadata"]["namespace"]), instance)


def _wanted(body: Body) -> tuple[object, ...]:
    meta = body["metadata"]
    parts = ("uid", "generation", "annotations", "finalizers", "deletionTimestamp")
    return tuple(meta.get(part) for part in parts)


def _key(body: Body) -> tuple[str, str]:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])
