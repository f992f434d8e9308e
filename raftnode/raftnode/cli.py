"""The `raftnode` program: its command tree. Only the commands that are asked for are imported.

The commands themselves are in `raftnode.commands`.
"""

from __future__ import annotations

import importlib
import sys
from typing import cast

import typer

from raftnode.program_version import version_line, version_option

PROGRAM = "raftnode"
GROUPS = {
    "access": "raftnode.commands.access",
    "node": "raftnode.commands.node",
    "storage": "raftnode.commands.storage",
    "metadata-quorum": "raftnode.commands.quorum",
    "log": "raftnode.commands.log",
    "snapshot": "raftnode.commands.snapshot",
    "kv": "raftnode.commands.kv",
}
RUN = "run"


def make_app(only: str | None = None) -> typer.Typer:
    """Make the command tree; with `only`, just that command or group is imported."""
    app = typer.Typer(
        name=PROGRAM,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="A node of a Raft quorum, with tools to format, query and change a quorum.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(version_option(PROGRAM))
    if only not in GROUPS:
        module = importlib.import_module("raftnode.commands.run")
        app.command(RUN)(module.make_command())
    for name, path in GROUPS.items():
        if only in {None, name}:
            app.add_typer(importlib.import_module(path).app, name=name)
    return app


def main() -> None:
    """Run the program with the process's arguments."""
    # kio registers its types with hypothesis wherever that is installed: a fifth of a node's
    # start on a developer's machine, and a node makes no examples.
    cast("dict[str, object]", sys.modules).setdefault("hypothesis", None)
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        typer.echo(version_line(PROGRAM))
        return
    first = arguments[0] if arguments else None
    make_app(first if first in {*GROUPS, RUN} else None)(args=arguments, prog_name=PROGRAM)


if __name__ == "__main__":
    main()
