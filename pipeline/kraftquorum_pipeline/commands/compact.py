"""`kraftquorum-pipeline compact`: the key-value state at an offset, as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kraftquorum_pipeline.audit.spark import SparkEngine
from kraftquorum_pipeline.audit.undamaged_log import undamaged_log
from kraftquorum_pipeline.commands.common import (
    AsJson,
    print_json,
    reporting,
    say,
)
from kraftquorum_pipeline.commands.flags import SparkFlags
from kraftquorum_pipeline.jobs.storage import Store
from kraftquorum_pipeline.remote import path_of
from raftnode.flag_groups import with_flag_groups


@with_flag_groups
def run(
    paths: Annotated[
        list[Path],
        typer.Argument(
            parser=path_of,
            metavar="PATH|URI…",
            help="Data directories of the replicas, or directories that hold some.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", help="Directory of the table; an old one is replaced.")
    ],
    *,
    offset: Annotated[
        int | None,
        typer.Option(min=0, help="State at this offset. Default: the last committed one."),
    ] = None,
    spark: SparkFlags,
    as_json: AsJson = False,
) -> None:
    """Write each key with its newest value below an offset: `key`, `value`, `offset`, `epoch`.

    The command reads the log from undamaged replicas, and from a snapshot if the log was
    trimmed. It takes only records that are certainly committed.
    """
    with reporting():
        session = spark.session("compact")
        try:
            Store(session).exists(output)  # fails before the work if it cannot be written
            engine = SparkEngine(session)
            log = undamaged_log(paths, engine, offset, say)
            say(f"writing the state at offset {log.end}")
            state = engine.state(log.stretches, log.base)
            state.write.mode("overwrite").parquet(output)
            keys = session.read.parquet(output).count()
        finally:
            session.stop()
    if as_json:
        print_json({"offset": log.end, "keys": keys, "base": log.base, "output": output})
    else:
        typer.echo(f"{output}: {keys} keys at offset {log.end}")
