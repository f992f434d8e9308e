"""Kubernetes Events from the node, sent in the background and never in the way."""

import asyncio
import uuid

import aiohttp
import structlog

from kraftquorum_devcluster import clock
from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.objects import Json

_log = structlog.get_logger(__name__)
_QUEUE_MAX = 500


class EventSink:
    """A bounded queue of events; what does not fit is dropped and logged."""

    def __init__(self, api: ApiClient, host: str) -> None:
        self._api = api
        self._host = host
        self._queue: asyncio.Queue[Json] = asyncio.Queue(_QUEUE_MAX)

    def emit(self, about: Json, kind: str, reason: str, message: str, *, warning: bool) -> None:
        """Report something about an object (a pod or a claim)."""
        metadata = about["metadata"]
        log = _log.warning if warning else _log.info
        log(reason, kind=kind, namespace=metadata["namespace"], name=metadata["name"], why=message)
        time = clock.now()
        event: Json = {
            "metadata": {
                "name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": kind,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:1000],
            "source": {"component": "devcluster", "host": self._host},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            _log.warning("event dropped, too many at once", reason=reason)

    async def run(self) -> None:
        """Send what is queued until cancelled; an event that is refused is dropped."""
        while True:
            event = await self._queue.get()
            namespace = event["metadata"]["namespace"]
            try:
                await self._api.post(f"/api/v1/namespaces/{namespace}/events", event)
            except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
                _log.debug("event not sent", error=repr(error))
