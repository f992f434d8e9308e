"""What the commands share: their errors and their output. `flags` has the flags.

Results go to stdout, progress to stderr, and a failure is one line on stderr and an exit code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kraftquorum_pipeline import errors
from kraftquorum_pipeline.errors import OptionError, PipelineError, PipelineExitCode
from kraftquorum_pipeline.remote import RemotePath, path_of

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

_RAISED = re.compile(r"kraftquorum_pipeline\.errors\.(\w+): (.*)")


def local_path(text: str) -> Path:
    """A path of this machine; a URI is an error, not a directory called `s3:`."""
    path = path_of(text)
    if isinstance(path, RemotePath):
        raise fail(
            f"{text}: the command itself reads or writes this, so it must be a path on this "
            "machine",
            PipelineExitCode.USAGE,
        )
    return path


def pairs(flag: str, given: Sequence[str] | None) -> dict[str, str]:
    """Return NAME=VALUE arguments as a dictionary.

    Raises:
        OptionError: an argument is not NAME=VALUE.
    """
    values: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise OptionError(f"{flag} {text!r}: expected NAME=VALUE")
        values[name] = value
    return values


@contextmanager
def reporting() -> Generator[None]:
    """Report the pipeline's own errors, also inside Spark's, as a line and an exit code."""
    try:
        yield
    except PipelineError as error:
        raise fail(str(error), error.exit_code) from None
    except Exception as error:
        message_and_code = raised(error)
        if message_and_code is None:
            raise
        raise fail(*message_and_code) from None


def raised(error: BaseException) -> tuple[str, PipelineExitCode] | None:
    """Find the pipeline's error in an error of Spark: return its message and exit code."""
    matches = _RAISED.findall(str(error))
    if not matches:
        return None
    name, message = matches[-1]
    kind = getattr(errors, name, PipelineError)
    return message, kind.exit_code


def fail(message: str, code: int) -> typer.Exit:
    """Print the reason on one line; the caller raises the result."""
    typer.echo(f"kraftquorum-pipeline: {' '.join(message.split())}", err=True)
    return typer.Exit(int(code))


def say(line: str) -> None:
    """Print a line of progress."""
    typer.echo(line, err=True)


def print_json(value: object) -> None:
    """Print a value for scripts, on one line."""
    typer.echo(json.dumps(value, default=str))
