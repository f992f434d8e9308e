"""What a subject may be granted, and what each kind of request needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """What a grant of the access file gives."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    METRICS = "metrics"


PEER = "peer"
"""The role of nodes among themselves, which a certificate gives and no access file."""


class Verb(StrEnum):
    """What a request does."""

    HEALTH = "health"
    """Ask whether the node lives and is ready: open to each client."""
    DESCRIBE = "describe"
    """Describe the node, the quorum or the API."""
    SESSION = "session"
    """Open a session, whose operations are checked one by one."""
    READ = "read"
    """Read a key, some keys, or the log."""
    WRITE = "write"
    """Put or delete a key, or append to the log."""
    ADMIN = "admin"
    """Change the quorum, or form or join one."""
    RESIGN = "resign"
    """Make the node transfer leadership."""
    METRICS = "metrics"
    """Read the metrics."""


ROLES_FOR: Mapping[Verb, frozenset[Role]] = {
    Verb.DESCRIBE: frozenset({Role.READ, Role.WRITE, Role.ADMIN}),
    Verb.SESSION: frozenset({Role.READ, Role.WRITE}),
    Verb.READ: frozenset({Role.READ}),
    Verb.WRITE: frozenset({Role.WRITE}),
    Verb.ADMIN: frozenset({Role.ADMIN}),
    Verb.RESIGN: frozenset({Role.ADMIN}),
    Verb.METRICS: frozenset({Role.METRICS}),
}
"""The roles of which a subject needs one; a verb without a row is open to each client."""

OF_ITS_NODE: frozenset[Verb] = frozenset({Verb.DESCRIBE, Verb.RESIGN})
"""What a node's certificate allows on that node: its own hook makes it resign before it stops."""

EVERYTHING = b""
"""The target of a request that concerns all keys, or records without a key."""
