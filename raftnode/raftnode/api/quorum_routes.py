"""`/v1/quorum`, `/v1/form`, `/v1/join`: the voters and their changes."""

from __future__ import annotations

from aiohttp import web

from raftnode.api.authorization import note_target
from raftnode.api.errors import refusal
from raftnode.api.http import ModelT, Route, json_response, read_json, read_query
from raftnode.api.model import (
    AddVoterRequest,
    CancelReassignmentRequest,
    FormRequest,
    JoinRequest,
    NodeInfo,
    QuorumInfo,
    RaftVersionInfo,
    ReassignmentAccepted,
    ReassignRequest,
    RemoveVoterRequest,
    ResignRequest,
    UpgradeRequest,
    VoterChanged,
)
from raftnode.api.needs import ADMIN, DESCRIBE, RESIGN
from raftnode.api.queries import QuorumQuery
from raftnode.api.service import NodeService

_BODY_MAX_BYTES = 64 << 10
_CHANGE_ERRORS = (
    "NOT_LEADER",
    "NODE_BLANK",
    "STALE_VOTER_RECORD",
    "TOO_MANY_CHANGES",
    "WAITING",
    "NOT_COMMITTED",
    "SHUTTING_DOWN",
    "TIMED_OUT",
    "LEADERSHIP_LOST",
)


async def read_change(request: web.Request, model: type[ModelT]) -> ModelT:
    """Read the body of a change, and note it for the audit log.

    Raises: as `read_json`.
    """
    body = await read_json(request, model, max_bytes=_BODY_MAX_BYTES)
    note_target(request, body.model_dump_json(exclude={"timeout_ms"}, exclude_none=True))
    return body


def check_cluster(service: NodeService, cluster_id: str | None) -> None:
    """Refuse a voter change that is meant for another cluster (P3, P28: AddVoter's ClusterId).

    Raises:
        RequestError: INCONSISTENT_CLUSTER_ID.
    """
    own = service.cluster_id
    if None not in {own, cluster_id} and own != cluster_id:
        raise refusal(
            "INCONSISTENT_CLUSTER_ID",
            f"the request is for cluster {cluster_id!r}, this node belongs to {own!r}",
        )


