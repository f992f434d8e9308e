"""The `kraftquorum-pipeline` program: builds the commands and imports only the one that runs.

This module holds the command tree only. `kraftquorum_pipeline.commands` holds what the commands
do.
"""

from __future__ import annotations

import importlib
import sys

import typer

from raftnode.program_version import version_option

PROGRAM = "kraftquorum-pipeline"
COMMANDS: dict[str, str] = {
    "export": "kraftquorum_pipeline.commands.export",
    "history": "kraftquorum_pipeline.commands.history",
    "audit": "kraftquorum_pipeline.commands.audit",
    "compact": "kraftquorum_pipeline.commands.compact",
    "restore-check": "kraftquorum_pipeline.commands.restore_check",
    "count": "kraftquorum_pipeline.commands.count",
    "report": "kraftquorum_pipeline.commands.report",
    "study": "kraftquorum_pipeline.commands.study",
}
"""Each command, and the module whose function `run` it is."""


def make_app(only: str | None = None) -> typer.Typer:
    """Make the command tree; with `only`, import that command alone."""
    app = typer.Typer(
        name=PROGRAM,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Read the logs of quorums in Apache Spark: export, history, audits and reports.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(version_option(PROGRAM))
    for name, path in COMMANDS.items():
        if only is None or only == name:
            app.command(name)(importlib.import_module(path).run)
    return app


def main() -> None:
    """Run the program with the process's arguments."""
    arguments = sys.argv[1:]
    first = arguments[0] if arguments else None
    make_app(first if first in COMMANDS else None)(args=arguments)


if __name__ == "__main__":
    main()
