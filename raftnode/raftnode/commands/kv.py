"""`raftnode kv`: the key-value store."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from raftnode.api.model import Appended
from raftnode.client import ListingEntry, QuorumClient
from raftnode.commands.connection import AsJson, Connection, ask
from raftnode.commands.output import CommandExitCode, fail, print_bytes, print_json, usage
from raftnode.flag_groups import with_flag_groups

app = typer.Typer(no_args_is_help=True, help="Read and write the key-value store.")

Key = Annotated[str, typer.Argument(help="The key; may contain slashes.")]
ConsistencyOption = Annotated[
    Literal["linearizable", "local"],
    typer.Option(help="`local`: what the node that answers has applied, which may be old."),
]


@app.command()
@with_flag_groups
def get(
    key: Key,
    *,
    consistency: ConsistencyOption = "linearizable",
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Print a key's value as it is, byte by byte."""
    answer = ask(
        connection,
        lambda client: client.get(key, consistency=consistency),
    )
    if answer is None:
        raise fail(f"{key!r} has no value", CommandExitCode.NOT_FOUND)
    if as_json:
        value = base64.b64encode(answer.value).decode()
        print_json({"key": key, "value": value, "offset": answer.offset, "epoch": answer.epoch})
    else:
        print_bytes(answer.value)


@app.command()
@with_flag_groups
def put(
    key: Key,
    value: Annotated[
        str | None, typer.Argument(help="The value. Default: read it from --file or stdin.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file to read the value from. Default: stdin.")
    ] = None,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Write a key and wait until it is committed: fsynced on a majority."""
    data = _read_value(value, file)
    done = ask(connection, lambda client: client.put(key, data))
    _show_committed(done, as_json=as_json)


@app.command()
@with_flag_groups
def delete(
    key: Key,
    *,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Delete a key and wait for the commit; it is no error if the key does not exist."""
    done = ask(connection, lambda client: client.delete(key))
    _show_committed(done, as_json=as_json)


@app.command("list")
@with_flag_groups
def list_keys(
    prefix: Annotated[str, typer.Argument(help="Only keys that begin with this prefix.")] = "",
    *,
    consistency: ConsistencyOption = "linearizable",
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Print keys in byte order, one per line: offset, size in bytes, key."""

    def show(entry: ListingEntry) -> None:
        if as_json:
            value = base64.b64encode(entry.value).decode()
            print_json({"key": entry.key, "value": value, "offset": entry.offset})
        else:
            typer.echo(f"{entry.offset}\t{len(entry.value)}\t{entry.key}")

    async def work(client: QuorumClient) -> None:
        after: str | None = None
        while True:
            page = await client.list(prefix, after=after, limit=1000, consistency=consistency)
            for entry in page.entries:
                show(entry)
            after = page.next
            if after is None:
                return

    ask(connection, work)


def _show_committed(done: Appended, *, as_json: bool) -> None:
    if as_json:
        print_json(done.model_dump())
    else:
        typer.echo(f"committed at {done.last_offset}, epoch {done.epoch}")


def _read_value(value: str | None, file: Path | None) -> bytes:
    if value is not None and file is not None:
        raise usage("both a value and --file are given; give one of the two")
    if value is not None:
        return value.encode()
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise usage(f"--file: {error}") from None
