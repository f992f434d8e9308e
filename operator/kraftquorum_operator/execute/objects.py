"""Actions on Kubernetes objects: each by UID or resourceVersion (S21)."""

from __future__ import annotations

from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError, KubeError, RefusedError
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.judge.leaves import moment
from kraftquorum_operator.judge.renewal import to_issue_again
from kraftquorum_operator.model.objects import Body, ObjectRef
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.observe.foreign import belongs_to
from kraftquorum_operator.observe.kube import now_utc, with_note
from kraftquorum_operator.plan.actions import (
    ApplyObjects,
    CountPod,
    CreateStatefulSet,
    DeleteClaim,
    DeleteLatch,
    DeletePod,
    DeleteStatefulSet,
    EvictPod,
    GrowClaim,
    RecordClaims,
    RecountBudget,
    SetClaimOwner,
    SetReplicas,
)
from kraftquorum_operator.resources.cert_manager import issue_again
from kraftquorum_operator.resources.disruption import with_pods
from kraftquorum_operator.resources.drift import (
    CLASHING,
    change_before_apply,
    has_drifted,
    statefulset_change,
)
from kraftquorum_operator.resources.metadata import selector


async def apply_objects(action: ApplyObjects, tools: Tools) -> str:
    """Write missing, outdated and changed objects; of the StatefulSet only what may change.

    It deletes an object that it has no body for.

    An object that cannot be written does not keep the operator from writing the others.

    Raises:
        KubeError: the first error, after all objects were tried.
    """
    failed: list[KubeError] = []
    for ref in action.objects:
        try:
            if ref in tools.bodies:
                await _apply(tools.bodies[ref], tools)
            else:
                await _remove(ref, tools)
        except KubeError as error:
            failed.append(error)
    if failed:
        raise failed[0]
    return ", ".join(map(str, action.objects))


async def _apply(body: Body, tools: Tools) -> None:
    """Write one object.

    Raises:
        RefusedError: it is not as wanted even now, and the next write would change nothing.
    """
    kind, name = body["kind"], body["metadata"]["name"]
    if kind == "StatefulSet":
        written = await _patch_statefulset(body, tools)
        if written is None:
            return
    else:
        if kind in CLASHING:
            await _make_room(body, tools)
        written = await tools.kube.apply(body)
    if has_drifted(body, written):
        raise _not_kept(ObjectRef.of(body))
    if kind == "Certificate":
        again = (names.issued(tools.owner.name, part) for part in to_issue_again(tools.observation))
        if name in again:
            if not _is_marked(body, written):
                # Each observation would find a new renewal, and have the certificate issued again.
                raise _not_kept(ObjectRef.of(body))
            now = moment(int(now_utc().timestamp()))
            await tools.kube.apply(issue_again(written, now), "status")


async def _patch_statefulset(body: Body, tools: Tools) -> Body | None:
    """Patch the StatefulSet that was observed; None: there is none."""
    namespace, name = tools.owner.namespace, body["metadata"]["name"]
    statefulset = tools.observation.statefulset
    live = await tools.kube.get("StatefulSet", namespace, name)
    if statefulset is None or live is None:
        return None
    change = statefulset_change(body, live)
    return await tools.kube.patch(
        "StatefulSet", namespace, name, uid=statefulset.uid, change=change
    )


async def _make_room(body: Body, tools: Tools) -> None:
    """Take away what the API server would refuse beside an apply."""
    kind, namespace, name = body["kind"], tools.owner.namespace, body["metadata"]["name"]
    live = await tools.kube.get(kind, namespace, name)
    change = change_before_apply(body, live) if live is not None else None
    if live is not None and change is not None:
        await tools.kube.patch(kind, namespace, name, uid=live["metadata"]["uid"], change=change)


def _is_marked(body: Body, written: Body) -> bool:
    """Whether a Certificate has the operator's annotations."""
    kept = cast("Body", written["metadata"].get("annotations") or {})
    return body["metadata"]["annotations"].items() <= kept.items()


def _not_kept(ref: ObjectRef) -> RefusedError:
    what = (
        f"{ref} differs from what the operator has just written: another client or "
        "an admission webhook changes it; stop it"
    )
    return RefusedError(200, "NotKept", what)


