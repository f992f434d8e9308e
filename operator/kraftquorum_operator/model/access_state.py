"""What the operator keeps beside an access file: earlier tokens, and the name that it has there.

It is in the Secret with the file, so that any operator continues it. An operator that does not know
a part of it leaves that part out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

OPERATOR = "kraftquorum:operator"
"""The subject that is the operator; no client can have this name."""

MOUNTED_S = 180
"""After so long every pod has a changed Secret: the kubelet takes up to two minutes."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The hashes of one subject.

    Attributes:
        current: of the token in its Secret.
        before: earlier ones, each with the Unix time until which it is valid.
    """

    current: str
    before: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OwnName:
    """By which name of its certificate the access file knows the operator.

    Attributes:
        uri: the name.
        since_s: Unix time since which the file has it; 0: since there is a file.
    """

    uri: str
    since_s: int


@dataclass(frozen=True, slots=True)
class AccessState:
    """The state beside an access file.

    Attributes:
        tokens: by the name of the subject.
        own_name: the operator's; None: the file knows it by its token alone.
    """

    tokens: Mapping[str, Tokens] = field(default_factory=dict[str, Tokens])
    own_name: OwnName | None = None

    @classmethod
    def parse(cls, text: str) -> AccessState:
        """Read it; empty if a person has changed it to something else."""
        try:
            entries = cast("dict[str, dict[str, Any]]", json.loads(text or "{}"))
            tokens = {
                name: Tokens(
                    str(entry["current"]),
                    {str(earlier): int(end_s) for earlier, end_s in entry["before"].items()},
                )
                for name, entry in entries.items()
            }
            own = entries.get(OPERATOR, {})
            named = OwnName(str(own["uri"]), int(own["since_s"])) if "uri" in own else None
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return cls()
        return cls(tokens, named)

    def document(self) -> dict[str, Any]:
        """The state, to be written as JSON."""
        entries: dict[str, dict[str, Any]] = {
            name: {"current": each.current, "before": dict(each.before)}
            for name, each in self.tokens.items()
        }
        if self.own_name is not None and OPERATOR in entries:
            entries[OPERATOR] |= {"uri": self.own_name.uri, "since_s": self.own_name.since_s}
        return entries

    def name_in_force(self, now_s: int) -> str | None:
        """The name by which every node knows the operator; None: a node may have an older file."""
        own = self.own_name
        return own.uri if own is not None and now_s >= own.since_s + MOUNTED_S else None
