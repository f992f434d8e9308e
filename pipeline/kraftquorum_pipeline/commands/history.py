"""`kraftquorum-pipeline history`: the history of a quorum as tables."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from kraftquorum_pipeline.commands.common import AsJson, local_path, print_json, reporting, say
from kraftquorum_pipeline.commands.flags import LogFlags, SparkFlags
from kraftquorum_pipeline.datasource import NAME
from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.jobs.history import FAULTS, no_faults, write_history
from kraftquorum_pipeline.jobs.storage import Store
from kraftquorum_pipeline.report.figures import read_export
from raftnode.flag_groups import with_flag_groups


@with_flag_groups
def run(
    output: Annotated[
        str, typer.Option("--output", help="Directory of the tables; its old content is replaced.")
    ],
    *,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            help="Read the output of `export`, of one quorum or of many, from this directory.",
        ),
    ] = None,
    log: LogFlags,
    faults: Annotated[
        Path | None,
        typer.Option(
            "--faults",
            parser=local_path,
            metavar="FILE",
            help="The times at which nodes were found broken: one JSON object per line with "
            "node_id and at (ISO 8601 with its offset).",
            show_default=False,
        ),
    ] = None,
    spark: SparkFlags,
    as_json: AsJson = False,
) -> None:
    """Write elections, leadership, voter changes, repairs, unavailability and changes of keys.

    Each table is a directory of Parquet under the output. The command prints the number of rows
    of each, and with --json the tables themselves, except the changes of keys. A further run
    replaces the tables.
    """
    with reporting():
        if tables is not None and (log.path is not None or log.option):
            raise OptionError(
                "--tables reads an export, but --path and --option are for a log; "
                "give one of the two"
            )
        options = {} if tables is not None else log.options()
        known = _faults(faults)
        session = spark.session("history")
        try:
            Store(session).exists(output)  # fails before the work if it cannot be written
            if tables is None:
                rows = session.read.format(NAME).options(**options).load()
            else:
                rows = read_export(session, tables)
            fault_table = session.createDataFrame(known, FAULTS) if known else no_faults(session)
            history_tables = write_history(session, rows, fault_table, output, say)
        finally:
            session.stop()
        _print(history_tables, output, as_json=as_json)


def _faults(path: Path | None) -> list[tuple[int, datetime]]:
    """Read the faults from a file.

    Raises:
        OptionError: names the line that is not a fault.
    """
    if path is None:
        return []
    faults: list[tuple[int, datetime]] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise OptionError(f"--faults {path}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fault = msgspec.json.decode(line, type=_Fault)
        except msgspec.DecodeError as error:
            raise OptionError(f"--faults {path}, line {number}: {error}") from None
        faults.append((fault.node_id, fault.at))
    return faults


class _Fault(msgspec.Struct):
    node_id: int
    at: Annotated[datetime, msgspec.Meta(tz=True)]


def _print(tables: dict[str, Any], output: str, *, as_json: bool) -> None:
    if as_json:
        print_json({**tables, "output": output})
        return
    windows = tables["unavailability"]
    longest = max((row["at_most_s"] or 0 for row in windows), default=0)
    typer.echo(
        f"{output}: {len(tables['elections'])} elections, {len(tables['voter_changes'])} voter "
        f"changes, {len(tables['repairs'])} repairs, at most {longest:.1f} s without a leader, "
        f"{tables['key_changes']} writes of keys"
    )
    for row in tables["repairs"]:
        took = row["repair_s"] if row["repair_s"] is not None else row["add_to_remove_s"]
        since = "detection" if row["repair_s"] is not None else "AddVoter"
        typer.echo(
            f"repair of node {row['node_id']}: {row['old_directory_id']} replaced by "
            f"{row['new_directory_id']}, {took:.1f} s from {since} to RemoveVoter"
        )
