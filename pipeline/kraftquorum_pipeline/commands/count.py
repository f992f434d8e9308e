"""`kraftquorum-pipeline count`: compares an export with a client's own account of its writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

from kraftquorum_pipeline.commands.common import (
    AsJson,
    local_path,
    print_json,
    reporting,
)
from kraftquorum_pipeline.commands.flags import SparkFlags
from kraftquorum_pipeline.errors import OptionError, PipelineExitCode
from kraftquorum_pipeline.jobs.count import Counted, count
from kraftquorum_pipeline.report.figures import clusters, read_export
from raftnode.flag_groups import with_flag_groups


@with_flag_groups
def run(
    export: Annotated[
        str, typer.Argument(metavar="EXPORT", help="The directory that `export` wrote to.")
    ],
    writes: Annotated[
        Path,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="The client's account: one JSON object per line (docs/howto/audit.md).",
        ),
    ],
    *,
    cluster_id: Annotated[
        str | None, typer.Option(help="The cluster, if the export holds several.")
    ] = None,
    spark: SparkFlags,
    as_json: AsJson = False,
) -> None:
    """Count the acknowledged writes that are missing or duplicated.

    The account must be of the only client that wrote. Exits with code 8 if a write is missing or
    duplicated.
    """
    with reporting():
        session = spark.session("count")
        try:
            table = read_export(session, export)
            there = clusters(table)
            chosen = cluster_id or there[0]
            if chosen not in there or (cluster_id is None and len(there) > 1):
                raise OptionError(
                    f"--cluster-id is not given: {export} holds "
                    f"{', '.join(there)}; give one of them"
                )
            counted = count(session, table.where(F.col("cluster_id") == chosen), writes)
        finally:
            session.stop()
    if as_json:
        print_json(counted.as_json())
    else:
        for line in count_lines(counted):
            typer.echo(line)
    raise typer.Exit(int(PipelineExitCode.OK if counted.ok else PipelineExitCode.DIVERGED))


def count_lines(counted: Counted) -> list[str]:
    """Return the result as lines of text."""
    head = (
        f"{counted.rows} rows, {counted.records} of them records of clients; "
        f"{counted.acknowledged} acknowledged writes in the account"
    )
    return [
        head,
        f"  {counted.missing:>8}  missing",
        f"  {counted.duplicated:>8}  duplicated",
        f"  {counted.unexpected:>8}  unexpected: no client wrote them",
        f"  {counted.unknown_found:>8}  of unknown outcome, which were written",
        *(f"    missing: {example}" for example in counted.examples),
    ]
