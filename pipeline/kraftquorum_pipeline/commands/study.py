"""`kraftquorum-pipeline study`: everything about one quorum, in one Spark session."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession

from kraftquorum_pipeline.audit.findings import Verdict
from kraftquorum_pipeline.audit.render import verdict_lines
from kraftquorum_pipeline.audit.replica_files import find_replicas
from kraftquorum_pipeline.audit.run import Audit
from kraftquorum_pipeline.audit.spark import SparkEngine
from kraftquorum_pipeline.commands.common import local_path, reporting, say
from kraftquorum_pipeline.commands.count import count_lines
from kraftquorum_pipeline.commands.flags import SparkFlags
from kraftquorum_pipeline.commands.report import write_report
from kraftquorum_pipeline.errors import PipelineExitCode
from kraftquorum_pipeline.jobs.count import Counted, count
from kraftquorum_pipeline.jobs.export import export
from kraftquorum_pipeline.jobs.history import FAULTS, no_faults, write_history
from kraftquorum_pipeline.remote import path_of
from kraftquorum_pipeline.report.figures import read_events, read_export
from raftnode.flag_groups import with_flag_groups


@with_flag_groups
def run(
    path: Annotated[
        Path,
        typer.Argument(
            parser=path_of,
            metavar="PATH|URI",
            help="A directory that holds the data directories of all replicas.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", parser=local_path, metavar="DIRECTORY", help="Directory of all output."
        ),
    ],
    *,
    name: Annotated[str, typer.Option(help="Name of the quorum, for people.")] = "quorum",
    committed_end: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="As for `audit`."),
    ] = None,
    writes: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="The client's account, as for `count`.",
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            parser=local_path,
            metavar="FILE",
            help="What was done to the quorum, as for `report`.",
            show_default=False,
        ),
    ] = None,
    spark: SparkFlags,
) -> None:
    """Export the log, make its history, audit the replicas, count, and draw the report.

    Writes `log/`, `history/`, `audit.json`, `report.html` and `summary.json`. Exits with code 8 if
    the replicas do not agree, or a write is missing or duplicated.
    """
    with reporting():
        study = Study(path, output, name, committed_end, writes, events)
        summary = study.run(spark)
    typer.echo(f"\n{output / 'report.html'}")
    raise typer.Exit(int(PipelineExitCode.OK if summary["ok"] else PipelineExitCode.DIVERGED))


@dataclass(slots=True)
class Study:
    """One run over one quorum."""

    path: Path
    output: Path
    name: str
    committed_end: int | None
    writes: Path | None
    events: Path | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    tables: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, spark: SparkFlags) -> dict[str, Any]:
        """Run all jobs; return the summary, which is also in `summary.json`.

        Args:
            spark: the flags of the Spark session.

        Raises:
            PipelineError: as the jobs say.
        """
        spark.settings()  # fails before the work if a flag is wrong
        self.output.mkdir(parents=True, exist_ok=True)
        typer.echo("starting Spark")
        with self._timed("start"):
            session = spark.session("study")
        try:
            return self._run(session)
        finally:
            session.stop()

    def _run(self, session: SparkSession) -> dict[str, Any]:
        log = str((self.output / "log").absolute())
        with self._timed("export"):
            done = export(session, {"path": str(self.path.absolute())}, log)
        table = read_export(session, log)
        rows = ", ".join(f"{count} {kind}" for kind, count in sorted(done.rows.items()))
        typer.echo(f"export: {rows or 'nothing new'}, up to offset {done.log_end}")
        self._history(session, table)
        verdict = self._audit(session)
        counted: Counted | None = None
        if self.writes is not None:
            with self._timed("count"):
                counted = count(session, table, self.writes)
            for line in count_lines(counted):
                typer.echo(line)
        self._report(session, log, counted)
        summary = {
            "ok": verdict.word == "ok" and (counted is None or counted.ok),
            "rows": table.count() if counted is None else counted.rows,
            **({} if counted is None else counted.as_json()),
            "history": self.tables,
            "audit": verdict.word,
            "findings": sum(verdict.counts.values()),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }
        _write_json(self.output / "summary.json", summary)
        return summary

    def _history(self, session: SparkSession, table: DataFrame) -> None:
        """Write the tables of elections, leadership, voter changes, repairs and the rest."""
        events = [] if self.events is None else read_events(self.events)
        faults = [
            (
                int(event.lost_replica.partition("-")[0]),
                datetime.fromtimestamp(event.at_ms / 1000, UTC),
            )
            for event in events
            if event.lost_replica
        ]
        fault_table = session.createDataFrame(faults, FAULTS) if faults else no_faults(session)
        with self._timed("history"):
            tables = write_history(session, table, fault_table, str(self.output / "history"), say)
        rows = {
            name: content if isinstance(content, int) else len(content)
            for name, content in tables.items()
        }
        self.tables = rows
        typer.echo("history: " + ", ".join(f"{count} {name}" for name, count in rows.items()))

    def _audit(self, session: SparkSession) -> Verdict:
        with self._timed("audit"):
            engine = SparkEngine(session)
            verdict = Audit(find_replicas([self.path]), engine, self.committed_end, say).run()
        _write_json(self.output / "audit.json", verdict.as_json())
        for line in verdict_lines(verdict):
            typer.echo(line)
        return verdict

    def _report(self, session: SparkSession, log: str, counted: Counted | None) -> None:
        given = {
            "name": [self.name],
            "audit": [str(self.output / "audit.json")],
            "writes": [] if self.writes is None else [str(self.writes)],
            "events": [] if self.events is None else [str(self.events)],
        }
        with self._timed("report"):
            write_report(
                session,
                [log],
                self.output / "report.html",
                title=f"The history of {self.name}",
                given=given,
                count=None if counted is None else counted.as_json(),
            )

    @contextmanager
    def _timed(self, job: str) -> Generator[None]:
        began = time.monotonic()
        yield
        self.seconds[job] = time.monotonic() - began


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
