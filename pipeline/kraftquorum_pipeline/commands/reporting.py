"""How commands tell of progress and of errors: on standard error, results go to the other."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from kraftquorum_pipeline.errors import PipelineError, PipelineExitCode
from raftnode.errors import ConfigurationError, RaftnodeError


def say(text: str) -> None:
    """What is being done, for people."""
    typer.echo(f"    {text}", err=True)


@contextmanager
def reporting() -> Generator[None]:
    """Turn an error that was raised on purpose into one line and the exit code that it has."""
    try:
        yield
    except PipelineError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(int(error.exit_code)) from None
    except ConfigurationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(int(PipelineExitCode.USAGE)) from None
    except RaftnodeError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(int(PipelineExitCode.CORRUPT)) from None
