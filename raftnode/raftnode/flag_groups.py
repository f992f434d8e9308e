"""Groups of flags that several commands have: each is a frozen dataclass, each field a flag.

Typer makes a flag of each parameter of a function, and knows no groups of parameters. The commands
of the node and of the pipeline use this.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, cast, get_type_hints


def with_flag_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each field of its flag groups as a parameter of its own.

    A field that is a group itself counts as its fields.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if _is_group(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _flags(parameter.annotation)
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = _take(group, values)
        command(**values)

    cast("Any", run).__signature__ = inspect.Signature(parameters)
    return run


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


def _flags(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for flag in fields(group):
        annotation = hints[flag.name]
        if _is_group(annotation):
            yield from _flags(annotation)
            continue
        default = inspect.Parameter.empty if flag.default is MISSING else flag.default
        yield inspect.Parameter(
            flag.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )


def _take(group: Any, values: dict[str, Any]) -> Any:
    """Make a group of its flags, and remove them from the values."""
    hints = get_type_hints(group, include_extras=True)
    return group(
        **{
            flag.name: _take(hints[flag.name], values)
            if _is_group(hints[flag.name])
            else values.pop(flag.name)
            for flag in fields(group)
        }
    )
