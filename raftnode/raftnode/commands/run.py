"""`raftnode run`: run the node, with an option for every setting."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from raftnode.commands.output import reporting
from raftnode.plain_start import CONFIG, run_node
from raftnode.settings import NodeSettings

HELP = """Run the node until SIGTERM, or until a fault stops it.

Settings come from options, then RAFTNODE_… in the environment, then the properties file. The
exit code and the termination message give the reason of the exit.
"""


def make_command() -> Callable[..., None]:
    """Make the command, whose options are the settings."""

    def run(*, config: Path | None = None, **flags: str | None) -> None:
        with reporting():
            code = run_node({**flags, CONFIG: None if config is None else str(config)})
            raise typer.Exit(int(code))

    annotations: dict[str, object] = {
        "config": Annotated[
            Path | None, typer.Option("--config", help="A properties file with settings.")
        ]
    }
    for name, field in NodeSettings.model_fields.items():
        default = "" if field.is_required() or field.default is None else _show(field.default)
        annotations[name] = Annotated[
            str | None,
            typer.Option(
                f"--{name.replace('_', '-')}",
                help=f"{field.description}{f' Default: {default}.' if default else ''}",
                metavar="VALUE",
                show_default=False,
            ),
        ]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in annotations.items()
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = annotations
    run.__doc__ = HELP
    return run


def _show(default: object) -> str:
    return "" if default == () else str(default)
