"""`raftnode node`: requests to one node, leader or not."""

from __future__ import annotations

from typing import Annotated

import typer

from raftnode.client.leadership_transfer import transfer_leadership
from raftnode.client.servers import parse_servers
from raftnode.commands.connection import Connection, HostsFile, TimeoutMs, ask
from raftnode.commands.output import usage
from raftnode.core.types import Endpoint
from raftnode.credential_flags import CredentialFlags
from raftnode.flag_groups import with_flag_groups

app = typer.Typer(no_args_is_help=True, help="Query one node.")

TRANSFER_TIMEOUT_MS = 4000
_REACHED_BY = {"0.0.0.0": "127.0.0.1", "::": "localhost"}
"""A node that listens on every address answers on the loopback of each address family."""


@app.command("transfer-leadership")
@with_flag_groups
def transfer(
    *,
    api: Annotated[
        str,
        typer.Option(
            "--api",
            envvar=["RAFTNODE_ADMIN_LISTEN", "RAFTNODE_API_LISTEN"],
            metavar="HOST:PORT",
            help="The node's API. Default: where this container's node listens.",
        ),
    ] = "localhost:9080",
    hosts_file: HostsFile = None,
    timeout_ms: TimeoutMs = TRANSFER_TIMEOUT_MS,
    credentials: CredentialFlags,
) -> None:
    """Make this node transfer leadership if it is the leader, and wait for the new leader.

    For a pod's preStop hook: nothing to do is success, the voters stay as they are, and it
    may be run again at any time. Stopping the node does the same, but this is done while it
    still answers, so that clients learn which node leads next.
    """
    try:
        [given], _ = parse_servers(api)
    except ValueError as error:
        raise usage(f"--api: {error}") from None
    node = Endpoint(_REACHED_BY.get(given.host, given.host), given.port)
    scheme, separator, _ = api.rpartition("://")
    connection = Connection(f"{scheme}{separator}{node}", hosts_file, timeout_ms, credentials)
    typer.echo(
        ask(
            connection,
            lambda client: transfer_leadership(client, node, timeout_ms=timeout_ms),
            servers_flag="--api",
        )
    )
