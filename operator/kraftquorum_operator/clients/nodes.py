"""The replicas' HTTP API, as the operator uses it.

Replicas are reached at their pods' addresses, never by DNS, since the operator
may run outside the cluster; a request that matters names the (id, UUID) that
it is meant for, so that an address that changed hands does no harm.
"""

from __future__ import annotations

from typing import Protocol

import aiohttp
from pydantic import BaseModel, ValidationError
from raftnode.api.model import (
    AddVoterRequest,
    ApiError,
    FormRequest,
    JoinRequest,
    NodeInfo,
    QuorumInfo,
    RemoveVoterRequest,
    ResignRequest,
)

from kraftquorum_operator.errors import NodeRefusedError, NodeUnreachableError


class NodeApi(Protocol):
    """What a replica can be asked. Every method raises `NodeError` (see `errors.py`)."""

    async def node(self, address: str) -> NodeInfo:
        """What the replica knows of itself."""
        ...

    async def quorum(self, address: str) -> QuorumInfo:
        """DescribeQuorum, confirmed by a majority; only the leader answers."""
        ...

    async def form(self, address: str, request: FormRequest) -> None:
        """Send the latch to a blank replica."""
        ...

    async def join(self, address: str, request: JoinRequest) -> None:
        """Send the cluster id to a blank replica."""
        ...

    async def add_voter(self, address: str, request: AddVoterRequest) -> None:
        """AddVoter; returns once it is committed."""
        ...

    async def remove_voter(self, address: str, request: RemoveVoterRequest) -> None:
        """RemoveVoter; returns once it is committed."""
        ...

    async def resign(self, address: str, request: ResignRequest) -> None:
        """Have the leader hand over."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpNodes:
    """`NodeApi` over one aiohttp session."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._session = aiohttp.ClientSession()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def node(self, address: str) -> NodeInfo:
        """What the replica knows of itself."""
        return NodeInfo.model_validate(await self._ask("GET", address, "/v1/node"))

    async def quorum(self, address: str) -> QuorumInfo:
        """DescribeQuorum, confirmed by a majority; only the leader answers."""
        answer = await self._ask("GET", address, "/v1/quorum?confirmed=true")
        return QuorumInfo.model_validate(answer)

    async def form(self, address: str, request: FormRequest) -> None:
        """Send the latch to a blank replica."""
        await self._ask("POST", address, "/v1/form", request)

    async def join(self, address: str, request: JoinRequest) -> None:
        """Send the cluster id to a blank replica."""
        await self._ask("POST", address, "/v1/join", request)

    async def add_voter(self, address: str, request: AddVoterRequest) -> None:
        """AddVoter; returns once it is committed."""
        longer_s = request.timeout_ms / 1000
        await self._ask("POST", address, "/v1/quorum/voters", request, longer_s=longer_s)

    async def remove_voter(self, address: str, request: RemoveVoterRequest) -> None:
        """RemoveVoter; returns once it is committed."""
        longer_s = request.timeout_ms / 1000
        await self._ask("POST", address, "/v1/quorum/voters/remove", request, longer_s=longer_s)

    async def resign(self, address: str, request: ResignRequest) -> None:
        """Have the leader hand over."""
        await self._ask("POST", address, "/v1/quorum/resign", request, longer_s=5.0)

    async def _ask(
        self,
        method: str,
        address: str,
        target: str,
        request: BaseModel | None = None,
        *,
        longer_s: float = 0.0,
    ) -> object:
        url = f"http://{address}{target}"
        body = request.model_dump(mode="json") if request is not None else None
        timeout = aiohttp.ClientTimeout(total=self._timeout_s + longer_s)
        try:
            async with self._session.request(method, url, json=body, timeout=timeout) as answer:
                status, content = answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            sent = method == "POST" and not isinstance(error, aiohttp.ClientConnectorError)
            msg = f"{method} {url}: {type(error).__name__}: {error}"
            raise NodeUnreachableError(msg, outcome="unknown" if sent else "not_done") from error
        if status < 300:
            return content
        try:
            refused = ApiError.model_validate(content)
        except ValidationError as error:
            msg = f"{method} {url}: answered {status} in an unknown form"
            raise NodeUnreachableError(msg, outcome="unknown") from error
        raise NodeRefusedError(refused.error, refused.message, outcome=refused.outcome)
