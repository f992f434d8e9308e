"""The operator's requests, as the API server's audit log has them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

OPERATOR_USER = "kraftquorum-operator"
"""The user of the operator's token."""

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [OPERATOR_USER]}, {"level": "None"}],
}


def arguments(policy: Path, log: Path) -> tuple[str, ...]:
    """Arguments of the API server that write the log; writes the policy."""
    policy.write_text(json.dumps(POLICY), encoding="utf-8")
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-maxsize=10000",
    )


Row = tuple[str, str]
"""Verb and resource, with `/subresource` if it is about that."""


@dataclass(slots=True)
class Requests:
    """The operator's requests in a part of the log.

    Attributes:
        counts: how many of each verb and resource; a watch counts when it begins.
        refused: how many had an answer of 400 and more, by its code.
        renewals: when the Lease was written, in seconds of the wall clock.
        seconds: how long the part lasted.
    """

    seconds: float
    counts: Counter[Row] = field(default_factory=Counter[Row])
    refused: Counter[int] = field(default_factory=Counter[int])
    renewals: list[float] = field(default_factory=list[float])

    @property
    def total(self) -> int:
        """All requests."""
        return sum(self.counts.values())

    def per_minute(self, quorums: int) -> dict[Row, float]:
        """Requests per quorum and minute, most first."""
        share = 60 / self.seconds / quorums
        return {row: count * share for row, count in self.counts.most_common()}


class AuditLog:
    """The log of one API server, read part by part."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def skip(self) -> None:
        """Begin a part here."""
        if self._path.exists():
            self._offset = self._path.stat().st_size

    def read(self, seconds: float) -> Requests:
        """The part since the last call.

        Args:
            seconds: how long it lasted.
        """
        requests = Requests(seconds)
        for event in self._events():
            _count(requests, event)
        return requests

    def _events(self) -> Iterator[dict[str, Any]]:
        with self._path.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # the API server is writing it
                self._offset += len(line)
                yield json.loads(line)


def _count(requests: Requests, event: dict[str, Any]) -> None:
    about: dict[str, Any] = event.get("objectRef") or {}
    answer: dict[str, Any] = event.get("responseStatus") or {}
    resource = str(about.get("resource") or event["requestURI"].partition("?")[0])
    if about.get("subresource"):
        resource += f"/{about['subresource']}"
    verb, stage = str(event["verb"]), event["stage"]
    if stage != ("ResponseStarted" if verb == "watch" else "ResponseComplete"):
        return
    requests.counts[verb, resource] += 1
    code = int(answer.get("code", 0))
    if code >= 400:
        requests.refused[code] += 1
    elif verb in {"update", "patch", "create"} and resource == "leases":
        at = datetime.fromisoformat(event["stageTimestamp"])
        requests.renewals.append(at.timestamp())


def longest_gap_s(renewals: Sequence[float]) -> float:
    """The longest time between two renewals of the Lease."""
    ordered = sorted(renewals)
    return max((b - a for a, b in itertools.pairwise(ordered)), default=0.0)
