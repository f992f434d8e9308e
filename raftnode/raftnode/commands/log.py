"""`raftnode log`: append raw records, read the committed log, inspect its files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from raftnode.client import LogRecord, QuorumClient
from raftnode.commands import log_files
from raftnode.commands.connection import AsJson, Connection, ask
from raftnode.commands.output import as_text, base64_text, print_json
from raftnode.flag_groups import with_flag_groups

app = typer.Typer(
    no_args_is_help=True,
    help="Append to the log, read committed records, and inspect the log's files.",
)


@app.command()
@with_flag_groups
def append(
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VALUE…",
            help="Records to append together. Default: read one record from stdin.",
        ),
    ] = None,
    *,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Append records and wait until they are committed: fsynced on a majority.

    Without values, all of stdin is one record.
    """
    records = [value.encode() for value in values] if values else [sys.stdin.buffer.read()]
    done = ask(connection, lambda client: client.append(records))
    if as_json:
        print_json(done.model_dump())
    else:
        typer.echo(f"committed at {done.base_offset} to {done.last_offset}, epoch {done.epoch}")


@app.command()
@with_flag_groups
def read(
    *,
    offset: Annotated[int, typer.Option(min=0, help="Offset of the first record.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Largest number of records. Default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep reading new records as they are committed.")
    ] = False,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Print committed records, one per line: offset, epoch, key or kind, value or fields."""
    show = _json_line if as_json else _text_line

    async def work(client: QuorumClient) -> None:
        shown = 0
        at = offset
        while limit is None or shown < limit:
            page = await client.read(at, max_wait_ms=5_000 if follow else 0)
            left = None if limit is None else limit - shown
            for record in page.records[:left]:
                typer.echo(show(record))
            shown += len(page.records[:left])
            if not follow and page.next_offset >= page.high_watermark:
                return
            at = page.next_offset

    ask(connection, work)


def _text_line(record: LogRecord) -> str:
    if record.control is not None:
        what = f"{record.control}\t{json.dumps(_plain(record.fields))}"
    else:
        value = "(deleted)" if record.value is None else as_text(record.value)
        what = f"{'-' if record.key is None else as_text(record.key)}\t{value}"
    return f"{record.offset}\t{record.epoch}\t{what}"


def _json_line(record: LogRecord) -> str:
    return json.dumps(
        {
            "offset": record.offset,
            "epoch": record.epoch,
            "timestamp_ms": record.timestamp_ms,
            "control": record.control,
            "fields": _plain(record.fields),
            "key": base64_text(record.key),
            "value": base64_text(record.value),
        }
    )


def _plain(fields: Mapping[str, object] | None) -> dict[str, object] | None:
    return None if fields is None else dict(fields)


app.command()(log_files.dump)
app.command()(log_files.verify)
app.command()(log_files.stats)
