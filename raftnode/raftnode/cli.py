"""The `raftnode` program: its command tree. Only the commands that are asked for are imported.

The commands themselves are in `raftnode.commands`. `raftnode run` imports no command line at all
where `plain_start` can read its arguments.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import typer

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
    import typer  # noqa: PLC0415 - a node keeps in memory what its process has imported

    from raftnode.program_version import version_option  # noqa: PLC0415 - it imports typer

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
    first = arguments[0] if arguments else None
    if first == RUN:
        plain_start = importlib.import_module("raftnode.plain_start")
        options = plain_start.plain_options(arguments[1:])
        if options is not None:
            sys.exit(int(plain_start.run_plainly(options)))
    if arguments == ["--version"]:
        program_version = importlib.import_module("raftnode.program_version")
        sys.stdout.write(f"{program_version.version_line(PROGRAM)}\n")
        return
    make_app(first if first in {*GROUPS, RUN} else None)(args=arguments, prog_name=PROGRAM)


if __name__ == "__main__":
    main()
