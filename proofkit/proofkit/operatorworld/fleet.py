"""Many healthy quorums at once: Kubernetes in memory, replicas that answer over real HTTP.

Each replica has its own address within 127.0.0.0/8, and all share one port, as pods do. One
aiohttp server answers for all of them, and tells them apart by the address.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from unittest.mock import patch

from aiohttp import web

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import LatchVoter, ReplicaId
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.latch import latch
from kraftquorum_operator.resources.metadata import selector
from kraftquorum_operator.resources.node_config import node_config
from raftnode.api.model import NodeInfo, NodeState, QuorumInfo, ReplicaProgress, VoterRecord
from raftnode.api.model import Replica as ApiReplica
from raftnode.core.types import format_directory_id

NAMESPACE = "fleet"
VOTERS = 3
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
CREATED = "2026-01-01T00:00:00Z"
EPOCH = 7


@dataclass(slots=True)
class Member:
    """One quorum of the fleet: three voters, the first of which leads."""

    number: int
    held: asyncio.Event | None = None
    """Its replicas answer once this is set; None: at once."""
    epoch: int = EPOCH
    changes: asyncio.Event = field(default_factory=asyncio.Event)
    """Its replicas answer a request that waits for a change once this is set."""
    contacts: set[asyncio.Transport] = field(default_factory=set[asyncio.Transport])
    """Connections of requests that wait for a change now."""
    in_contact: asyncio.Event = field(default_factory=asyncio.Event)
    """Every replica of it has such a request."""
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    """A replica of it has had a request."""

    @property
    def name(self) -> str:
        """Of the resource."""
        return f"q{self.number}"

    @property
    def owner(self) -> Owner:
        """The resource."""
        return Owner(NAMESPACE, self.name, f"uid-{self.name}")

    def address(self, ordinal: int) -> str:
        """Where the pod of an ordinal is."""
        return f"127.{64 + self.number // 250}.{self.number % 250 + 1}.{ordinal + 1}"

    def directory_id(self, ordinal: int) -> str:
        """Storage UUID of a replica."""
        return format_directory_id(uuid.UUID(int=(4 << 76) | (self.number << 8) | (ordinal + 1)))

    def replica(self, ordinal: int) -> ApiReplica:
        """A replica, as the API names it."""
        return ApiReplica(node_id=ordinal, directory_id=self.directory_id(ordinal))

    def node(self, ordinal: int) -> NodeInfo:
        """Return a replica's description of itself."""
        host = f"{names.pod(self.name, ordinal)}.{names.domain(NAMESPACE, self.name)}"
        return NodeInfo(
            node_id=ordinal,
            directory_id=self.directory_id(ordinal),
            incarnation=2,
            cluster_id=CLUSTER,
            role="leader" if ordinal == 0 else "follower",
            epoch=self.epoch,
            leader=self.replica(0),
            peer_endpoint=f"{host}:{names.PEER_PORT}",
            api_endpoint=f"{host}:{names.API_PORT}",
            log_start_offset=0,
            log_end_offset=100,
            durable_end_offset=100,
            high_watermark=100,
            voters=tuple(self.replica(n) for n in range(VOTERS)),
            caught_up=True,
            version="0",
        )

    def quorum(self) -> QuorumInfo:
        """Return the leader's description of the quorum."""
        return QuorumInfo(
            cluster_id=CLUSTER,
            leader=self.replica(0),
            epoch=self.epoch,
            high_watermark=100,
            log_end_offset=100,
            voters=tuple(self._progress(n) for n in range(VOTERS)),
            committed_voters=tuple(self.replica(n) for n in range(VOTERS)),
            voter_record=VoterRecord(offset=1, epoch=1),
            voter_record_committed=True,
            observers=(),
            pending_change=None,
            formation_completed=True,
            epoch_committed=True,
            confirmed=True,
        )

    def _progress(self, ordinal: int) -> ReplicaProgress:
        return ReplicaProgress(
            node_id=ordinal,
            directory_id=self.directory_id(ordinal),
            endpoint=None,
            acknowledged_offset=100,
            lag=0,
            last_fetch_age_ms=10 if ordinal else None,
            last_caught_up_age_ms=10 if ordinal else None,
            caught_up=True,
            fenced=False,
            incarnation=2,
        )

    def objects(self, spec: QuorumSpec) -> dict[tuple[str, str], Body]:
        """Return all its Kubernetes objects by kind and name, as the operator wants them."""
        owner = self.owner
        objects: dict[tuple[str, str], Body] = {}
        named = spec.image is not None
        config = replace(node_config(spec, names.DEFAULTS), image_named=named)
        counted = [names.pod(self.name, ordinal) for ordinal in range(VOTERS)]
        for body in build(owner, spec, VOTERS, config, counted=counted).values():
            body["metadata"] |= {"uid": f"{body['kind']}-{self.name}", "resourceVersion": "1"}
            objects[body["kind"], body["metadata"]["name"]] = body
        statefulset = objects["StatefulSet", self.name]
        statefulset["spec"]["replicas"] = VOTERS
        statefulset["status"] = {"updateRevision": "r1"}
        objects["PodDisruptionBudget", self.name]["status"] = {"expectedPods": VOTERS}
        for ordinal in range(VOTERS):
            claim = self._claim(ordinal)
            objects["PersistentVolumeClaim", claim["metadata"]["name"]] = claim
            uid = claim["metadata"]["uid"]
            statefulset["metadata"]["annotations"][f"{names.ANNOTATION_RECORDED}{ordinal}"] = (
                f"{self.directory_id(ordinal)} {uid}"
            )
            pod = self._pod(ordinal)
            objects["Pod", pod["metadata"]["name"]] = pod
        latched = tuple(
            LatchVoter(ReplicaId(n, self.directory_id(n)), self.node(n).peer_endpoint)
            for n in range(VOTERS)
        )
        objects["ConfigMap", names.latch(owner.uid)] = latch(owner, CLUSTER, latched, adopted=False)
        objects[names.KIND, self.name] = {
            "metadata": {
                "namespace": NAMESPACE,
                "name": self.name,
                "uid": owner.uid,
                "generation": 1,
            },
            "spec": spec.model_dump(by_alias=True, exclude_none=True, mode="json"),
        }
        return objects

    def _pod(self, ordinal: int) -> Body:
        labels = {"controller-revision-hash": "r1"}
        return {
            "kind": "Pod",
            "metadata": {
                "name": names.pod(self.name, ordinal),
                "uid": f"pod-{self.name}-{ordinal}",
                "creationTimestamp": CREATED,
                "labels": selector(self.owner) | labels,
                "resourceVersion": "1",
            },
            "status": {
                "phase": "Running",
                "podIP": self.address(ordinal),
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
                "containerStatuses": [
                    {"name": names.CONTAINER, "ready": True, "state": {"running": {}}}
                ],
            },
        }

    def _claim(self, ordinal: int) -> Body:
        uid = f"claim-{self.name}-{ordinal}"
        return {
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": names.claim(self.name, ordinal),
                "uid": uid,
                "labels": selector(self.owner) | {names.LABEL_OWNER_UID: self.owner.uid},
                "annotations": {
                    names.ANNOTATION_DIRECTORY_ID: self.directory_id(ordinal),
                    names.ANNOTATION_CLAIM_UID: uid,
                },
            },
            "spec": {"volumeName": f"volume-{self.name}-{ordinal}"},
            "status": {"phase": "Bound"},
        }


