"""`kraftquorum-pipeline audit`: compares the files of the replicas."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kraftquorum_pipeline.audit.engine import Engine, LocalEngine
from kraftquorum_pipeline.audit.findings import Verdict
from kraftquorum_pipeline.audit.render import verdict_lines
from kraftquorum_pipeline.audit.replica_files import ReplicaFiles, find_replicas
from kraftquorum_pipeline.audit.run import Audit
from kraftquorum_pipeline.commands.common import local_path, reporting, say
from kraftquorum_pipeline.commands.flags import SparkFlags
from kraftquorum_pipeline.errors import PipelineExitCode
from kraftquorum_pipeline.remote import open_files, path_of
from raftnode.flag_groups import with_flag_groups

_LOOKS_MAX = 3
"""Each may take hours."""

Paths = Annotated[
    list[Path],
    typer.Argument(
        parser=path_of,
        metavar="PATH|URI…",
        help="Data directories of the replicas of one quorum, or directories that hold some.",
        show_default=False,
    ),
]


@with_flag_groups
def run(
    paths: Paths,
    *,
    committed_end: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="OFFSET",
            help="The high watermark that the quorum last reported. A majority of the voters "
            "must have every record below it. Default: what the files prove committed.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--json",
            parser=local_path,
            metavar="FILE",
            help="Write the verdict as JSON to this file; `-` prints it.",
            show_default=False,
        ),
    ] = None,
    spark: SparkFlags,
    local: Annotated[
        bool, typer.Option("--local", help="Read in this process, without Spark and Java.")
    ] = False,
) -> None:
    """Compare the files of all replicas of a quorum.

    Exits with code 0 if no fault was found, 8 if one was found, and 9 if none was found but not
    everything could be checked. The quorum may run meanwhile, but a copy is better: records that
    one replica writes while another is read look like lag. If a node removes files, the audit
    reads them again a few times.
    """
    with reporting():
        engine = _engine(spark, local=local)
        verdict = _audit(paths, engine, committed_end)
        _write(verdict, output)
    code = {
        "ok": PipelineExitCode.OK,
        "incomplete": PipelineExitCode.INCOMPLETE,
        "damaged": PipelineExitCode.DIVERGED,
    }[verdict.word]
    raise typer.Exit(int(code))


def _audit(paths: list[Path], engine: Engine, committed_end: int | None) -> Verdict:
    """Audit the files; again if a running node removed some of them meanwhile.

    Raises:
        PipelineError: as the audit says; the last error if files are removed each time.
    """
    for looks_left in range(_LOOKS_MAX - 1, -1, -1):
        replicas = find_replicas(paths)
        try:
            return Audit(replicas, engine, committed_end, say).run()
        except Exception:
            if not _some_are_gone(replicas):
                raise
            if not looks_left:
                say("a running node removes files faster than the audit reads them: audit a copy")
                raise
            say("a running node removed some of the files: reading them again")
    raise AssertionError("the last look returns or raises")


def _some_are_gone(replicas: Sequence[ReplicaFiles]) -> bool:
    pieces = (piece.path for replica in replicas for piece in replica.pieces)
    snapshots = (path for replica in replicas for _, _, path in replica.snapshots)
    files = open_files()
    return any(files.stat(path_of(path)) is None for path in (*pieces, *snapshots))


def _engine(spark: SparkFlags, *, local: bool) -> Engine:
    spark.settings()  # fails before the work if a flag is wrong
    if local:
        return LocalEngine()
    from kraftquorum_pipeline.audit.spark import SparkEngine  # noqa: PLC0415 - needs PySpark

    say("starting Spark")
    return SparkEngine(spark.session("audit"))


def _write(verdict: Verdict, output: Path | None) -> None:
    text = json.dumps(verdict.as_json(), indent=2, ensure_ascii=False) + "\n"
    if str(output) == "-":
        sys.stdout.write(text)
        return
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    for line in verdict_lines(verdict):
        typer.echo(line)
