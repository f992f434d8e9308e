"""What a route or an operation of a session needs: what it does, and to which keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from aiohttp import web

from raftnode.access.roles import EVERYTHING, Verb


class Scope(StrEnum):
    """Where a request names the keys that it is for."""

    NONE = "none"
    """It reads and writes no records."""
    KEY = "key"
    """In its path."""
    PREFIX = "prefix"
    """In the parameter `prefix`."""
    EVERYTHING = "everything"
    """It is for the log, or for all keys."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a route needs.

    Attributes:
        verb: what it does.
        scope: where it names the keys.
    """

    verb: Verb
    scope: Scope = Scope.NONE

    def target(self, request: web.Request) -> bytes:
        """The key, or the prefix of the keys, that a request is for; it may be malformed."""
        if self.scope is Scope.KEY:
            return raw_key(request)
        if self.scope is Scope.PREFIX:
            # A doubled parameter is refused by the route.
            return request.rel_url.query.get("prefix", "").encode(errors="surrogatepass")
        return EVERYTHING


HEALTH = Need(Verb.HEALTH)
DESCRIBE = Need(Verb.DESCRIBE)
SESSION = Need(Verb.SESSION)
READ_KEY = Need(Verb.READ, Scope.KEY)
READ_PREFIX = Need(Verb.READ, Scope.PREFIX)
READ_LOG = Need(Verb.READ, Scope.EVERYTHING)
WRITE_KEY = Need(Verb.WRITE, Scope.KEY)
WRITE_LOG = Need(Verb.WRITE, Scope.EVERYTHING)
ADMIN = Need(Verb.ADMIN)
RESIGN = Need(Verb.RESIGN)
METRICS = Need(Verb.METRICS)


def raw_key(request: web.Request) -> bytes:
    """Take the key from the path: everything after `/v1/kv/`, percent-decoded, unchecked.

    It uses the raw path, since aiohttp's match leaves some escapes as they are. The part before
    the key may have escapes too: `/v%31/kv/` is the same path.
    """
    return unquote_to_bytes(request.rel_url.raw_path.split("/", 3)[3])