@dataclass
class FleetKube:
    """The part of `KubeClient` that the reconciliation of a healthy quorum needs."""

    fleet: Fleet
    fails: Exception | None = None
    """Raised for every read but that of the resource itself."""

    async def get(self, kind: str, _namespace: str, name: str) -> Body | None:
        """Read an object."""
        await asyncio.sleep(0)
        if self.fails is not None and kind != names.KIND:
            raise self.fails
        return self.fleet.objects.get((kind, name))

    async def list(
        self, kind: str, _namespace: str, selector: str = "", *, fields: str = ""
    ) -> list[Body]:
        """Read the objects of a kind; of one quorum, if a selector says which."""
        del fields
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        wanted = dict(part.split("=") for part in selector.split(",") if part)
        return [
            body
            for (of, _), body in self.fleet.objects.items()
            if of == kind and wanted.items() <= body["metadata"].get("labels", {}).items()
        ]

    async def apply(self, body: Body, subresource: str = "") -> Body:
        """Take a status."""
        if subresource != "status":
            msg = f"nothing else is to be written to a healthy quorum: {body}"
            raise AssertionError(msg)
        self.fleet.report(body["metadata"]["name"], body["status"])
        return body

    async def patch(self, _kind: str, _namespace: str, name: str, **given: Any) -> Body:
        """Merge a change into a status."""
        resource = self.fleet.objects[names.KIND, name]
        status = cast("Body", resource.get("status") or {})
        self.fleet.report(name, status | given["change"]["status"])
        return resource

    async def version(self) -> tuple[int, int]:
        """Of the API server."""
        return (1, 34)


