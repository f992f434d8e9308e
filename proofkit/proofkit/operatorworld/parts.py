"""The parts of the model of a cluster (`world.py`): volumes, and pods with their processes."""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator.model.observation import ClaimRecord, ReplicaId

START_TICKS = 2
"""How long a process takes to start."""


@dataclass
class Disk:
    """A volume and its claim."""

    claim_uid: str
    owner_uid: str
    terminating: bool = False
    corrupt: bool = False
    directory_id: str | None = None
    incarnation: int = 0
    cluster_id: str | None = None
    log_end: int = 0
    base: tuple[ReplicaId, ...] = ()
    record: ClaimRecord | None = None
    requested_gib: int = 1
    """The size that the claim asks for."""
    capacity_gib: int = 1
    """The size of the volume."""
    version: int = 1
    """Of the claim: another one once either size changed."""


@dataclass
class Runner:
    """A pod and its process."""

    uid: str
    starts_in: int = START_TICKS
    exit_code: int | None = None
    restarts: int = 0
    terminating: bool = False
    unready_ticks: int = 0
    held_ticks: int = 0
    """The process cannot run for so long: its machine is away."""
    revision: int = 1
    """Of the template that it was made of."""
    version: int = 1
    """Another one once it started or ended."""
    placed: bool = False
    """It has a machine with room for it, until it ends."""

    @property
    def runs(self) -> bool:
        """Whether its API answers."""
        return self.placed and self.starts_in == 0 and self.held_ticks == 0 and not self.terminating