def quorum_routes(service: NodeService) -> tuple[Route, ...]:
    """Make the operations on the voter set."""

    async def describe(request: web.Request) -> web.StreamResponse:
        query = read_query(request, QuorumQuery)
        return json_response(
            await service.describe_quorum(confirmed=query.confirmed, timeout_ms=query.timeout_ms)
        )

    async def add_voter(request: web.Request) -> web.StreamResponse:
        body = await read_change(request, AddVoterRequest)
        check_cluster(service, body.cluster_id)
        return json_response(await service.add_voter(body))

    async def remove_voter(request: web.Request) -> web.StreamResponse:
        body = await read_change(request, RemoveVoterRequest)
        check_cluster(service, body.cluster_id)
        return json_response(await service.remove_voter(body))

    async def reassign(request: web.Request) -> web.StreamResponse:
        body = await read_change(request, ReassignRequest)
        check_cluster(service, body.cluster_id)
        return json_response(await service.reassign(body))

    async def cancel_reassignment(request: web.Request) -> web.StreamResponse:
        body = await read_change(request, CancelReassignmentRequest)
        check_cluster(service, body.cluster_id)
        return json_response(await service.reassign(body))

    async def upgrade(request: web.Request) -> web.StreamResponse:
        body = await read_change(request, UpgradeRequest)
        return json_response(await service.upgrade(body))

    async def resign(request: web.Request) -> web.StreamResponse:
        await service.resign(await read_change(request, ResignRequest))
        return json_response(service.describe_node())

    async def form(request: web.Request) -> web.StreamResponse:
        await service.form(await read_change(request, FormRequest))
        return json_response(service.describe_node())

    async def join(request: web.Request) -> web.StreamResponse:
        await service.join(await read_change(request, JoinRequest))
        return json_response(service.describe_node())

    return (
        Route(
            "GET",
            "/v1/quorum",
            describe,
            "describeQuorum",
            "Describe the quorum as the leader sees it (DescribeQuorum).",
            DESCRIBE,
            query=QuorumQuery,
            response=QuorumInfo,
            errors=("NOT_LEADER", "NOT_CONFIRMED", "NODE_BLANK", "SHUTTING_DOWN"),
        ),
        Route(
            "POST",
            "/v1/quorum/voters",
            add_voter,
            "addVoter",
            "Make an observer a voter and wait for the commit (AddVoter).",
            ADMIN,
            json_body=AddVoterRequest,
            response=VoterChanged,
            errors=(
                *_CHANGE_ERRORS,
                "VOTER_ALREADY_ADDED",
                "NOT_AN_OBSERVER",
                "UNSUPPORTED_VERSION",
                "NOT_CONFIGURED",
                "REASSIGNMENT_PENDING",
            ),
        ),
        Route(
            "POST",
            "/v1/quorum/voters/remove",
            remove_voter,
            "removeVoter",
            "Remove a voter and wait for the commit (RemoveVoter).",
            ADMIN,
            json_body=RemoveVoterRequest,
            response=VoterChanged,
            errors=(
                *_CHANGE_ERRORS,
                "VOTER_ALREADY_REMOVED",
                "LAST_VOTER",
                "UNSUPPORTED_VERSION",
                "LAST_OF_ITS_ID",
                "REASSIGNMENT_PENDING",
            ),
        ),
        Route(
            "POST",
            "/v1/quorum/reassignment",
            reassign,
            "reassign",
            "Set the voters that the quorum is to have. The answer comes once the target "
            "is committed; the leader then changes the voters step by step.",
            ADMIN,
            json_body=ReassignRequest,
            response=ReassignmentAccepted,
            errors=(
                *_CHANGE_ERRORS,
                "UNSUPPORTED_VERSION",
                "NOT_AN_OBSERVER",
                "AMBIGUOUS_VOTER",
            ),
        ),
        Route(
            "POST",
            "/v1/quorum/reassignment/cancel",
            cancel_reassignment,
            "cancelReassignment",
            "Cancel a reassignment. The voters stay as they are now.",
            ADMIN,
            json_body=CancelReassignmentRequest,
            response=ReassignmentAccepted,
            errors=(*_CHANGE_ERRORS, "UNSUPPORTED_VERSION"),
        ),
        Route(
            "POST",
            "/v1/quorum/raft-version",
            upgrade,
            "upgrade",
            "Raise raft.version and wait for the commit; it is never lowered.",
            ADMIN,
            json_body=UpgradeRequest,
            response=RaftVersionInfo,
            errors=(
                "NOT_LEADER",
                "NODE_BLANK",
                "UNSUPPORTED_VERSION",
                "VERSION_NOT_LOWERED",
                "TOO_MANY_CHANGES",
                "WAITING",
                "SHUTTING_DOWN",
                "TIMED_OUT",
                "LEADERSHIP_LOST",
            ),
        ),
        Route(
            "POST",
            "/v1/quorum/resign",
            resign,
            "resign",
            "Transfer leadership to another voter. The answer comes once this node is no "
            "longer the leader.",
            RESIGN,
            json_body=ResignRequest,
            response=NodeInfo,
            errors=("NOT_LEADER", "NODE_BLANK", "NOT_CONFIRMED", "SHUTTING_DOWN"),
        ),
        Route(
            "POST",
            "/v1/form",
            form,
            "form",
            "Form a quorum on a blank node, with the voters that the request lists. A "
            "node does so once.",
            ADMIN,
            json_body=FormRequest,
            response=NodeInfo,
            errors=("ALREADY_FORMED", "NOT_LISTED", "SHUTTING_DOWN"),
        ),
        Route(
            "POST",
            "/v1/join",
            join,
            "join",
            "Join a blank node to a quorum as an observer: give it the cluster id.",
            ADMIN,
            json_body=JoinRequest,
            response=NodeInfo,
            errors=("ALREADY_FORMED", "SHUTTING_DOWN"),
        ),
    )
