"""All targets by name."""

from __future__ import annotations

from proofkit.fuzz import files, kafka, session, wire
from proofkit.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*wire.TARGETS, *session.TARGETS, *files.TARGETS, *kafka.TARGETS)
}
