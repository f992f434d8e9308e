"""`kraftquorum-pipeline restore-check`: can these files restore the quorum's store?"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kraftquorum_pipeline.audit.engine import LocalEngine
from kraftquorum_pipeline.audit.undamaged_log import UndamagedLog, undamaged_log
from kraftquorum_pipeline.commands.common import AsJson, print_json, reporting, say
from kraftquorum_pipeline.errors import (
    CorruptError,
    DeniedError,
    OptionError,
    PipelineExitCode,
    UnreachableError,
)
from kraftquorum_pipeline.jobs.restore import Restored, RunningQuorum, compare, look, state_of
from kraftquorum_pipeline.remote import path_of
from raftnode.client import ClientError, CredentialsError, RefusedError
from raftnode.client.servers import parse_servers
from raftnode.credential_flags import CredentialFlags, flag_message
from raftnode.errors import RaftnodeError
from raftnode.flag_groups import with_flag_groups


@with_flag_groups
def run(
    paths: Annotated[
        list[Path],
        typer.Argument(
            parser=path_of,
            metavar="PATH|URI…",
            help="Data directories of the replicas (copies or a backup), or directories that "
            "hold some.",
            show_default=False,
        ),
    ],
    bootstrap_server: Annotated[
        str,
        typer.Option(
            envvar="RAFTNODE_BOOTSTRAP_SERVER",
            metavar="HOST:PORT,…",
            help="Nodes of the running quorum.",
        ),
    ],
    *,
    offset: Annotated[
        int | None,
        typer.Option(min=0, help="State at this offset. Default: the last committed one."),
    ] = None,
    hosts_file: Annotated[
        Path | None, typer.Option(help="A file in the format of /etc/hosts.")
    ] = None,
    credentials: CredentialFlags,
    as_json: AsJson = False,
) -> None:
    """Compare the key-value state of files with a running quorum.

    The command reads later writes from the quorum's log and takes them into account; clients may
    write meanwhile. It needs no Spark. Exits with code 8 if a key differs.
    """
    with reporting():
        try:
            log = undamaged_log(paths, LocalEngine(), offset, say)
            state = state_of(log)
        except RaftnodeError as error:
            raise CorruptError(", ".join(map(str, paths)), str(error)) from error
        say(f"{len(state)} keys at offset {log.end}; reading from {bootstrap_server}")
        living = _ask(bootstrap_server, hosts_file, credentials, log)
        restored = compare(state, log.end, living)
    if as_json:
        print_json({"ok": restored.ok, **asdict(restored)})
    else:
        _print(restored)
    raise typer.Exit(int(PipelineExitCode.OK if restored.ok else PipelineExitCode.DIVERGED))


def _ask(
    servers: str, hosts_file: Path | None, flags: CredentialFlags, log: UndamagedLog
) -> RunningQuorum:
    try:
        endpoints, credentials = parse_servers(servers, flags.options)
    except ValueError as error:
        raise OptionError(flag_message(str(error), "--bootstrap-server")) from None

    ids = {
        replica["cluster_id"] for replica in log.verdict.replicas.values() if replica["cluster_id"]
    }
    if flags.cluster_id is not None:
        ids = {flags.cluster_id}
    try:
        return asyncio.run(look(endpoints, hosts_file, log.end, ids, credentials=credentials))
    except CredentialsError as error:
        raise OptionError(str(error)) from None
    except RefusedError as error:
        if error.status not in {401, 403}:
            raise UnreachableError(servers, str(error), log.end) from error
        raise DeniedError(servers, str(error)) from error
    except ClientError as error:
        raise UnreachableError(servers, str(error), log.end) from error


def _print(restored: Restored) -> None:
    typer.echo(
        f"{restored.keys} keys at offset {restored.end} in the files; {restored.listed} in "
        f"the quorum, {restored.changed} written since"
    )
    for line in restored.differences:
        typer.echo(f"  {line}")
    if restored.ok:
        typer.echo("The files restore what the quorum has.")
    else:
        typer.echo(f"{restored.different} KEYS DIFFER.")