async def _remove(ref: ObjectRef, tools: Tools) -> None:
    """Delete an object of this resource, by the UID that it has now; keep another owner's."""
    live = await tools.kube.get(ref.kind, tools.owner.namespace, ref.name)
    if live is not None and belongs_to(tools.owner, live) is not False:
        await _delete(ref.kind, ref.name, live["metadata"]["uid"], tools)


async def create_statefulset(action: CreateStatefulSet, tools: Tools) -> str:
    """Create the StatefulSet; an existing one stays as it is."""
    body = tools.bodies[ObjectRef("StatefulSet", tools.owner.name)]
    body = body | {"spec": body["spec"] | {"replicas": action.replicas}}
    try:
        await tools.kube.create(body)
    except ConflictError:
        return "it exists already"
    return f"with {action.replicas} replicas"


async def set_replicas(action: SetReplicas, tools: Tools) -> str:
    """Change the replicas, if no other client changed the StatefulSet since it was observed."""
    deferral = action.deferral
    note = f"{deferral.revision} {deferral.why}" if deferral is not None else None
    await tools.kube.patch(
        "StatefulSet",
        tools.owner.namespace,
        tools.owner.name,
        uid=action.uid,
        change={
            "metadata": {
                "resourceVersion": action.resource_version,
                "annotations": {names.ANNOTATION_SCALE_UP_DEFERRED: note},
            },
            "spec": {"replicas": action.replicas},
        },
    )
    return f"to {action.replicas}"


async def count_pod(action: CountPod, tools: Tools) -> str:
    """Change which pods the budget selects, if no other client changed it since it was observed."""
    budget = tools.observation.budget
    if budget is None:
        return "there is no budget"
    listed = [name for name in budget.pods or () if name != action.pod]
    listed += [action.pod] if action.voter else []
    body = with_pods(tools.bodies[ObjectRef("PodDisruptionBudget", tools.owner.name)], listed)
    annotations = body["metadata"]["annotations"]
    await tools.kube.patch(
        "PodDisruptionBudget",
        tools.owner.namespace,
        tools.owner.name,
        uid=budget.uid,
        change={
            "metadata": {"resourceVersion": action.version, "annotations": annotations},
            # A foreign `maxUnavailable` would be refused beside ours.
            "spec": body["spec"] | {"maxUnavailable": None},
        },
    )
    return f"{'on' if action.voter else 'off'} pod {action.pod}"


async def recount_budget(action: RecountBudget, tools: Tools) -> str:
    """Change an annotation of the budget: any change makes its controller count."""
    await tools.kube.patch(
        "PodDisruptionBudget",
        tools.owner.namespace,
        tools.owner.name,
        uid=action.uid,
        change={"metadata": {"annotations": {names.ANNOTATION_RECOUNT: action.mark}}},
    )
    return f"for {action.mark}"


async def set_claim_owner(action: SetClaimOwner, tools: Tools) -> str:
    """Mark an adopted claim as created for this resource."""
    await tools.kube.patch(
        "PersistentVolumeClaim",
        tools.owner.namespace,
        action.claim,
        uid=action.uid,
        change={
            "metadata": {"labels": selector(tools.owner) | {names.LABEL_OWNER_UID: tools.owner.uid}}
        },
    )
    return action.claim


async def record_claims(action: RecordClaims, tools: Tools) -> str:
    """Record each claim on itself, by its UID, then all of them on the StatefulSet."""
    for name, _, record in action.claims:
        annotations = {
            names.ANNOTATION_DIRECTORY_ID: record.directory_id,
            names.ANNOTATION_CLAIM_UID: record.claim_uid,
        }
        await tools.kube.patch(
            "PersistentVolumeClaim",
            tools.owner.namespace,
            name,
            uid=record.claim_uid,
            change={"metadata": {"annotations": annotations}},
        )
    recorded = {
        f"{names.ANNOTATION_RECORDED}{ordinal}": f"{record.directory_id} {record.claim_uid}"
        for _, ordinal, record in action.claims
    }
    await tools.kube.patch(
        "StatefulSet",
        tools.owner.namespace,
        tools.owner.name,
        uid=action.statefulset_uid,
        change={"metadata": {"annotations": recorded}},
    )
    return ", ".join(f"{name}: {record.directory_id}" for name, _, record in action.claims)


