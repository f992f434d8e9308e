"""`kraftquorum-pipeline report`: the history of quorums as one page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pyspark.sql import SparkSession

from kraftquorum_pipeline.commands.common import local_path, reporting, say
from kraftquorum_pipeline.commands.flags import SparkFlags
from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.report.figures import Sources, clusters, gather, read_export
from kraftquorum_pipeline.report.page import render
from raftnode.flag_groups import with_flag_groups

_ONE = "[CLUSTER=]FILE"


@with_flag_groups
def run(
    exports: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPORT…",
            help="Directories that `export` wrote to. The page has a section for each quorum in "
            "them.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", parser=local_path, metavar="FILE", help="The file of the page."),
    ],
    *,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "History of Raft quorums",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="CLUSTER=NAME", help="Name of a quorum.", show_default=False),
    ] = None,
    audit: Annotated[
        list[str] | None,
        typer.Option(
            metavar=_ONE, help="The verdict that `audit --json` wrote.", show_default=False
        ),
    ] = None,
    writes: Annotated[
        list[str] | None,
        typer.Option(
            metavar=_ONE, help="A client's account, for the latency chart.", show_default=False
        ),
    ] = None,
    events: Annotated[
        list[str] | None,
        typer.Option(
            metavar=_ONE,
            help="What was done to the quorum: a JSON list of objects with `at_ms`, `title`, "
            "and optionally `violent` and `lost_replica`.",
            show_default=False,
        ),
    ] = None,
    spark: SparkFlags,
) -> None:
    """Draw writes, latency, leaders, voters, repairs and sizes into one HTML page.

    The page is complete and loads nothing. CLUSTER= may be left out if there is only one quorum.
    """
    with reporting():
        session = spark.session("report")
        try:
            sources = {
                "name": name or [],
                "audit": audit or [],
                "writes": writes or [],
                "events": events or [],
            }
            write_report(session, exports, output, title=title, given=sources)
        finally:
            session.stop()
    typer.echo(str(output))


def write_report(
    session: SparkSession,
    exports: Sequence[str],
    output: Path,
    *,
    title: str,
    given: Mapping[str, Sequence[str]],
    count: dict[str, Any] | None = None,
) -> None:
    """Write the page.

    Args:
        session: the Spark session.
        exports: the directories of the exports.
        output: the path of the page.
        title: the title of the page.
        given: `name`, `audit`, `writes` and `events` as `[CLUSTER=]value`.
        count: the result of `count` for the only quorum.

    Raises:
        OptionError: a file has the wrong content, or is of a cluster that is not there.
    """
    tables = [read_export(session, export) for export in exports]
    quorum_tables = [(table, cluster) for table in tables for cluster in clusters(table)]
    there = [cluster for _, cluster in quorum_tables]
    values = {kind: _by_cluster(kind, texts, there) for kind, texts in given.items()}
    quorums = []
    for table, cluster in quorum_tables:
        say(f"gathering the figures of {values['name'].get(cluster, cluster)}")
        sources = Sources(
            values["name"].get(cluster),
            _read_json(values["audit"].get(cluster)),
            count,
            _path(values["writes"].get(cluster)),
            _path(values["events"].get(cluster)),
        )
        quorums.append(gather(session, table, cluster, sources))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = render(quorums, title=title, made=made, version=version("kraftquorum"))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page, encoding="utf-8")


def _by_cluster(kind: str, texts: Sequence[str], there: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        cluster, equals, value = text.partition("=")
        if equals and cluster in there:
            values[cluster] = value
        elif len(there) == 1 and not (equals and kind == "name"):
            values[there[0]] = text
        else:
            raise OptionError(
                f"--{kind} {text!r}: expected a cluster id and `=` in front; there are "
                f"{', '.join(there) or 'none'}"
            )
    return values


def _path(text: str | None) -> Path | None:
    return None if text is None else local_path(text)


def _read_json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        verdict = json.loads(local_path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{text} is not a verdict of an audit: {error}") from None
    if not isinstance(verdict, dict) or "verdict" not in verdict:
        raise OptionError(f"{text} is not a verdict of an audit")
    return cast("dict[str, Any]", verdict)
