"""The KRaftQuorum as the API server has it: what any user of `kubectl` sees."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Resource:
    """The KRaftQuorum as the API server has it; only what the demo shows."""

    generation: int = 0
    observed_generation: int = 0
    voters_wanted: int = 0
    phase: str = ""
    replicas: int = 0
    action: str = ""
    waiting_for: str = ""
    message: str = ""

    @classmethod
    def of(cls, body: dict[str, Any]) -> "Resource":
        """Read the object."""
        status: dict[str, Any] = body.get("status") or {}
        return cls(
            generation=int(body["metadata"]["generation"]),
            observed_generation=int(status.get("observedGeneration", 0)),
            voters_wanted=int(body["spec"].get("voters", 0)),
            phase=str(status.get("phase", "")),
            replicas=int(status.get("replicas", 0)),
            action=str(status.get("currentAction") or ""),
            waiting_for=str(status.get("waitingFor") or ""),
            message=_from_here(str(status.get("message", ""))),
        )

    @property
    def doing(self) -> str:
        """What the operator does, in a line: its action, or the guard that it waits on."""
        if self.waiting_for:
            return f"waits on {self.waiting_for}: {self.message}"
        return self.action or self.message or "has not looked yet"

    @property
    def settled(self) -> bool:
        """Whether the operator has seen the newest spec and has nothing left to do."""
        return self.phase == "Running" and self.observed_generation == self.generation


def _from_here(text: str) -> str:
    """Paths in a text as people want to read them: from here, if they lie below."""
    return text.replace(f"{Path.cwd()}/", "")
