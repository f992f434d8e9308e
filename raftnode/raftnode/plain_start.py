"""`raftnode run` in a pod: the start of a node without the libraries of the command line.

They would stay in memory for as long as the node runs: typer, rich and pygments take 8 MiB.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from raftnode.errors import ExitCode, RaftnodeError
from raftnode.settings import NodeSettings, load_settings

CONFIG = "config"
"""The option that names the properties file."""


def plain_options(arguments: Sequence[str]) -> dict[str, str] | None:
    """Read the arguments of `raftnode run`, each `--name value` or `--name=value`.

    Returns:
        The values by name, `config` among them. None: the arguments are not all of this form, so
        the command line's library has to read them; it has the help and the errors.
    """
    options = {f"--{name.replace('_', '-')}": name for name in (CONFIG, *NodeSettings.model_fields)}
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if not equals:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        if option not in options:
            return None
        values[options[option]] = value
    return values


def run_node(options: Mapping[str, str | None]) -> ExitCode:
    """Load the settings and run the node until it exits.

    Args:
        options: what `plain_options` reads; None values are not given.

    Raises:
        RaftnodeError: the settings are wrong.
    """
    config = options.get(CONFIG)
    flags = {name: value for name, value in options.items() if name != CONFIG}
    settings = load_settings(flags, file=None if config is None else Path(config))
    # By name: the runtime needs the node's extra, which `--help` must not.
    with no_authorities():
        server = importlib.import_module("raftnode.runtime.server")
    return cast("Callable[[NodeSettings], ExitCode]", server.run)(settings)


def run_plainly(options: Mapping[str, str]) -> ExitCode:
    """Run the node in this process, which runs nothing else; the reason of a failure is printed."""
    # structlog imports rich for tracebacks in colour wherever it is installed.
    cast("dict[str, object]", sys.modules).setdefault("rich", None)
    try:
        return run_node(options)
    except RaftnodeError as error:
        sys.stderr.write(f"raftnode: {' '.join(str(error).split())}\n")
        return error.exit_code


@contextmanager
def no_authorities() -> Generator[None]:
    """Let aiohttp's client, which reads the system's authorities as it is imported, find none.

    They take 2.5 MiB. A node trusts only the authorities that its settings name, and a request of
    aiohttp's client without a TLS context of its own then trusts none.
    """
    variables = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(dict.fromkeys(variables, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
