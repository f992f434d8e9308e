"""The flags of a client's credentials, for the commands of the node and of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from raftnode.client.servers import CredentialOptions


@dataclass(frozen=True, slots=True)
class CredentialFlags:
    """The flags of a client's credentials, and of the cluster that is meant."""

    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            envvar="RAFTNODE_CLIENT_CA_FILE",
            help="PEM: the CAs that sign the nodes' certificates. With it, connections are TLS.",
        ),
    ] = None
    certificate_file: Annotated[
        Path | None,
        typer.Option(
            "--certificate-file",
            envvar="RAFTNODE_CLIENT_CERTIFICATE_FILE",
            help="PEM: the client certificate.",
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            envvar="RAFTNODE_CLIENT_KEY_FILE",
            help="PEM: its key, without a password. Default: it is in the certificate's file.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            envvar="RAFTNODE_CLIENT_TOKEN_FILE",
            help="A bearer token, on one line. Needs TLS.",
        ),
    ] = None
    server_name: Annotated[
        str | None,
        typer.Option(
            "--server-name",
            envvar="RAFTNODE_CLIENT_SERVER_NAME",
            help="The name that the nodes' certificates must have, for a forwarded port. "
            "Default: the host that is asked.",
        ),
    ] = None
    plaintext_token: Annotated[
        bool,
        typer.Option(
            "--plaintext-token",
            envvar="RAFTNODE_CLIENT_PLAINTEXT_TOKEN",
            help="Send the token without TLS too, where any machine on the way can read it.",
        ),
    ] = False
    cluster_id: Annotated[
        str | None,
        typer.Option(
            "--cluster-id",
            envvar="RAFTNODE_CLIENT_CLUSTER_ID",
            help="The cluster that is meant; a node of another one refuses the request. "
            "Default: any.",
        ),
    ] = None

    @property
    def options(self) -> CredentialOptions:
        """What of it goes into the credentials."""
        return CredentialOptions(
            **{option.name: getattr(self, option.name) for option in fields(CredentialOptions)}
        )


NO_FLAGS = CredentialFlags()


def flag_message(message: str, servers_flag: str) -> str:
    """Name the flags as they are typed; an error about none of them is about the servers."""
    named = message
    for field in fields(CredentialFlags):
        named = named.replace(field.name, f"--{field.name.replace('_', '-')}")
    return f"{servers_flag}: {message}" if named == message else named
