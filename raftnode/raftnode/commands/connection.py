"""Flags and error codes of all commands that ask a running quorum."""

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
        help="API endpoints of nodes to begin with; any of them leads to the leader.",
    ),
]
HostsFile = Annotated[
    Path | None,
    typer.Option(
        "--hosts-file",
        envvar="KRAFTQUORUM_HOSTS_FILE",
        help="Names in the form of /etc/hosts, asked before DNS.",
    ),
]
TimeoutMs = Annotated[
    int,
    typer.Option("--timeout-ms", min=1, max=600_000, help="How long the command may take in all."),
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
    """Do something with a client; on failure say why and exit with its code."""
    try:
        endpoints = [Endpoint.parse(part.strip()) for part in servers.split(",") if part.strip()]
    except ValueError as error:
        raise usage(f"--bootstrap-server: {error}") from None
    if not endpoints:
        raise usage("--bootstrap-server: expected at least one host:port")

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
