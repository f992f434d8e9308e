"""The option `--version`, the same for each program that has one."""

# No postponed annotations: typer would not find what `root` closes over.

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

DISTRIBUTION = "kraftquorum"


def version_line(program: str) -> str:
    """What `--version` prints, e.g. `raftnode 0.1.0`."""
    return f"{program} {version(DISTRIBUTION)}"


def version_option(program: str) -> Callable[..., None]:
    """Make what a command tree takes as its callback to have `--version`."""

    def show(value: bool) -> None:  # noqa: FBT001 - as typer calls it
        if value:
            typer.echo(version_line(program))
            raise typer.Exit

    def root(
        *,
        _version: Annotated[
            bool,
            typer.Option("--version", callback=show, is_eager=True, help="Print the version."),
        ] = False,
    ) -> None:
        """Only holds --version."""

    return root
