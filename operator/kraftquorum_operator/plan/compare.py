"""Compares the desired objects of a quorum with the live ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.judge.access import access_files, is_access_missing
from kraftquorum_operator.judge.certificates import (
    certificate_faults,
    certified_cluster_id,
    why_failing,
)
from kraftquorum_operator.judge.renewal import to_issue_again
from kraftquorum_operator.judge.scale_up import why_deferred
from kraftquorum_operator.judge.volume_growth import first_size, smallest_size
from kraftquorum_operator.model.access_facts import AccessFault
from kraftquorum_operator.model.config import default_of
from kraftquorum_operator.model.defaults import defaults_of
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.budget import pods_of_voters
from kraftquorum_operator.plan.issued import unwanted_certificates, wanted_certificates
from kraftquorum_operator.plan.tls_level import next_level
from kraftquorum_operator.resources.access_file import access_bodies
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.drift import has_drifted
from kraftquorum_operator.resources.metadata import stamped
from kraftquorum_operator.resources.node_config import node_config

INSTALLATION = Installation()


@dataclass(frozen=True, slots=True)
class Desired:
    """The objects as they should be, and how the live ones differ.

    Attributes:
        bodies: every object that goes with the resource.
        outdated: the objects to write; one without a body is to be deleted.
        config_faults: why a node would refuse the wanted settings, a sentence for each fault.
        certificates_failing: what is wrong with the certificates, as a reason and a sentence.
        access_faults: why no access file can be made of `spec.access`.
    """

    bodies: Mapping[ObjectRef, Body]
    outdated: tuple[ObjectRef, ...]
    config_faults: tuple[str, ...]
    certificates_failing: tuple[str, str] | None = None
    access_faults: tuple[AccessFault, ...] = ()

    def mark(self, facts: Observation) -> Observation:
        """The observation with what differs from the desired objects."""
        # An object of another owner is in the way only if the resource wants one of that name.
        refused = tuple(entry for entry in facts.refused if entry[0] in self.bodies)
        file = ObjectRef("Secret", names.access(facts.name))
        return replace(
            facts,
            outdated=self.outdated,
            config_faults=self.config_faults,
            certificates_failing=self.certificates_failing,
            access_faults=self.access_faults,
            access_written=file in self.bodies and file not in {*self.outdated, *dict(refused)},
            refused=refused,
        )


def compare(
    owner: Owner,
    spec: QuorumSpec,
    facts: Observation,
    live: Sequence[Body],
    installation: Installation = INSTALLATION,
) -> Desired:
    """Build the desired objects and compare the live ones with them.

    Args:
        owner: the resource.
        spec: the wanted state.
        facts: the observation.
        live: the live StatefulSet, budget, Services and policy, of any owner.
        installation: of the operator.
    """
    installation = replace(installation, cluster_domain=facts.cluster_domain)
    permissions, access_faults = _permissions(owner, spec, facts)
    made = _first_made(spec, facts)
    volume = _reserved_volume(spec, facts)
    config = replace(
        node_config(made, defaults_of(facts.statefulset, facts.claims), volume),
        access=access_files(spec, facts),
        access_missing=is_access_missing(spec, facts),
        tls=next_level(spec, facts),
        image_named=facts.image_named,
        tls_faults=certificate_faults(spec, facts),
    )
    live_by_ref = {ObjectRef.of(body): body for body in live}
    statefulset = live_by_ref.get(ObjectRef("StatefulSet", owner.name))
    counted = _counted_pods(facts)
    bodies = {
        **{ObjectRef.of(body): stamped(body) for body in permissions},
        **{ObjectRef.of(body): stamped(body) for body in wanted_certificates(owner, spec, facts)},
        **build(
            owner,
            made,
            _voters_in_force(facts),
            config,
            statefulset,
            installation,
            counted=counted or (),
            grows=why_deferred(facts, spec.voters) is None,
        ),
    }
    again = (
        ObjectRef("Certificate", names.issued(owner.name, name)) for name in to_issue_again(facts)
    )
    kept = set(dict(facts.refused))
    budget = ObjectRef("PodDisruptionBudget", owner.name)
    if (facts.quorum is None or counted is None) and budget in live_by_ref:
        # Without a leader the voters are a guess: the budget stays as it is (S22).
        kept.add(budget)
    return Desired(
        bodies,
        tuple(
            ref
            for ref in dict.fromkeys(
                (
                    *outdated_objects(bodies, live),
                    *(ref for ref in again if ref in bodies),
                    *_unwanted(bodies, live_by_ref),
                    *_left_over(unwanted_certificates(spec, facts), live_by_ref),
                )
            )
            if ref not in kept
        ),
        config.faults,
        why_failing(spec, facts),
        access_faults,
    )


def _first_made(spec: QuorumSpec, facts: Observation) -> QuorumSpec:
    """The spec with the size that the claims were first made with."""
    size = first_size(facts, spec.storage.size)
    return spec.model_copy(update={"storage": spec.storage.model_copy(update={"size": size})})


def _reserved_volume(spec: QuorumSpec, facts: Observation) -> str:
    """The size that a node's reserve is judged by: that of the smallest volume.

    A reserve that the pods have already is judged by the wanted size. The volume of a disk that was
    replaced begins with the first size, and must not have the settings in force refused.
    """
    name, statefulset = "disk_reserve_bytes", facts.statefulset
    if statefulset is not None:
        wanted = str(spec.config.get(name, default_of(name)))
        if dict(statefulset.settings).get(name, str(default_of(name))) == wanted:
            return spec.storage.size
    return smallest_size(facts, first_size(facts, spec.storage.size))


def _permissions(
    owner: Owner, spec: QuorumSpec, facts: Observation
) -> tuple[list[Body], tuple[AccessFault, ...]]:
    """The Secrets of access control, and why there is no new access file."""
    if spec.access is None or facts.access is None:
        return [], ()
    known = facts.latch.cluster_id if facts.latch else facts.remembered_cluster_id
    cluster_id = known if known is not None else certified_cluster_id(spec, facts)
    is_mounted = facts.statefulset is not None or bool(facts.pods)
    return access_bodies(owner, spec.access, facts.access, cluster_id, is_mounted=is_mounted)


def outdated_objects(
    bodies: Mapping[ObjectRef, Body], live: Iterable[Body]
) -> tuple[ObjectRef, ...]:
    """Objects to write: missing ones, those with another digest, and those that a client changed.

    A StatefulSet is created apart, so a missing one is not outdated.
    """
    live_by_ref = {ObjectRef.of(body): body for body in live}

    def is_outdated(ref: ObjectRef, wanted: Body) -> bool:
        present = live_by_ref.get(ref)
        if present is None:
            return ref.kind != "StatefulSet"
        annotations = cast("dict[str, str]", present["metadata"].get("annotations") or {})
        digest = wanted["metadata"]["annotations"][names.ANNOTATION_HASH]
        return annotations.get(names.ANNOTATION_HASH) != digest or has_drifted(wanted, present)

    return tuple(ref for ref, body in bodies.items() if is_outdated(ref, body))


def _unwanted(
    bodies: Mapping[ObjectRef, Body], live_by_ref: Mapping[ObjectRef, Body]
) -> Iterator[ObjectRef]:
    """A policy that the resource does not want any more, to delete."""
    for ref in live_by_ref:
        if ref.kind == "NetworkPolicy" and ref not in bodies:
            yield ref


def _left_over(
    unwanted: Collection[str], live_by_ref: Mapping[ObjectRef, Body]
) -> Iterator[ObjectRef]:
    """Certificates of cert-manager that nothing needs, and then their Secrets.

    While there is a Certificate, cert-manager would write its Secret again.
    """
    for ref in live_by_ref:
        certificate = ObjectRef("Certificate", ref.name)
        if ref.name in unwanted and (ref.kind == "Certificate" or certificate not in live_by_ref):
            yield ref


def _counted_pods(facts: Observation) -> tuple[str, ...] | None:
    """The pods that the disruption budget counts; `voters_counted` changes them. None: not known.

    A budget that is missing, or does not select pods by their names, counts all voters at once.
    """
    if facts.budget is not None and facts.budget.pods is not None:
        return facts.budget.pods
    return pods_of_voters(facts)


def _voters_in_force(facts: Observation) -> int:
    """How many voters the disruption budget counts; the last known set without a leader."""
    return len(facts.quorum.voters) if facts.quorum else len(facts.known_voters())
