"""One kind of objects, listed once and then followed by a watch.

An object is kept as the bytes of its JSON: a tenth of the memory of its dicts, and each reader has
a copy of its own. The list is read again now and then, so that nothing that a watch failed to
deliver stays unknown for ever; kopf's own watch never reports what was deleted during a gap.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import GoneError, KubeError
from kraftquorum_operator.model.objects import Body

RELIST_S = 600.0
"""How often the list is read again, give or take a tenth."""

RETRY_FIRST_S, RETRY_MAX_S = 0.5, 30.0
"""Pauses after failures: each twice as long as the last, and shortened by up to a half."""

SHORT_S = 1.0
"""A watch that ends sooner is followed by a pause: a proxy may end each of them at once."""

Key = tuple[str, str]
"""Namespace and name."""

Changed = Callable[[Body | None, Body], None]
"""Called with the object as it was, if it was known, and as it is or was last."""


@dataclass(frozen=True, slots=True)
class _Kept:
    uid: str
    version: int
    """Its resourceVersion. Versions of one kind are numbers that grow."""
    instance: str
    data: bytes

    @property
    def body(self) -> Body:
        return cast("Body", json.loads(self.data))


@dataclass(slots=True)
class Informer:
    """The objects of one kind, of one namespace or of all.

    Attributes:
        kube: for lists and watches.
        kind: of the objects.
        namespace: of the objects; None: all.
        changed: called once an object has changed, after it is kept.
        selector: of their labels; empty: all objects.
        with_managers: whether `managedFields` are kept.
    """

    kube: KubeClient
    kind: str
    namespace: str | None
    changed: Changed
    selector: str = f"{names.LABEL_APP}={names.APP}"
    with_managers: bool = False
    fresh: bool = False
    """Whether a watch is open that has delivered everything since the list was read."""
    _kept: dict[Key, _Kept] = field(default_factory=dict[Key, _Kept])
    _of_instance: dict[Key, set[str]] = field(default_factory=dict[Key, set[str]])
    """Names of the objects by namespace and label `app.kubernetes.io/instance`."""

    async def run(self) -> None:
        """Follow the objects until cancelled; a failure only makes them out of date."""
        pause_s = RETRY_FIRST_S
        while True:
            try:
                await self._follow()
                pause_s = RETRY_FIRST_S
                continue
            except GoneError:
                self.fresh = False
            except (KubeError, ValueError, KeyError, TypeError):
                # The last three: an answer that is no list or no object.
                self.fresh = False
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            except asyncio.CancelledError:
                # As in `Lease.run`: kopf cancels tasks of ours when it is restarted.
                self.fresh = False
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    def get(self, namespace: str, name: str) -> Body | None:
        """An object; None: there is none."""
        kept = self._kept.get((namespace, name))
        return None if kept is None else kept.body

    def of_instance(self, namespace: str, instance: str) -> list[Body]:
        """The objects of one quorum, by the label `app.kubernetes.io/instance`."""
        of = sorted(self._of_instance.get((namespace, instance), ()))
        return [self._kept[namespace, name].body for name in of]

    def wrote(self, body: Body) -> None:
        """Keep what the API server answered to a write, unless a watch has brought newer."""
        key = _key(body)
        kept = self._kept.get(key)
        if kept is not None and kept.uid == body["metadata"]["uid"]:
            self._keep(key, body)

    async def _follow(self) -> None:
        """List, then watch until it is time to list again."""
        bodies, version = await self.kube.list_all(self.kind, self.namespace, self.selector)
        self._replace(bodies)
        self.fresh = True
        until_s = time.monotonic() + RELIST_S * random.uniform(0.9, 1.1)  # noqa: S311 - jitter
        while time.monotonic() < until_s:
            began_s = time.monotonic()
            async for kind, body in self.kube.watch(
                self.kind, self.namespace, self.selector, version
            ):
                version = str(body["metadata"]["resourceVersion"])
                if kind == "DELETED":
                    self._drop(_key(body), body)
                elif kind != "BOOKMARK":
                    self._take(body)
            if time.monotonic() - began_s < SHORT_S:
                await asyncio.sleep(RETRY_FIRST_S)

    def _replace(self, bodies: Iterable[Body]) -> None:
        present: set[Key] = set()
        for body in bodies:
            present.add(_key(body))
            self._take(body)
        for key in set(self._kept) - present:
            self._drop(key, self._kept[key].body)

    def _take(self, body: Body) -> None:
        key = _key(body)
        before = self._kept.get(key)
        if self._keep(key, body):
            self.changed(before.body if before is not None else None, body)

    def _keep(self, key: Key, body: Body) -> bool:
        """Keep an object; returns whether it is newer than what is kept."""
        meta = body["metadata"]
        version, before = int(meta["resourceVersion"]), self._kept.get(key)
        if before is not None and before.version >= version:
            return False
        shown = body
        if not self.with_managers and "managedFields" in meta:
            shown = body | {"metadata": {k: v for k, v in meta.items() if k != "managedFields"}}
        labels = cast("dict[str, str]", meta.get("labels") or {})
        instance = labels.get(names.LABEL_INSTANCE, "")
        self._forget(key)
        data = json.dumps(shown, separators=(",", ":")).encode()
        self._kept[key] = _Kept(str(meta["uid"]), version, instance, data)
        self._of_instance.setdefault((key[0], instance), set()).add(key[1])
        return True

    def _drop(self, key: Key, body: Body) -> None:
        kept = self._kept.get(key)
        if kept is not None and kept.uid == body["metadata"]["uid"]:
            self._forget(key)
            self.changed(kept.body, body)

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            of = (key[0], kept.instance)
            self._of_instance[of].discard(key[1])
            if not self._of_instance[of]:
                del self._of_instance[of]


def _key(body: Body) -> Key:
    meta = body["metadata"]
    return str(meta["namespace"]), str(meta["name"])
