"""Output of every command: results on stdout; on failure one line on stderr and an exit code."""

from __future__ import annotations

import base64
import enum
import json
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import typer

from raftnode.errors import ExitCode, RaftnodeError


class CommandExitCode(enum.IntEnum):
    """Exit codes of commands that query a quorum, besides `raftnode.errors.ExitCode`."""

    REFUSED = 3
    UNAVAILABLE = 4
    OUTCOME_UNKNOWN = 5
    NOT_FOUND = 6
    DERIVED_DAMAGED = 7


EXIT_CODE_MEANINGS: dict[ExitCode | CommandExitCode, str] = {
    ExitCode.OK: "Success; for `run`: stopped on request.",
    ExitCode.UNEXPECTED: "The program failed; stderr has the details.",
    ExitCode.USAGE: "Wrong options or settings; the message names them.",
    CommandExitCode.REFUSED: "A node refused the request and certainly did not do it.",
    CommandExitCode.UNAVAILABLE: (
        "No node could serve the request in time; it was certainly not done."
    ),
    CommandExitCode.OUTCOME_UNKNOWN: (
        "A write was sent, and it is unknown whether it was done. Check before you repeat it."
    ),
    CommandExitCode.NOT_FOUND: "The key has no value.",
    CommandExitCode.DERIVED_DAMAGED: "`log verify`: the records are whole, but an index or "
    "another file that a start rebuilds from them is missing or damaged. Delete that file "
    "and start the node.",
    ExitCode.STORAGE_FAILED: "A write or an fsync failed. Replace the disk, then the replica.",
    ExitCode.STORAGE_LOST: "The data directory is gone, or it is not the one that the node opened.",
    ExitCode.STORAGE_CORRUPT: "Corruption that a crash cannot explain. The node keeps the log's "
    "files beside it, under a name that ends in `.quarantined`, and never opens this storage "
    "again. Replace the replica.",
    ExitCode.STORAGE_IDENTITY: (
        "The directory id is not the same in all its places. Replace the replica."
    ),
    ExitCode.STORAGE_LOCKED: "Another process uses the data directory.",
    ExitCode.PROTOCOL_HALT: "To continue would break a promise to a client. Keep the disk for a "
    "person to inspect.",
    ExitCode.STORAGE_FULL: "The disk is full. No acknowledged write is lost. Enlarge the disk; "
    "a new disk of the same size does not help.",
    ExitCode.STORAGE_STALE: "The storage was restored from an old copy: it lacks votes, starts or "
    "acknowledgements that a peer has seen. The node never opens it again. Give the node "
    "an empty disk and replace the replica.",
    ExitCode.STORAGE_STALLED: "A disk call took longer than `stall_timeout_ms`. No damage is "
    "known. Start the node again; if it repeats, replace the disk and the replica.",
    ExitCode.LOOP_STALLED: "The event loop did not run for `stall_timeout_ms`: a fault of the "
    "program, or a machine without processor time. Start the node again.",
}
"""The meaning of each exit code; the reference page is generated from it."""


def fail(message: str, code: int) -> typer.Exit:
    """Print the reason on one line; raise what this returns."""
    typer.echo(f"raftnode: {' '.join(message.split())}", err=True)
    return typer.Exit(int(code))


@contextmanager
def reporting() -> Generator[None]:
    """Turn the node's own errors into a line on stderr and an exit code."""
    try:
        yield
    except RaftnodeError as error:
        raise fail(str(error), error.exit_code) from None


def usage(message: str) -> typer.Exit:
    """Print what is wrong with the command line; raise what this returns."""
    return fail(message, ExitCode.USAGE)


def print_json(value: object) -> None:
    """Print a value for scripts, on one line."""
    typer.echo(json.dumps(value))


def print_fields(fields: Sequence[tuple[str, object]], *, width: int = 0) -> None:
    """Print names and values, aligned as Kafka's tools do; values begin at `width` or later."""
    width = max(max(len(name) for name, _ in fields) + 1, width - 1)
    for name, value in fields:
        typer.echo(f"{name + ':':<{width}} {value}")


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns, tab-separated and padded, as Kafka's tools do."""
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        typer.echo("\t".join(cells).rstrip())


def as_text(value: bytes) -> str:
    """Show bytes on one line, with unprintable ones escaped."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return repr(value)[2:-1]
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def base64_text(value: bytes | None) -> str | None:
    """Bytes for JSON."""
    return None if value is None else base64.b64encode(value).decode()


def print_bytes(value: bytes) -> None:
    """Print raw bytes, with a newline only if stdout is a terminal."""
    sys.stdout.buffer.write(value)
    if sys.stdout.isatty():
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
