"""All targets by name."""

from __future__ import annotations

from raftnode.testing.fuzz import files, wire
from raftnode.testing.fuzz.target import Target

TARGETS: dict[str, Target] = {target.name: target for target in (*wire.TARGETS, *files.TARGETS)}
