"""Options and exit codes of all commands that query a running quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from raftnode.client import (
    ClientError,
    CredentialsError,
    NotDoneError,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
    UnavailableError,
)
from raftnode.client.servers import parse_servers
from raftnode.commands.output import CommandExitCode, fail, usage
from raftnode.credential_flags import NO_FLAGS, CredentialFlags, flag_message
from raftnode.errors import ExitCode

ResultT = TypeVar("ResultT")

DEFAULT_SERVER = "localhost:9080"
DEFAULT_TIMEOUT_MS = 10_000

SERVERS_HELP = (
    "API endpoints of nodes to ask first; each of them knows the way to the leader. With "
    "`https://` before each and without --ca-file, the CAs of the system are trusted."
)

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        envvar="RAFTNODE_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,…",
        help=SERVERS_HELP,
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


@dataclass(frozen=True, slots=True)
class Connection:
    """The flags of a command that queries a quorum."""

    bootstrap_server: BootstrapServer = DEFAULT_SERVER
    hosts_file: HostsFile = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS
    credentials: CredentialFlags = NO_FLAGS


def ask(
    connection: Connection,
    work: Callable[[QuorumClient], Awaitable[ResultT]],
    *,
    servers_flag: str = "--bootstrap-server",
) -> ResultT:
    """Run work with a client; on failure, print the reason and exit with its code."""
    client = _client(connection, servers_flag)

    async def run() -> ResultT:
        async with client:
            return await work(client)

    try:
        return asyncio.run(run())
    except ClientError as error:
        raise fail(str(error), _code(error)) from None


def _client(connection: Connection, servers_flag: str) -> QuorumClient:
    flags = connection.credentials
    try:
        endpoints, credentials = parse_servers(connection.bootstrap_server, flags.options)
        return QuorumClient(
            endpoints,
            timeout_ms=connection.timeout_ms,
            hosts_file=connection.hosts_file,
            credentials=credentials,
            cluster_id=flags.cluster_id,
        )
    except ValueError as error:
        raise usage(flag_message(str(error), servers_flag)) from None


def _code(error: ClientError) -> int:
    match error:
        case RefusedError():
            return CommandExitCode.REFUSED
        case UnavailableError() | NotDoneError():
            return CommandExitCode.UNAVAILABLE
        case CredentialsError():
            return ExitCode.USAGE
        case OutcomeUnknownError():
            return CommandExitCode.OUTCOME_UNKNOWN
        case _:
            return ExitCode.UNEXPECTED
