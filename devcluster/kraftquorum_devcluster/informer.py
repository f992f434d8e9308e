"""List and watch one kind, keep a copy, tell a handler of each change."""

import asyncio
from collections.abc import Callable, Iterator

import aiohttp
import structlog

from kraftquorum_devcluster.objects import Json

from .apiclient import ApiClient
from .errors import ApiError

_log = structlog.get_logger(__name__)

Key = tuple[str, str]
"""Namespace ("" for cluster-wide kinds) and name."""
Handler = Callable[[str, Json], None]
"""Called with ADDED, MODIFIED or DELETED and the object."""

_RETRY_S = 0.3


def key_of(thing: Json) -> Key:
    """Namespace and name of an object."""
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


class Informer:
    """A copy of all objects of one kind, kept current by `run`.

    Handlers run on the event loop and must not block. After a gap (the server
    restarted, 410 Gone) the list is read again and only differences are told.
    """

    def __init__(self, api: ApiClient, path: str, handler: Handler) -> None:
        self._api = api
        self._path = path
        self._handler = handler
        self._objects: dict[Key, Json] = {}
        self.synced = asyncio.Event()

    def get(self, namespace: str, name: str) -> Json | None:
        """The object as last seen."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[Json]:
        return iter(list(self._objects.values()))

    async def run(self) -> None:
        """Follow the kind until cancelled; never gives up."""
        while True:
            try:
                version = await self._list()
                while True:
                    version = await self._watch(version)
            except ApiError as error:
                if error.status != 410:
                    _log.warning("watch refused", path=self._path, error=str(error))
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                _log.info("watch broken", path=self._path, error=repr(error))
            await asyncio.sleep(_RETRY_S)

    async def _list(self) -> str:
        answer = await self._api.get(self._path)
        current: dict[Key, Json] = {key_of(item): item for item in answer["items"]}
        for key in [key for key in self._objects if key not in current]:
            self._tell("DELETED", self._objects[key])
        for item in current.values():
            self._tell("MODIFIED" if key_of(item) in self._objects else "ADDED", item)
        self.synced.set()
        return str(answer["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> str:
        async for kind, thing in self._api.watch(self._path, version):
            version = str(thing["metadata"]["resourceVersion"])
            if kind != "BOOKMARK":
                self._tell(kind, thing)
        return version

    def _tell(self, kind: str, thing: Json) -> None:
        key = key_of(thing)
        known = self._objects.get(key)
        if kind == "DELETED":
            self._objects.pop(key, None)
        elif known is not None and (_uid(known), _version(known)) == (_uid(thing), _version(thing)):
            return
        else:
            self._objects[key] = thing
        if known is not None and kind != "DELETED" and _uid(known) != _uid(thing):
            self._handler("DELETED", known)
            kind = "ADDED"
        self._handler(kind, thing)


def _version(thing: Json) -> str:
    return str(thing["metadata"]["resourceVersion"])


def _uid(thing: Json) -> str:
    return str(thing["metadata"]["uid"])
