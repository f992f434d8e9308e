"""The last status of every resource of a kind, kept only for the status page.

The active operator puts each status of a quorum here when it makes the status; the status in the
resource is as old or older. An operator on standby reconciles nothing, and reads from its watch
what the active operator wrote into the resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, cast

from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.status import Status, status_in


@dataclass(frozen=True, slots=True)
class CachedStatus(Generic[Status]):
    """The last known status of one quorum."""

    namespace: str
    name: str
    uid: str
    voters: int
    """Wanted; 0 for a KafkaQuorum, whose spec has no number."""
    status: Status | None
    """None: no operator has reported yet."""
    at_s: float
    """Wall clock: when it was observed, or else when the watch brought it."""
    own: bool
    """Observed by this operator, not read from the resource."""


@dataclass(slots=True)
class StatusCache(Generic[Status]):
    """All quorums by namespace and name. Losing it costs one reconciliation.

    Attributes:
        model: of the status.
        quorums: what is known of each.
        ready: False until the operator has reached the API server; an empty cache means nothing
            before that.
    """

    model: type[Status]
    quorums: dict[tuple[str, str], CachedStatus[Status]] = field(
        default_factory=dict[tuple[str, str], CachedStatus[Status]]
    )
    ready: bool = True

    def observed(self, owner: Owner, voters: int, status: Status, now_s: float) -> None:
        """This operator has observed a quorum."""
        key = (owner.namespace, owner.name)
        self.quorums[key] = CachedStatus(*key, owner.uid, voters, status, now_s, own=True)

    def reported(self, resource: Mapping[str, Any], now_s: float) -> None:
        """A watch has brought a resource, with the status that some operator wrote."""
        meta = cast("Mapping[str, Any]", resource["metadata"])
        namespace, name, uid = str(meta["namespace"]), str(meta["name"]), str(meta["uid"])
        have = self.quorums.get((namespace, name))
        if have and have.own and have.uid == uid:
            return
        spec = cast("Mapping[str, Any]", resource.get("spec") or {})
        voters, status = int(spec.get("voters") or 0), status_in(resource, self.model)
        self.quorums[namespace, name] = CachedStatus(
            namespace, name, uid, voters, status, now_s, own=False
        )

    def released(self, namespace: str, name: str) -> None:
        """This operator no longer reconciles the quorum: another operator's status is newer."""
        have = self.quorums.get((namespace, name))
        if have is not None and have.own:
            self.quorums[namespace, name] = replace(have, own=False)

    def forget(self, namespace: str, name: str, uid: str) -> None:
        """Drop a quorum that is gone, but not its namesake."""
        have = self.quorums.get((namespace, name))
        if have is not None and have.uid == uid:
            del self.quorums[namespace, name]
