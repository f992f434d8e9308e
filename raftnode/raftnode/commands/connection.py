"""Options and exit codes of all commands that query a running quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from raftnode.client import (
    ClientError,
    NotDoneError,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
    UnavailableError,
)
from raftnode.commands.output import CommandExitCode, fail, usage
from raftnode.core.types import Endpoint
from raftnode.errors import ExitCode

ResultT = TypeVar("ResultT")

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        envvar="RAFTNODE_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,…",
        help="API endpoints of nodes to ask first; each of them knows the way to the leader.",
    ),
]
HostsFile = Annotated[
    Path | None,
    typer.Option(
        "--hosts-file",
        envvar="KRAFTQUORUM_HOSTS_FILE",
        help="A file in the format of /etc/hosts, in which names are looked up before DNS.",
    ),
]
TimeoutMs = Annotated[
    int,
    typer.Option("--timeout-ms", min=1, max=600_000, help="Longest time for the whole command."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

DEFAULT_SERVER = "localhost:9080"
DEFAULT_TIMEOUT_MS = 10_000


def ask(
    servers: str,
    hosts_file: Path | None,
    timeout_ms: int,
    work: Callable[[QuorumClient], Awaitable[ResultT]],
) -> ResultT:
    """Run work with a client; on failure, print the reason and exit with its code."""
    try:
        endpoints = [Endpoint.parse(part.strip()) for part in servers.split(",") if part.strip()]
    except ValueError as error:
        raise usage(f"--bootstrap-server: {error}") from None
    if not endpoints:
        raise usage("--bootstrap-server: no endpoint given; expected at least one host:port")

    async def run() -> ResultT:
        async with QuorumClient(endpoints, timeout_ms=timeout_ms, hosts_file=hosts_file) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except ClientError as error:
        raise fail(str(error), _code(error)) from None


def _code(error: ClientError) -> int:
    match error:
        case RefusedError():
            return CommandExitCode.REFUSED
        case UnavailableError() | NotDoneError():
            return CommandExitCode.UNAVAILABLE
        case OutcomeUnknownError():
            return CommandExitCode.OUTCOME_UNKNOWN
        case _:
            return ExitCode.UNEXPECTED
