"""Values that a setting's text stands for, where the core has no type for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftnode.core.types import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class VoterAddress:
    """One of `quorum.voters` (P57): where the node of an id listens."""

    node_id: int
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.node_id}@{self.endpoint}"

    @classmethod
    def parse(cls, text: str) -> VoterAddress:
        """Read `id@host:port`.

        Raises:
            ValueError: another form, or an id that is no node's.
        """
        node_id, at, endpoint = text.partition("@")
        if not at or not node_id.isdecimal() or int(node_id) >= 2**31:
            msg = f"not a voter: {text!r}; expected id@host:port"
            raise ValueError(msg)
        return cls(int(node_id), Endpoint.parse(endpoint))


def each_once(voters: Iterable[VoterAddress]) -> tuple[VoterAddress, ...]:
    """Give the voters back if no id and no address is among them twice.

    Raises:
        ValueError: naming what is.
    """
    ids: set[int] = set()
    endpoints: set[Endpoint] = set()
    addresses = tuple(voters)
    for voter in addresses:
        if voter.node_id in ids:
            msg = f"node id {voter.node_id} is listed twice; give each voter its own id"
            raise ValueError(msg)
        if voter.endpoint in endpoints:
            msg = f"{voter.endpoint} is listed twice; give each voter its own address"
            raise ValueError(msg)
        ids.add(voter.node_id)
        endpoints.add(voter.endpoint)
    return addresses
