"""What the operator has read for `spec.access`: tokens, the previous Secrets, keys of the cluster.

No token is in a repr, so that no log line and no failed assertion shows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ACCESS_KEY = "access.json"
KEYS_KEY = "jwks.json"
ISSUER_KEY = "issuer"
STATE_KEY = "state.json"
TOKEN_KEY = "token"  # noqa: S105 - the name of an entry


@dataclass(frozen=True, slots=True)
class TokenHash:
    """The SHA-256 of a token, as the access file has it."""

    text: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why something that an entry names cannot be used.

    Attributes:
        reason: one word, for the condition.
        message: what is wrong and what to do.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AccessFault:
    """Why an entry of `spec.access` cannot be used.

    Attributes:
        field: its path in the resource.
        reason: one word, for the condition.
        message: what is wrong and what to do.
    """

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        """As a condition has it."""
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The keys with which the cluster signs tokens of ServiceAccounts, and their issuer."""

    text: str
    issuer: str


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """What the nodes' Secret has.

    Attributes:
        keys: of the cluster; None: the Secret has none.
        state: of the tokens in the access file.
        document: the access file.
    """

    keys: ClusterKeys | None = None
    state: str = field(default="", repr=False)
    document: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AccessFacts:
    """What was read for a quorum with access control.

    Attributes:
        tokens: what the Secrets of the resource hold, by name and key.
        keys: the cluster's; None: no entry needs them.
        operator: of the operator's token; None: there is no token yet.
        fresh_token: for the operator, if it has none.
        files: in the nodes' Secret; None: there is no access file.
        now_s: Unix time.
        unreadable: why the operator's own Secrets cannot be read; then the parts are missing.
    """

    tokens: Mapping[tuple[str, str], TokenHash | Unusable]
    keys: ClusterKeys | Unusable | None = None
    operator: TokenHash | None = None
    fresh_token: str = field(default="", repr=False)
    files: AccessFiles | None = None
    now_s: int = 0
    unreadable: str = ""
