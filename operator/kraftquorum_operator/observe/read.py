"""Reads the state of one quorum into an observation: the API server first, then the replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.clients.node_access import NodeAccess
from kraftquorum_operator.clients.nodes import NodeApi
from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.model.certificates import OPERATOR, Certificates, highest
from kraftquorum_operator.model.defaults import defaults_of
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.latch import read_latch
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation, Pod, StatefulSet
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import Condition, QuorumStatus, last_status
from kraftquorum_operator.observe.access import read_access
from kraftquorum_operator.observe.cert_manager import read_issued
from kraftquorum_operator.observe.certificates import read_certificates
from kraftquorum_operator.observe.cluster_domain import cluster_domain_of
from kraftquorum_operator.observe.deletion import (
    ObservedDeletion,
    is_being_deleted,
    read_deletion,
    reports_tls,
)
from kraftquorum_operator.observe.foreign import foreign_objects
from kraftquorum_operator.observe.kube import (
    counted_pods,
    now_utc,
    read_budget,
    read_claims,
    read_pods,
    read_statefulset,
)
from kraftquorum_operator.observe.last_known import last_known
from kraftquorum_operator.observe.node_image import next_image_of, node_image_of
from kraftquorum_operator.observe.objects import get_objects
from kraftquorum_operator.observe.quorum import (
    Silence,
    ask_leader,
    ask_nodes,
    read_node,
    read_quorum,
)
from kraftquorum_operator.observe.troubles import read_troubles, wants_events

EVENTS_S = 2.0
"""How long a reconciliation waits for the events of objects with a fault."""


INSTALLATION = Installation()


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts, with what is needed to compare, act and report."""

    spec: QuorumSpec
    observation: Observation
    owner: Owner
    resource: Body
    live: tuple[Body, ...]
    """The StatefulSet, the budget, the Services and the policy that are there, of any owner."""
    conditions: tuple[Condition, ...]
    """Of the last status, for their times."""
    reported_generation: int
    reported: QuorumStatus | None = None
    """The last status, for its times and its timeline."""
    next_image: str | None = None
    """The image that the nodes are to change to once it is the quorum's turn."""


async def observe(
    kube: KubeReader,
    nodes: NodeApi,
    namespace: str,
    name: str,
    *,
    silence: Silence,
    now_ms: int,
    installation: Installation = INSTALLATION,
) -> Observed | ObservedDeletion | None:
    """Read a quorum; None if the resource is gone, and less if it is being deleted.

    Args:
        kube: reads the objects.
        nodes: sends the requests to the replicas.
        namespace: of the resource.
        name: of the resource.
        silence: since when each replica has not answered; it is kept up to date.
        now_ms: monotonic clock.
        installation: of the operator; it has the defaults of a new quorum.

    Raises:
        KubeError: the API server did not answer all of it.
        ValueError: the latch is not one of ours.
    """
    resource = await kube.get(names.KIND, namespace, name)
    if resource is None:
        return None
    meta = resource["metadata"]
    owner = Owner(namespace, name, meta["uid"])
    if is_being_deleted(resource):
        return await read_deletion(kube, owner, resource)
    selector = f"{names.LABEL_APP}={names.APP},{names.LABEL_INSTANCE}={name}"
    pod_bodies, claim_bodies = await asyncio.gather(
        kube.list("Pod", namespace, selector), kube.list("PersistentVolumeClaim", namespace)
    )
    statefulset_body, latch, others = await get_objects(kube, owner)
    pods = read_pods(name, pod_bodies, now_utc())
    statefulset = read_statefulset(statefulset_body)
    own = statefulset is not None and statefulset.owner_uid == owner.uid
    claims = read_claims(name, claim_bodies, statefulset=statefulset if own else None)
    events = await _events(kube, namespace, name, wants_events(statefulset, pods, claims))
    spec = QuorumSpec.model_validate(resource["spec"])
    own_set, default = statefulset if own else None, installation.node_image
    next_image = next_image_of(spec, own_set, default)
    image, image_named = node_image_of(spec, own_set, default), spec.image is not None
    tls = spec.tls.chosen(defaults_of(statefulset, claims))
    spec = spec.model_copy(update={"image": image, "tls": tls})
    certificates, access, issued = await _certificates(
        kube, owner, resource, spec, (statefulset, pods)
    )
    permissions = await read_access(kube, owner, spec.access, pods)
    cluster_domain = cluster_domain_of(statefulset, claims, installation.cluster_domain)
    domain = names.domain(namespace, name, cluster_domain)
    token = permissions.operator_token
    tls_token = None if has_name(certificates, permissions.operator_uri) else token
    secure_nodes(nodes, owner, pods, access, token=token, tls_token=tls_token, domain=domain)
    infos = await ask_nodes(nodes, pods, domain)
    leader = await ask_leader(nodes, pods, infos)
    quorum = read_quorum(leader, silence, now_ms) if leader is not None else None
    live = tuple(body for body in (*others, *permissions.bodies, *issued) if body is not None)
    foreign = foreign_objects(owner, live)
    is_foreign = ObjectRef("PodDisruptionBudget", name) in dict(foreign)
    budget = None if is_foreign else read_budget(others[0], name)
    status = cast("dict[str, Any]", resource.get("status") or {})
    reported = last_status(resource)
    observation = Observation(
        namespace=namespace,
        name=name,
        uid=owner.uid,
        generation=int(meta["generation"]),
        cluster_domain=cluster_domain,
        statefulset=statefulset,
        pods=counted_pods(pods, budget),
        claims=claims,
        kubernetes=await kube.version() if statefulset_body is None else None,
        troubles=read_troubles(name, statefulset, pods, claims, events),
        nodes=tuple(read_node(infos[ordinal]) for ordinal in sorted(infos)),
        quorum=quorum,
        latch=read_latch(latch) if latch is not None else None,
        budget=budget,
        remembered_cluster_id=status.get("clusterId"),
        last=last_known(reported),
        refused=foreign,
        certificates=certificates,
        access=permissions.facts,
        image_named=image_named,
    )
    return Observed(
        spec=spec,
        observation=observation,
        owner=owner,
        resource=resource,
        live=(*live, statefulset_body) if statefulset_body is not None else live,
        conditions=tuple(reported.conditions) if reported else (),
        reported_generation=int(status.get("observedGeneration") or 0),
        reported=reported,
        next_image=next_image,
    )