async def grow_claim(action: GrowClaim, tools: Tools) -> str:
    """Have a claim ask for more, if it is as it was observed.

    Raises:
        RefusedError: it asks for less even now, and the next request would change nothing.
    """
    written = await tools.kube.patch(
        "PersistentVolumeClaim",
        tools.owner.namespace,
        action.claim,
        uid=action.uid,
        change={
            "metadata": {"resourceVersion": action.version},
            "spec": {"resources": {"requests": {"storage": action.size}}},
        },
    )
    kept = cast("dict[str, object]", written["spec"]["resources"]["requests"])
    if size_bytes(str(kept["storage"])) < size_bytes(action.size):
        raise _not_kept(ObjectRef("PersistentVolumeClaim", action.claim))
    return f"{action.claim} to {action.size}"


async def _delete(
    kind: str, name: str, uid: str, tools: Tools, *, version: str | None = None
) -> str:
    tools.failpoints.before_delete()
    try:
        await tools.kube.delete(kind, tools.owner.namespace, name, uid=uid, version=version)
    except ConflictError:
        changed = "has changed meanwhile" if version else "was recreated meanwhile"
        return f"{name} {changed} and is kept"
    return name


async def delete_claim(action: DeleteClaim, tools: Tools) -> str:
    """Delete the claim that was observed, never a new claim of the same name.

    Raises:
        KubeError: also if a claim to give up cannot be recorded first; the claim stays then.
    """
    if action.gives_up is not None:
        await _note_given_up(action.gives_up, action.uid, tools)
    done = await _delete("PersistentVolumeClaim", action.claim, action.uid, tools)
    return f"{done}: {action.reason}"


async def _note_given_up(ordinal: int, claim_uid: str, tools: Tools) -> None:
    """Record on the current StatefulSet which claim is given up and when."""
    namespace, name = tools.owner.namespace, tools.owner.name
    body = await tools.kube.get("StatefulSet", namespace, name)
    if body is None:
        return
    meta, key = body["metadata"], f"{names.ANNOTATION_GIVEN_UP}{ordinal}"
    value = cast("dict[str, str]", meta.get("annotations") or {}).get(key, "")
    claim, statefulset = tools.observation.claim(ordinal), tools.observation.statefulset
    last = statefulset.record(ordinal) if statefulset is not None else None
    recorded = (claim is not None and claim.record is not None) or (
        last is not None and last.claim_uid == claim_uid
    )
    noted = with_note(value, claim_uid, unused=not recorded, now=now_utc())
    change = {"metadata": {"resourceVersion": meta["resourceVersion"], "annotations": {key: noted}}}
    await tools.kube.patch("StatefulSet", namespace, name, uid=meta["uid"], change=change)


async def delete_pod(action: DeletePod, tools: Tools) -> str:
    """Delete the pod that was observed, never its successor.

    With a version it also spares a pod that has changed since, such as one that has started.
    """
    done = await _delete("Pod", action.pod, action.uid, tools, version=action.version)
    return f"{done}: {action.reason}"


async def evict_pod(action: EvictPod, tools: Tools) -> str:
    """Evict the pod that was observed, never its successor.

    Raises:
        KubeError: with status 429 if the disruption budget does not allow it now.
    """
    tools.failpoints.before_delete()
    try:
        await tools.kube.evict(tools.owner.namespace, action.pod, uid=action.uid)
    except ConflictError:
        return f"{action.pod} was recreated meanwhile and is kept"
    return f"{action.pod}: {action.reason}"


async def delete_statefulset(action: DeleteStatefulSet, tools: Tools) -> str:
    """Delete the StatefulSet; its pods follow in the background."""
    return await _delete("StatefulSet", tools.owner.name, action.uid, tools)


async def delete_latch(action: DeleteLatch, tools: Tools) -> str:
    """Delete the latch, once no claim is left that it protects."""
    name = names.latch(action.resource_uid)
    configmap = await tools.kube.get("ConfigMap", tools.owner.namespace, name)
    if configmap is None:
        return name
    return await _delete("ConfigMap", name, configmap["metadata"]["uid"], tools)
