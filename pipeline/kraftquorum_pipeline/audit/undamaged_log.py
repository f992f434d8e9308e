"""Builds the undamaged log of a quorum from the files of its replicas.

`compact` and `restore-check` begin with it. It chooses the ranges of replicas' logs, and the
snapshot before them, that make up the log up to an offset. It never uses damaged files, nor
records in which the replicas differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_pipeline.errors import CorruptError, OptionError

from .engine import Engine
from .findings import Check, Verdict
from .replica_files import find_replicas
from .run import Audit
from .states import Stretch, cover


@dataclass(frozen=True, slots=True)
class UndamagedLog:
    """The log up to an offset.

    Attributes:
        stretches: the ranges, in order of offset.
        base: the snapshot at which the ranges begin; None: they begin at offset 0.
        end: one past the last offset.
        verdict: the verdict of the audit that chose the ranges.
    """

    stretches: tuple[Stretch, ...]
    base: str | None
    end: int
    verdict: Verdict


def undamaged_log(
    paths: Sequence[Path],
    engine: Engine,
    end: int | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> UndamagedLog:
    """Audit the replicas and choose the files from which to read the log up to an offset.

    Args:
        paths: the paths of the replicas.
        engine: the engine that reads the files.
        end: one past the last offset; None: all that is committed, as far as the files prove it.
        say: called with each step.

    Raises:
        OptionError: nothing is committed up to that offset.
        CorruptError: no undamaged log reaches that offset, or the replicas have two logs.
    """
    audit = Audit(find_replicas(list(paths)), engine, say=say)
    verdict = audit.run()
    wanted = verdict.committed_end if end is None else end
    source = ", ".join(map(str, paths))
    if wanted > verdict.committed_end:
        raise OptionError(
            f"{source}: offset {wanted} is above {verdict.committed_end}, up to which the "
            "files prove the log committed"
        )
    if (
        end is None
        and not wanted
        and any(replica["end_offset"] for replica in verdict.replicas.values())
    ):
        raise OptionError(
            f"{source}: the files prove no record committed; give the directories of all voters"
        )
    forked = [
        finding
        for finding in verdict.findings
        if finding.check in {Check.LOG_MATCHING, Check.COMMITTED_PREFIX}
        and finding.place.offset < wanted
    ]
    if forked:
        raise CorruptError(source, forked[0].reason, forked[0].place.offset)
    broken = {
        finding.place.file for finding in verdict.findings if finding.check is Check.SNAPSHOTS
    }
    snapshots = sorted(
        (
            (stop, path)
            for replica in audit.replicas
            for stop, _, path in replica.snapshots
            if stop <= wanted and path not in broken
        ),
        reverse=True,
    )
    for start, path in [*snapshots, (0, None)]:
        stretches = cover(audit.extents, audit.ends, start, wanted)
        if stretches is not None:
            return UndamagedLog(tuple(stretches), path, wanted, verdict)
    first = verdict.findings[0].place.offset if verdict.findings else None
    raise CorruptError(source, f"no undamaged log leads to offset {wanted}", first)
