"""`kraftquorum-pipeline export`: the log as partitioned Parquet."""

from __future__ import annotations

import signal
from dataclasses import asdict
from threading import Event
from types import FrameType
from typing import Annotated

import typer

from kraftquorum_pipeline.commands.common import (
    AsJson,
    print_json,
    reporting,
    say,
)
from kraftquorum_pipeline.commands.flags import LogFlags, SparkFlags
from kraftquorum_pipeline.jobs.export import Export, Exported, export
from kraftquorum_pipeline.jobs.sink import PARQUET, Sink
from raftnode.flag_groups import with_flag_groups

_MIB = 1 << 20


@with_flag_groups
def run(
    output: Annotated[
        str,
        typer.Option(
            "--output", help="Directory of the tables; it is created if it does not exist."
        ),
    ],
    *,
    log: LogFlags,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Continue until stopped (SIGINT, SIGTERM).")
    ] = False,
    interval_s: Annotated[
        float, typer.Option("--interval-s", min=0.1, help="With --continuous: the interval.")
    ] = 10.0,
    spark: SparkFlags,
    table_format: Annotated[
        str,
        typer.Option("--format", help="Another format that Spark can write: orc, json, delta, …"),
    ] = PARQUET,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            help="With --format: a table of a Spark catalog, instead of a directory under "
            "--output. The catalog must be persistent, unlike Spark's own by default. "
            "The table is created if it does not exist.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write committed records to Parquet, each once, and continue where the last run ended.

    It may be killed and started again at any time, and run again for new records. It prints a
    line for each finished batch, and a summary.
    """
    with reporting():
        options = log.options()
        sink = Sink(table_format, table)
        sink.check()
        stopping = Event()
        session = spark.session("export")
        try:
            summary = export(
                session,
                options,
                output,
                sink=sink,
                interval_s=interval_s if continuous else None,
                stop=stopping,
                on_start=lambda _query, state: _begun(state, stopping),
                on_batch=_progress,
            )
        finally:
            session.stop()
        _print(summary, output, sink, as_json=as_json)


def _begun(summary: Export, stopping: Event) -> None:
    extent = f"committed up to {summary.log_end}"
    if summary.log_start:
        extent += f", trimmed up to {summary.log_start}"
    say(f"{summary.source}: cluster {summary.cluster_id}, {extent}")

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _progress(done: Exported, summary: Export) -> None:
    rows = sum(done.rows.values())
    rate = rows / done.seconds if done.seconds else 0
    part = min(1.0, done.end / summary.log_end) if summary.log_end else 1.0
    note = " (was there already)" if done.again else ""
    left_out = f", {done.left_out} corrupt ones left out" if done.left_out else ""
    say(
        f"batch {done.batch}: offsets {done.start} to {done.end - 1}, {rows} rows{left_out}, "
        f"{done.bytes / _MIB:.1f} MiB, {done.seconds:.1f} s, {rate:,.0f} rows/s, {part:.0%}{note}"
    )


def _print(summary: Export, output: str, sink: Sink, *, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(summary), "output": output})
        return
    rows = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.rows.items()))
    if summary.start is None or summary.end is None:
        typer.echo(f"{output}: nothing new; everything in {summary.source} was exported already")
        return
    if sink.by_spark:
        typer.echo(
            f"{sink.table or output}: offsets {summary.start} to {summary.end - 1} as "
            f"{sink.format}, in {summary.batches} batches, {summary.seconds:.1f} s"
        )
        return
    typer.echo(
        f"{output}: {sum(summary.rows.values())} rows ({rows}) of offsets {summary.start} to "
        f"{summary.end - 1} in {summary.batches} batches, {summary.bytes / _MIB:.1f} MiB, "
        f"{summary.seconds:.1f} s"
    )
    if summary.left_out:
        typer.echo(f"{summary.left_out} records are corrupt and were left out: kind = 'corrupt'")