@dataclass
class Fleet:
    """Quorums, and the statuses that were reported of each."""

    size: int
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    objects: dict[tuple[str, str], Body] = field(default_factory=dict[tuple[str, str], Body])
    statuses: dict[str, list[Body]] = field(default_factory=dict[str, list[Body]])
    by_address: dict[str, tuple[Member, int]] = field(default_factory=dict[str, tuple[Member, int]])

    def __post_init__(self) -> None:
        for number in range(self.size):
            member = Member(number)
            self.members[member.name] = member
            self.by_address |= {member.address(n): (member, n) for n in range(VOTERS)}

    @property
    def kube(self) -> Any:
        """Kubernetes with the fleet on it."""
        return FleetKube(self)

    def report(self, name: str, status: Body) -> None:
        """Note a status that was written."""
        self.objects[names.KIND, name]["status"] = status
        self.statuses.setdefault(name, []).append(status)

    def conditions(self, name: str) -> list[dict[str, Body]]:
        """The conditions of every status that was written of a quorum, by type."""
        return [{c["type"]: c for c in s["conditions"]} for s in self.statuses.get(name, [])]

    async def _answer(self, request: web.Request, what: str) -> web.Response:
        transport = request.transport
        if transport is None:
            raise web.HTTPServiceUnavailable
        member, ordinal = self.by_address[transport.get_extra_info("sockname")[0]]
        member.was_asked.set()
        if member.held is not None:
            await member.held.wait()
        answer = member.node(ordinal) if what == "node" else member.quorum()
        return web.Response(body=answer.model_dump_json(), content_type="application/json")

    async def _wait_for_change(self, request: web.Request) -> web.Response:
        transport = cast("asyncio.Transport", request.transport)
        member, _ = self.by_address[transport.get_extra_info("sockname")[0]]
        if request.query["known"] == str(member.epoch):
            member.contacts.add(transport)
            if len(member.contacts) == VOTERS:
                member.in_contact.set()
            try:
                await member.changes.wait()
            finally:
                member.contacts.discard(transport)
                member.in_contact.clear()
        answer = NodeState(state=str(member.epoch))
        return web.Response(body=answer.model_dump_json(), content_type="application/json")

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answer for all replicas at a free port, which becomes the pods' port."""

        async def node(request: web.Request) -> web.Response:
            return await self._answer(request, "node")

        async def quorum(request: web.Request) -> web.Response:
            return await self._answer(request, "quorum")

        app = web.Application()
        app.add_routes([web.get("/v1/node", node), web.get("/v1/quorum", quorum)])
        app.add_routes([web.get("/v1/node/state", self._wait_for_change)])
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "0.0.0.0", 0, backlog=1024)
            await site.start()
            with patch.object(names, "API_PORT", int(runner.addresses[0][1])):
                spec = QuorumSpec.model_validate(
                    {"voters": VOTERS, "image": "node:1", "tls": {"mode": "Disabled"}}
                )
                for member in self.members.values():
                    self.objects |= member.objects(spec)
                yield
        finally:
            await runner.cleanup()
