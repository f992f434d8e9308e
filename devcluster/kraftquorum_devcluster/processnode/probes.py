"""Probe arithmetic: thresholds and what follows from them. No I/O, no clock."""

import enum
from dataclasses import dataclass
from typing import Any


class ProbeKind(enum.Enum):
    """The three probes of a container, by the name of their field."""

    STARTUP = "startupProbe"
    READINESS = "readinessProbe"
    LIVENESS = "livenessProbe"


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """Timing of a probe, with Kubernetes' defaults. Times in seconds."""

    initial_delay_s: float = 0
    period_s: float = 10
    timeout_s: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> "ProbeSettings":
        """Read the fields of a probe."""
        return cls(
            initial_delay_s=float(spec.get("initialDelaySeconds") or 0),
            period_s=float(spec.get("periodSeconds") or 10),
            timeout_s=float(spec.get("timeoutSeconds") or 1),
            success_threshold=int(spec.get("successThreshold") or 1),
            failure_threshold=int(spec.get("failureThreshold") or 3),
        )


class ProbeState:
    """Counts results in a row and says whether the probe holds.

    Attributes:
        holds: True once ``success_threshold`` results in a row were good, False
            once ``failure_threshold`` were bad, None before either.
    """

    def __init__(self, settings: ProbeSettings) -> None:
        self._settings = settings
        self._successes = 0
        self._failures = 0
        self.holds: bool | None = None

    def observe(self, *, success: bool) -> bool:
        """Count a result; returns whether `holds` changed."""
        before = self.holds
        if success:
            self._successes += 1
            self._failures = 0
            if self._successes >= self._settings.success_threshold:
                self.holds = True
        else:
            self._failures += 1
            self._successes = 0
            if self._failures >= self._settings.failure_threshold:
                self.holds = False
        return self.holds is not before


class ProbeSchedule:
    """When to ask, and which failures count.

    Until the first success a probe is asked every ``eager_period_s`` at most,
    but a failure counts only once a full period has passed since the last one
    that counted: the pod is ready sooner and given up no earlier.
    """

    def __init__(self, settings: ProbeSettings, eager_period_s: float) -> None:
        self._settings = settings
        self._eager_period_s = min(eager_period_s, settings.period_s)
        self._succeeded = False
        self._counted_at_s = settings.initial_delay_s - settings.period_s

    def counts(self, elapsed_s: float, *, success: bool) -> bool:
        """Whether a result at ``elapsed_s`` after the start is counted."""
        if success:
            self._succeeded = True
            return True
        due = self._counted_at_s + self._settings.period_s
        if self._succeeded or elapsed_s >= due:
            self._counted_at_s = elapsed_s
            return True
        return False

    @property
    def delay_s(self) -> float:
        """Seconds until the next question."""
        return self._settings.period_s if self._succeeded else self._eager_period_s
