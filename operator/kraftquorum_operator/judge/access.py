"""Access control: which files the nodes get, and why that is not as wanted. Pure."""

from __future__ import annotations

from kraftquorum_operator.model.access_facts import AccessFiles
from kraftquorum_operator.model.observation import Observation, Trouble
from kraftquorum_operator.model.spec import QuorumSpec

FAULTS_SHOWN = 5


def access_files(spec: QuorumSpec, observation: Observation) -> AccessFiles | None:
    """The files that the pods mount; None: none are wanted, or none are there."""
    if spec.access is None or observation.access is None:
        return None
    return observation.access.files


def is_access_missing(spec: QuorumSpec, observation: Observation) -> bool:
    """Whether the nodes' Secret lacks a file that the pods are to mount.

    A pod could not start without it, so the template waits.
    """
    if spec.access is None:
        return False
    files = access_files(spec, observation)
    accounts = any(client.service_account is not None for client in spec.access.clients)
    return files is None or (accounts and files.keys is None)


def access_obstacle(observation: Observation) -> tuple[str, str] | None:
    """Why not every node has the access file that is wanted, as a reason and a sentence."""
    facts = observation.access
    if facts is None:
        return None
    if observation.access_faults:
        shown = [str(fault) for fault in observation.access_faults[:FAULTS_SHOWN]]
        if len(observation.access_faults) > FAULTS_SHOWN:
            shown.append(f"and {len(observation.access_faults) - FAULTS_SHOWN} more")
        kept = "the previous access file stays in force" if facts.files else "there is none yet"
        return observation.access_faults[0].reason, f"{'; '.join(shown)}; {kept}"
    if not observation.access_written:
        return "NotWritten", "the operator has not written the access file yet"
    # A pod that is being deleted answers until its process ends.
    unguarded = [pod.name for pod in observation.pods if not pod.guarded]
    if unguarded:
        return (
            "RollingOut",
            f"{', '.join(unguarded)}: allows every request until the pod has restarted",
        )
    return None


def access_alarms(observation: Observation) -> tuple[Trouble, ...]:
    """The entries that cannot be used, for events."""
    return tuple(
        Trouble(0, fault.field, fault.reason, fault.message) for fault in observation.access_faults
    )
