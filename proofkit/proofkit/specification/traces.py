"""Lets TLC say whether recorded traces are behaviours of the specification."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from proofkit.specification import tlc
from proofkit.specification.recorder import Step, Trace

INVARIANTS: Final = (
    "ElectionsAreSafe",
    "VotesAreSafe",
    "CommitsAreSafe",
    "DisksAreSafe",
)

_PLACE = re.compile(r"^/\\ (trace|at) = (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A trace that is no behaviour of the specification.

    Attributes:
        trace: which of those that were checked, counted from 0.
        step: which of its steps, counted from 0.
        reason: "deadlock" where no action permits the step, else the invariant that it breaks.
        said: the step.
        output: TLC's.
    """

    trace: int
    step: int
    reason: str
    said: Step
    output: str

    def __str__(self) -> str:
        """For a failed test."""
        what = "is not permitted" if self.reason == "deadlock" else f"breaks {self.reason}"
        return f"trace {self.trace}: step {self.step} {what}: {text(self.said)}"


def text(value: object) -> str:
    """A value in TLA+."""
    match value:
        case str():
            return f'"{value}"'
        case int():
            return str(value)
        case frozenset():
            return "{" + ", ".join(sorted(map(text, value))) + "}"
        case tuple() | list():
            return "<<" + ", ".join(map(text, value)) + ">>"
        case _:
            raise TypeError(value)


def check(traces: Sequence[Trace], *, invariants: Sequence[str] = INVARIANTS) -> Refusal | None:
    """The first trace that TLC does not take for a behaviour of the specification; None: all are.

    Raises:
        tlc.TlcError: TLC could not check them.
    """
    replicas = frozenset[object]().union(*(trace.replicas for trace in traces))
    lines = ["---- MODULE Recorded ----", "EXTENDS Trace"]
    for index, trace in enumerate(traces):
        lines.append(f"Steps{index} == <<")
        lines.append(",\n".join(map(text, trace.steps)))
        lines.append(">>")
        lines.append(
            f"Trace{index} == [formed |-> {text(frozenset(trace.formed))}, steps |-> Steps{index}]"
        )
    names = ", ".join(f"Trace{index}" for index in range(len(traces)))
    lines += [f"RecordedTraces == <<{names}>>", f"RecordedReplicas == {text(replicas)}"]
    lines += ["NoValues == {}", "===="]
    config = [
        "CONSTANT Replicas <- RecordedReplicas",
        "CONSTANT Values <- NoValues",
        "CONSTANT Traces <- RecordedTraces",
        "SPECIFICATION TraceSpec",
        "VIEW Place",
        *(f"INVARIANT {name}" for name in invariants),
    ]
    files = {
        "Recorded.tla": "\n".join(lines) + "\n",
        "Recorded.cfg": "\n".join(config) + "\n",
    }
    outcome = tlc.run("Recorded", files, deadlock=True)
    if outcome.violated is None:
        steps = sum(len(trace.steps) for trace in traces)
        assert outcome.states == steps + len(traces), (outcome.states, steps)
        return None
    places = dict(_PLACE.findall(outcome.behaviour.rpartition("\nState ")[2]))
    trace, at = int(places["trace"]) - 1, int(places["at"]) - 1
    step = at if outcome.violated == "deadlock" else at - 1
    steps = traces[trace].steps
    return Refusal(trace, step, outcome.violated, steps[step], outcome.output)