async def _certificates(
    kube: KubeReader,
    owner: Owner,
    resource: Body,
    spec: QuorumSpec,
    running: tuple[StatefulSet | None, Sequence[Pod]],
) -> tuple[Certificates | None, NodeAccess | None, tuple[Body, ...]]:
    """The Secrets of a quorum, and the objects of cert-manager for it.

    None is read if neither the resource nor a pod has TLS, nor had it at the last status: until
    then Certificates of cert-manager may be left over.
    """
    statefulset, pods = running
    live = highest([*(pod.tls for pod in pods), *([statefulset.tls] if statefulset else [])])
    if spec.tls.mode == "Disabled" and live == "disabled" and not reports_tls(resource):
        return None, None, ()
    facts, access = await read_certificates(kube, owner, resource, spec.tls.secret_name)
    issued = await read_issued(kube, owner, spec.tls, facts)
    if issued.facts is not None:
        source = issued.source if spec.tls.mode == "CertManager" else facts.source
        facts = replace(facts, cert_manager=issued.facts, source=source)
    return facts, access, issued.bodies


def has_name(certificates: Certificates | None, uri: str | None) -> bool:
    """Whether nodes know the operator's certificate by a name; None: they know it by none.

    A certificate with a further URI may be another subject's for a node.
    """
    store = certificates.operator if certificates is not None else None
    leaf = store.leaf(OPERATOR) if store is not None else None
    return leaf is not None and leaf.uris == frozenset((uri,))


def secure_nodes(
    nodes: NodeApi,
    owner: Owner,
    pods: Sequence[Pod],
    access: NodeAccess | None,
    *,
    token: str | None = None,
    tls_token: str | None = None,
    domain: str,
) -> None:
    """Use TLS for the pods that speak it, each by its own name.

    A node that accepts both kinds gets plain requests only while the operator has no CA for it. A
    node without an access file ignores the token.

    Args:
        nodes: sends the requests.
        owner: the resource.
        pods: of the quorum.
        access: with TLS; None: the operator has no CA to trust them by.
        token: for pods that are reached without TLS.
        tls_token: for pods that are reached with TLS; None: they know the operator's certificate.
        domain: of the pods' names.
    """
    secured: dict[str, NodeAccess] = {}
    for pod in pods:
        if access is not None and pod.tls != "disabled":
            secure = replace(access, server_name=f"{pod.name}.{domain}", token=tls_token or "")
        elif token:
            secure = NodeAccess(token=token)
        else:
            continue
        if pod.address:
            secured[pod.api_address] = secure
    nodes.secure(f"{owner.namespace}/{owner.name}", secured)


async def _events(
    kube: KubeReader, namespace: str, name: str, wanted: list[tuple[str, str]]
) -> list[Body]:
    """Events of objects, if they can be read in time: only a report depends on them.

    The role may not allow it. Large clusters keep events in a separate etcd, which may be down or
    slow while the API server answers otherwise, and that must not delay a repair.
    """
    events: list[Body] = []
    with suppress(KubeError, TimeoutError):
        async with asyncio.timeout(EVENTS_S):
            for kind, of in wanted:
                fields = f"involvedObject.kind={kind},involvedObject.name={of or name}"
                events += await kube.list("Event", namespace, fields=fields)
    return events
