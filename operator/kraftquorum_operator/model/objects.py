"""Kubernetes objects as the operator reads and writes them: bodies, their owner, their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

Body = dict[str, Any]
"""An object as the API server takes and returns it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The KRaftQuorum that an object is made for."""

    namespace: str
    name: str
    uid: str


class ObjectRef(NamedTuple):
    """An object of a quorum, which has one namespace."""

    kind: str
    name: str

    def __str__(self) -> str:
        """As messages name it: `Kind/name`."""
        return f"{self.kind}/{self.name}"

    @classmethod
    def of(cls, body: Body) -> ObjectRef:
        """The reference to an object."""
        return cls(str(body["kind"]), str(body["metadata"]["name"]))
