"""Where settings come from; strongest first: flags, the environment, the file, the defaults."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from raftnode.errors import ConfigurationError
from raftnode.settings.model import NodeSettings
from raftnode.settings.names import (
    ENV_PREFIX,
    is_of_commands,
    is_service_link,
    names_of,
    variables_of,
)


def load_settings(
    flags: Mapping[str, object] | None = None, *, file: Path | None = None
) -> NodeSettings:
    """Put the settings together from all sources.

    Args:
        flags: settings by name, the strongest source; None values are not given.
        file: a properties file; None: none.

    Raises:
        ConfigurationError: naming each setting that is wrong, where it can be set, and
            what is allowed; or a name of the file or the environment that is no setting.
    """
    values: dict[str, object] = read_properties(file) if file is not None else {}
    _refuse_unknown(os.environ)
    values |= _from_environment(os.environ)
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return NodeSettings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("; ".join(map(_where_to_set, _faults(error)))) from None


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one setting, or between settings.

    Attributes:
        setting: its name; None: a rule between settings, and the message names them.
        message: which value was given, and what is allowed.
    """

    setting: str | None
    message: str


def find_faults(values: Mapping[str, object]) -> tuple[Fault, ...]:
    """Check settings as a node would that is started with them, flags and environment left out.

    Args:
        values: all that is set, by name.

    Returns:
        What is wrong; empty: a node takes them. Rules between settings are checked once each
        setting by itself is right, and the first that is broken is returned.
    """
    try:
        NodeSettings.model_validate(dict(values))
    except ValidationError as error:
        return tuple(_faults(error))
    except ConfigurationError as error:
        return (Fault(None, str(error)),)
    return ()


def setting_called(name: str) -> str | None:
    """The setting that a name stands for: its own, its variable's, the documents' or Kafka's."""
    return _field_of(name)


def read_properties(file: Path) -> dict[str, object]:
    """Read `name=value` lines; names as here, as in the environment, or as in the documents.

    Raises:
        ConfigurationError: the file cannot be read, or a line or a name is not understood.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error
    values: dict[str, object] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        name = name.strip()
        field = _field_of(name)
        if not equals:
            raise ConfigurationError(f"{file}:{number}: expected name=value, got {text[:80]!r}")
        if field is None:
            raise ConfigurationError(f"{file}:{number}: unknown setting {name!r}{_hint(name)}")
        if field in values:
            raise ConfigurationError(
                f"{file}:{number}: {field} is set twice; remove one of the two"
            )
        values[field] = value.strip()
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """The settings of the environment; the case of a variable's name does not matter."""
    variables = {name.upper(): value for name, value in environment.items()}
    values: dict[str, object] = {}
    for field in NodeSettings.model_fields:
        name = next(filter(variables.__contains__, variables_of(field)), None)
        if name is not None:
            values[field] = variables[name]
    return values


def _refuse_unknown(environment: Collection[str]) -> None:
    for name in sorted(environment):
        variable = name.upper()
        if not variable.startswith(ENV_PREFIX) or is_of_commands(variable):
            continue
        if _field_of(variable) is None and not is_service_link(variable, environment):
            raise ConfigurationError(f"the environment: unknown setting {name!r}{_hint(variable)}")


def _field_of(name: str) -> str | None:
    for field in NodeSettings.model_fields:
        if name in names_of(field) or name.lower() == f"{ENV_PREFIX}{field}".lower():
            return field
    return None


def _hint(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for a start that fails alone

    # The prefix that all variables share would make any two of them look alike.
    known = {
        other.removeprefix(ENV_PREFIX): other
        for field in NodeSettings.model_fields
        for other in names_of(field)
        if other.startswith(ENV_PREFIX) == name.startswith(ENV_PREFIX)
    }
    close = get_close_matches(name.removeprefix(ENV_PREFIX), known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else ""


def _faults(error: ValidationError) -> list[Fault]:
    return [_fault(details) for details in error.errors(include_url=False, include_context=False)]


def _fault(details: Any) -> Fault:
    name = str(details["loc"][0]) if details["loc"] else "settings"
    message = str(details["msg"]).removeprefix("Value error, ")
    got = "" if details["type"] == "missing" else f" (got {details['input']!r:.80})"
    return Fault(_field_of(name) or name, f"{message}{got}")


def _where_to_set(fault: Fault) -> str:
    field = fault.setting or ""
    return (
        f"{field}: {fault.message}; set it by --{field.replace('_', '-')} or "
        f"{ENV_PREFIX}{field.upper()}"
    )
