"""Lets TLC say whether recorded traces are behaviours of the specification."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from proofkit.specification import tlc
from proofkit.specification.recorder import Step, Trace

_SAID = re.compile(r'^<<"(permitted|broken)", (\d+)(?:, "(\w+)")?>>$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A trace that is no behaviour of the specification.

    Attributes:
        trace: which of those that were checked, counted from 0.
        step: which of its steps, counted from 0.
        breaks: the property that does not hold after it; None: no action permits it.
        said: the step.
        before: the steps of the same replica before it, the last ones.
    """

    trace: int
    step: int
    breaks: str | None
    said: Step
    before: list[Step]

    def __str__(self) -> str:
        """For a failed test."""
        what = f"breaks {self.breaks}" if self.breaks else "is not permitted"
        lines = [f"trace {self.trace}: step {self.step} {what}: {text(self.said)}, after"]
        return "\n  ".join([*lines, *map(text, self.before)])


def text(value: object) -> str:
    """A value in TLA+."""
    match value:
        case str():
            return f'"{value}"'
        case int():
            return str(value)
        case frozenset():
            members = cast("frozenset[object]", value)
            return "{" + ", ".join(sorted(map(text, members))) + "}"
        case tuple() | list():
            members = cast("Sequence[object]", value)
            return "<<" + ", ".join(map(text, members)) + ">>"
        case _:
            raise TypeError(value)


def check(traces: Sequence[Trace]) -> Refusal | None:
    """The first trace that TLC does not take for a behaviour of the specification; None: all are.

    Raises:
        tlc.TlcError: TLC could not check them.
    """
    outcome = tlc.run("Recorded", _files(traces))
    if not outcome.complete:
        raise tlc.TlcError(outcome.output)
    said = _SAID.findall(outcome.output)
    permitted = {int(number) - 1 for what, number, _ in said if what == "permitted"}
    refused = sorted(set(range(len(traces))) - permitted)
    # A place of a trace is a state: TLC saw the first one and one after each permitted step.
    places = outcome.states - sum(len(traces[index].steps) + 1 for index in permitted)
    if not refused:
        assert places == 0, outcome.output
        return None
    index = refused[0]
    if len(refused) > 1:
        refusal = check([traces[index]])
        assert refusal is not None, outcome.output
        return replace(refusal, trace=index)
    steps, step = traces[index].steps, places - 1
    broken = next((name for what, _, name in said if what == "broken"), None)
    before = [other for other in steps[:step] if other[1] == steps[step][1]]
    return Refusal(index, step, broken, steps[step], before[-12:])


def _files(traces: Sequence[Trace]) -> dict[str, str]:
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
    ]
    return {
        "Recorded.tla": "\n".join(lines) + "\n",
        "Recorded.cfg": "\n".join(config) + "\n",
    }
