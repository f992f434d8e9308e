"""Which listener serves which part of the API.

By default one listener serves all. With `metrics_listen` or `admin_listen`, metrics or
administration have a listener of their own, and the others refuse them and name it. Health is
served by each: a probe reads nothing of a client's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web

from raftnode.access.roles import Verb
from raftnode.api.errors import refusal
from raftnode.api.http import Handler, Route
from raftnode.core.types import Endpoint
from raftnode.errors import RequestError


class Listener(StrEnum):
    """A listener; the value is a metric's label, for `API` the same as in the metrics of TLS."""

    API = "api"
    ADMIN = "admin"
    METRICS = "metrics"


class Part(StrEnum):
    """A part of the API, as the refusal names it."""

    DATA = "records and keys"
    DESCRIPTION = "descriptions of the node and the quorum"
    ADMINISTRATION = "administration"
    METRICS = "metrics"
    HEALTH = "health"


SETTINGS: Mapping[Listener, str] = {
    Listener.API: "api_listen",
    Listener.ADMIN: "admin_listen",
    Listener.METRICS: "metrics_listen",
}
"""The setting of each listener's address."""

_OWN: Mapping[Part, Listener] = {
    Part.ADMINISTRATION: Listener.ADMIN,
    Part.METRICS: Listener.METRICS,
}
"""Parts that may have a listener of their own."""

_PARTS: Mapping[Verb, Part] = {
    Verb.HEALTH: Part.HEALTH,
    Verb.DESCRIBE: Part.DESCRIPTION,
    Verb.SESSION: Part.DATA,
    Verb.READ: Part.DATA,
    Verb.WRITE: Part.DATA,
    Verb.ADMIN: Part.ADMINISTRATION,
    Verb.RESIGN: Part.ADMINISTRATION,
    Verb.METRICS: Part.METRICS,
}


def part_of(route: Route) -> Part:
    """The part that a route belongs to: a change of the quorum or of a node is administration."""
    return _PARTS[route.need.verb]


@dataclass(frozen=True, slots=True)
class Serving:
    """What one listener of a node serves.

    Attributes:
        listener: this one.
        addresses: of all listeners for clients that the node has; complete once they listen.
    """

    listener: Listener
    addresses: Mapping[Listener, Endpoint]

    def serves(self, part: Part) -> bool:
        """Whether this listener serves a part."""
        if part is Part.HEALTH:
            return True
        if part is Part.DESCRIPTION:
            return self.listener is not Listener.METRICS
        return self.listener is self.listener_of(part)

    def listener_of(self, part: Part) -> Listener:
        """The listener that a client must use for a part."""
        own = _OWN.get(part, Listener.API)
        return own if own in self.addresses else Listener.API

    def handler_of(self, route: Route) -> Handler:
        """The handler of a route on this listener: its own, or one that refuses."""
        part = part_of(route)
        if not self.serves(part):
            return self._refuse(part)
        if self.listener is Listener.ADMIN:
            return _without_client_address(route.handler)
        return route.handler

    def _refuse(self, part: Part) -> Handler:
        right = self.listener_of(part)

        async def refuse(_request: web.Request) -> web.StreamResponse:
            raise refusal(
                "WRONG_LISTENER",
                f"this listener ({SETTINGS[self.listener]}) does not serve {part}; ask "
                f"{self.addresses[right]} ({SETTINGS[right]})",
            )

        return refuse


EVERY_PART = Serving(Listener.API, {})
"""The only listener of a node."""


def _without_client_address(handler: Handler) -> Handler:
    """Leave the leader's client listener out of a refusal: it would refuse administration."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except RequestError as error:
            error.leader_api = None
            raise

    return handle
