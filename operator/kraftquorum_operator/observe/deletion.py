"""A resource that is being deleted: the operator reads only what the deletion needs.

It sends no request to a node, and parses neither the whole spec nor the latch: a field of another
version, a damaged latch or a node that does not answer must not delay the deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.errors import NotFoundError, RefusedError
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import LeftIssued, PendingDeletion
from kraftquorum_operator.observe.cert_manager import issued_names
from kraftquorum_operator.observe.certificates import authority_uid, issued_pods
from kraftquorum_operator.observe.foreign import belongs_to
from kraftquorum_operator.observe.kube import read_claims, read_statefulset
from kraftquorum_operator.observe.objects import get_objects

ORPHAN = "orphan"
"""Kubernetes' finalizer for `kubectl delete --cascade=orphan`; the garbage collector takes the
owner references off the dependents before it takes this off."""


@dataclass(frozen=True, slots=True)
class ObservedDeletion:
    """The objects that the deletion may delete, and the resource as it was read."""

    owner: Owner
    resource: Body
    deletion: PendingDeletion


def is_being_deleted(resource: Body) -> bool:
    """Whether a resource is being deleted."""
    return "deletionTimestamp" in resource["metadata"]


def deletes_claims(resource: Body) -> bool:
    """Whether `spec.deletion.claims` is `Delete`; a value that cannot be parsed deletes no data."""
    spec: object = resource.get("spec")
    deletion = cast("Body", spec).get("deletion") if isinstance(spec, dict) else None
    return isinstance(deletion, dict) and cast("Body", deletion).get("claims") == "Delete"


def reports_tls(resource: Body) -> bool:
    """Whether the last status says that the quorum has TLS."""
    status: object = resource.get("status")
    return isinstance(status, dict) and bool(cast("Body", status).get("tls"))


def needs_finalizer(resource: Body) -> bool:
    """Whether owner references do not delete all that is to go with a resource.

    cert-manager makes no owner of the Secrets that it writes.
    """
    return deletes_claims(resource) or _asks_for_cert_manager(resource)


def _asks_for_cert_manager(resource: Body) -> bool:
    spec: object = resource.get("spec")
    tls = cast("Body", spec).get("tls") if isinstance(spec, dict) else None
    return isinstance(tls, dict) and cast("Body", tls).get("mode") == "CertManager"


async def _read_left(kube: KubeReader, owner: Owner) -> LeftIssued | None:
    """What cert-manager has of the quorum: its Certificates or, without any, their Secrets.

    Raises:
        KubeUnavailableError: the API server did not answer. What it refuses does not delay the
            deletion.
    """
    try:
        authority = await kube.get("Secret", owner.namespace, names.authority(owner.name))
        pods = issued_pods(authority) if authority is not None else 0
        if authority is None or not pods:
            return None
        for kind in ("Certificate", "Secret"):
            refs = [
                ObjectRef(kind, names.issued(owner.name, name))
                for name in issued_names(owner.name, pods)
            ]
            bodies = [await _get_left(kube, owner, ref) for ref in refs]
            left = tuple(
                (ref, str(body["metadata"]["uid"]))
                for ref, body in zip(refs, bodies, strict=True)
                if body is not None and belongs_to(owner, body) is not False
            )
            if left:
                return LeftIssued(authority["metadata"]["uid"], _version(authority), left)
        return LeftIssued(authority["metadata"]["uid"], _version(authority))
    except RefusedError:
        return None


def _version(body: Body) -> str:
    return str(body["metadata"]["resourceVersion"])


async def _get_left(kube: KubeReader, owner: Owner, ref: ObjectRef) -> Body | None:
    try:
        return await kube.get(ref.kind, owner.namespace, ref.name)
    except (RefusedError, NotFoundError):
        return None


async def read_deletion(kube: KubeReader, owner: Owner, resource: Body) -> ObservedDeletion:
    """Read what a deletion may delete; nothing if it keeps all objects.

    Raises:
        KubeError: the API server did not answer all of it.
    """
    if ORPHAN in cast("list[str]", resource["metadata"].get("finalizers") or []):
        return ObservedDeletion(owner, resource, PendingDeletion(owner.uid, orphaned=True))
    statefulset, latch, others = await get_objects(kube, owner)
    delete_claims = deletes_claims(resource)
    claims = await kube.list("PersistentVolumeClaim", owner.namespace) if delete_claims else []
    deletion = PendingDeletion(
        uid=owner.uid,
        orphaned=_is_released(owner, [statefulset] if statefulset is not None else others),
        delete_claims=delete_claims,
        statefulset=read_statefulset(statefulset),
        claims=read_claims(owner.name, claims),
        latched=latch is not None,
        authority_uid=await authority_uid(kube, owner) if delete_claims else None,
        issued=await _read_left(kube, owner)
        if _asks_for_cert_manager(resource) or reports_tls(resource)
        else None,
    )
    return ObservedDeletion(owner, resource, deletion)


def _is_released(owner: Owner, bodies: Iterable[Body | None]) -> bool:
    """Whether an object of ours has lost its owner: the garbage collector has orphaned it.

    The collector may be done, and its finalizer gone, before the operator reads the resource. The
    StatefulSet decides; if it was deleted, the Services and the budget do.
    """
    return any(body is not None and belongs_to(owner, body) is None for body in bodies)
