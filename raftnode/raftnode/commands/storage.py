"""`raftnode storage`: format and inspect a data directory."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer

from raftnode.access.audit_log import formatted, open_audit_log
from raftnode.commands.output import print_fields, print_json, reporting, usage
from raftnode.core.records import RAFT_VERSION
from raftnode.core.state import Latch
from raftnode.core.types import (
    Endpoint,
    NodeId,
    ReplicaKey,
    Voter,
    VoterSet,
    format_directory_id,
    parse_directory_id,
)
from raftnode.errors import ConfigurationError, StorageCorruptError
from raftnode.storage.directory import formation, incarnation
from raftnode.storage.directory.directory import DataDirectory, format_storage
from raftnode.storage.directory.identity import random_directory_id, read_identity
from raftnode.storage.directory.quarantine import read_mark
from raftnode.storage.files import Files

app = typer.Typer(no_args_is_help=True, help="Format and inspect a data directory.")

LogDir = Annotated[Path, typer.Option("--log-dir", help="The data directory.")]


@app.command("format")
def format_directory(
    *,
    log_dir: LogDir,
    node_id: Annotated[int, typer.Option("--node-id", min=0, max=2**31 - 1)],
    cluster_id: Annotated[
        str | None,
        typer.Option(
            help="The cluster id. Default: a random one with --standalone, otherwise none."
        ),
    ] = None,
    directory_id: Annotated[
        str | None, typer.Option(help="The directory id. Default: a random one.")
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Form a quorum of this node alone.")
    ] = False,
    initial_voters: Annotated[
        str | None,
        typer.Option(
            metavar="ID-UUID@HOST:PORT,…",
            help="Form a quorum of these voters. Give the same list and --cluster-id on each "
            "of them.",
        ),
    ] = None,
    raft_version: Annotated[
        int,
        typer.Option(
            min=0,
            max=2,
            help="raft.version of the new quorum: 0 static voters, 1 fixed ids, 2 any voters. "
            "Give the same on each voter.",
        ),
    ] = RAFT_VERSION,
    audit_log: Annotated[
        str | None,
        typer.Option(
            envvar="RAFTNODE_AUDIT_LOG",
            metavar="FILE",
            help="The node's audit log, which gets a line: a file, stderr or disabled. "
            "Default: disabled.",
        ),
    ] = None,
) -> None:
    """Format an empty directory; a formatted directory is never changed.

    Without --standalone and --initial-voters, the node waits for form or join. With
    --cluster-id, it observes that cluster.
    """
    with reporting():
        audit = open_audit_log(audit_log, by_default=False)
        given = _directory_id(directory_id)
        latch: Latch | None = None
        if standalone and initial_voters:
            raise usage("both --standalone and --initial-voters are given; give one of the two")
        if standalone:
            given = given or random_directory_id()
            own = Voter(ReplicaKey(NodeId(node_id), given))
            latch = Latch(cluster_id or random_id(), VoterSet.of([own]), raft_version)
        elif initial_voters:
            if cluster_id is None:
                raise usage(
                    "--initial-voters is given without --cluster-id; give the same "
                    "--cluster-id on each voter"
                )
            voters = parse_voters(initial_voters)
            given = _listed(voters, NodeId(node_id), given)
            latch = Latch(cluster_id, voters, raft_version)
        if latch is None and raft_version != RAFT_VERSION:
            raise usage(
                "--raft-version is for a new quorum; give --standalone or --initial-voters too"
            )
        if log_dir.parent.is_dir() and not log_dir.exists():
            Files().mkdir(log_dir)  # durably: what is formatted must not vanish with its name
        key = format_storage(log_dir, NodeId(node_id), directory_id=given, latch=latch)
        if cluster_id is not None and latch is None:
            directory = DataDirectory.open(log_dir, NodeId(node_id))
            try:
                directory.set_cluster_id(cluster_id)
            finally:
                directory.close()
        belongs = latch.cluster_id if latch else cluster_id
        if audit is not None:
            audit.change(formatted(key, belongs))
            audit.close()
        typer.echo(f"formatted {log_dir} as {key}, cluster id {belongs or 'not known yet'}")


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a random UUID, for --directory-id or --cluster-id."""
    typer.echo(random_id())


@app.command()
def info(
    *,
    log_dir: LogDir,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Print the identity of a data directory. It changes nothing and works while the node runs."""
    with reporting():
        if not log_dir.is_dir():
            raise ConfigurationError(f"--log-dir: {log_dir} is not a directory")
        files = Files()
        reason = read_mark(files, log_dir)
        if reason is not None:
            raise StorageCorruptError(f"{reason}; the node never opens this storage again")
        identity = read_identity(files, log_dir)
        latch = formation.read_latch(files, log_dir / formation.FILE_NAME)
        state = identity.stored.state
        fields: dict[str, object] = {
            "node_id": int(identity.meta.node_id),
            "directory_id": format_directory_id(identity.meta.directory_id),
            "cluster_id": identity.meta.cluster_id,
            "incarnation": incarnation.read_incarnation(
                files, log_dir / incarnation.FILE_NAME
            ).count,
            "epoch": int(state.epoch),
            "leader": str(state.leader) if state.leader else None,
            "voted": str(state.voted) if state.voted else None,
            "formed_with": [str(key) for key in latch.voters] if latch else None,
        }
    if as_json:
        print_json(fields)
    else:
        print_fields(list(fields.items()))


def random_id() -> str:
    """Make a random id in Kafka's 22 characters that may also be a cluster id."""
    while not (text := format_directory_id(uuid.uuid4()))[0].isalnum():
        pass
    return text


def parse_voters(text: str) -> VoterSet:
    """Read `id-uuid@host:port,…`.

    Raises:
        ConfigurationError: one of them has another form, or two are the same.
    """
    voters: list[Voter] = []
    for part in text.split(","):
        key, at, endpoint = part.strip().rpartition("@")
        try:
            if not at:
                msg = f"not a voter: {part.strip()!r}; expected <id>-<uuid>@<host>:<port>"
                raise ValueError(msg)  # noqa: TRY301 - joins the errors of the parts
            voters.append(Voter(ReplicaKey.parse(key), Endpoint.parse(endpoint)))
        except ValueError as error:
            raise ConfigurationError(f"--initial-voters: {error}") from None
    voter_set = VoterSet.of(voters)
    if len({key.node_id for key in voter_set}) != len(voters):
        raise ConfigurationError("--initial-voters: a node id is listed twice; list each node once")
    return voter_set


def _directory_id(text: str | None) -> uuid.UUID | None:
    try:
        return parse_directory_id(text) if text is not None else None
    except ValueError as error:
        raise ConfigurationError(f"--directory-id: {error}") from None


def _listed(voters: VoterSet, node_id: NodeId, given: uuid.UUID | None) -> uuid.UUID:
    """Find this node's directory id in the list of initial voters."""
    own = voters.with_id(node_id)
    if given is None and len(own) == 1:
        return own[0].directory_id
    if given is None or ReplicaKey(node_id, given) not in voters:
        raise ConfigurationError(f"--initial-voters: this node's id, {node_id}, is not listed")
    return given
