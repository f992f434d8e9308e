"""The commands of a program, from its Typer application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command


def commands_of(app: typer.Typer) -> dict[str, dict[str, Any]]:
    """The options of each command by their flags; the key has the names of its groups too."""
    return {
        path: {flag: option for option in command.params for flag in option.opts}
        for path, command in _leaves("", get_command(app))
    }


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    else:
        for name, child in children.items():
            yield from _leaves(f"{path} {name}".strip(), child)
