"""`raftnode access`: make the hash of a token, and check an access file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from raftnode.access.access_file import open_access_file
from raftnode.access.access_list import token_hash
from raftnode.client.credential_files import TOKEN_BYTES_MAX, CredentialsError, parse_token
from raftnode.commands.output import reporting, usage

app = typer.Typer(no_args_is_help=True, help="Work on an access file, without a node.")


@app.command("hash")
def make_hash(
    *,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="The file of the token. Default: standard input."),
    ] = None,
) -> None:
    """Print the hash of a token, for `token_hashes` of an access file.

    A token is on one line; the line's end does not count. Use a long random one, since a hash of
    a short one can be guessed: `openssl rand -base64 32`.
    """
    try:
        name = "standard input" if token_file is None else f"--token-file {token_file}"
        if token_file is None:
            data = sys.stdin.buffer.read(TOKEN_BYTES_MAX + 2)
        else:
            with token_file.open("rb") as file:
                data = file.read(TOKEN_BYTES_MAX + 2)
        token = parse_token(name, data)
    except OSError as error:
        raise usage(f"--token-file {token_file}: {error.strerror or error}") from None
    except CredentialsError as error:
        raise usage(str(error)) from None
    typer.echo(token_hash(token.encode("ascii")))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The access file, JSON or YAML.", metavar="FILE")],
) -> None:
    """Check an access file as a node does, and list what each subject may do."""
    with reporting():
        access = open_access_file(file).current
    for subject in access.all_subjects:
        roles = sorted(role.value for role in subject.grants)
        typer.echo(f"{subject.name}: {', '.join(roles)}")
    if access.anonymous:
        roles = sorted(role.value for role in access.anonymous)
        typer.echo(f"(clients without credentials): {', '.join(roles)}")
