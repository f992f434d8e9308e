"""`raftnode metadata-quorum`: describe and change the voters, as KIP-853 has it (P60, P61)."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Annotated

import typer

from raftnode.api.model import (
    NodeInfo,
    QuorumInfo,
    ReassignmentAccepted,
    Replica,
    ReplicaProgress,
    TargetSpec,
    VoterChanged,
    VoterRecord,
    VoterSpec,
)
from raftnode.client import QuorumClient
from raftnode.commands.connection import DEFAULT_SERVER, SERVERS_HELP, AsJson, Connection, ask
from raftnode.commands.kafka_syntax import kafka_group
from raftnode.commands.output import print_fields, print_json, print_table, usage
from raftnode.core.types import Endpoint, ReplicaKey, format_directory_id, parse_directory_id
from raftnode.flag_groups import with_flag_groups

app = kafka_group("Describe the quorum and change its voters.")

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "--bootstrap-controller",
        envvar="RAFTNODE_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,…",
        help=SERVERS_HELP,
    ),
]


@dataclass(frozen=True, slots=True)
class KafkaConnection(Connection):
    """The same flags, with Kafka's other name of the first."""

    bootstrap_server: BootstrapServer = DEFAULT_SERVER


ReplicaId = Annotated[
    int,
    typer.Option(
        "--replica-id",
        "--replicaId",
        "--controller-id",
        "-i",
        min=0,
        max=2**31 - 1,
        help="The replica's node id.",
    ),
]
ReplicaUuid = Annotated[
    str,
    typer.Option(
        "--replica-uuid",
        "--replicaUuid",
        "--controller-directory-id",
        "-d",
        help="The replica's directory id: 22 characters as Kafka prints it, or 36.",
    ),
]
Expected = Annotated[
    str | None,
    typer.Option(
        metavar="OFFSET:EPOCH",
        help="Change the voters only if they still come from this record. Default: the record "
        "that a majority confirms when the command starts.",
    ),
]


@app.command()
@with_flag_groups
def describe(
    *,
    status: Annotated[bool, typer.Option("--status", help="Print a summary.")] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Print one line per replica.")
    ] = False,
    human_readable: Annotated[
        bool,
        typer.Option("--human-readable", help="With --replication: ages instead of timestamps."),
    ] = False,
    confirmed: Annotated[
        bool, typer.Option("--confirmed", help="Ask the leader to let a majority confirm it first.")
    ] = False,
    connection: KafkaConnection,
    as_json: AsJson = False,
) -> None:
    """Describe the quorum as the leader sees it: --status or --replication."""
    if (status and replication) or not (status or replication or as_json):
        raise usage("describe: give one of --status and --replication")
    if human_readable and not replication:
        raise usage("describe: --human-readable goes with --replication only")
    info = ask(
        connection,
        lambda client: client.describe_quorum(confirmed=confirmed),
    )
    if as_json:
        print_json(info.model_dump(mode="json"))
    elif status:
        print_fields(status_fields(info), width=STATUS_WIDTH)
    else:
        now_ms = None if human_readable else time.time_ns() // 1_000_000
        header, rows = replication_table(info, now_ms=now_ms)
        print_table(header, rows)


@app.command()
@with_flag_groups
def add_voter(
    *,
    replica_id: ReplicaId,
    replica_uuid: ReplicaUuid,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the replica listens for peers. Default: the address that it reported.",
        ),
    ] = None,
    replaces: Annotated[
        str | None,
        typer.Option(
            metavar="ID-UUID",
            help="Also remove this voter, once the leader has committed the addition.",
        ),
    ] = None,
    expected: Expected = None,
    connection: KafkaConnection,
    as_json: AsJson = False,
) -> None:
    """Make an observer a voter and wait for the commit."""
    replica = _replica(replica_id, replica_uuid)
    try:
        old = Replica.of(ReplicaKey.parse(replaces)) if replaces else None
        where = str(Endpoint.parse(endpoint)) if endpoint else None
    except ValueError as error:
        raise usage(str(error)) from None
    voter = VoterSpec(node_id=replica.node_id, directory_id=replica.directory_id, endpoint=where)
    given = _expected(expected)

    async def work(client: QuorumClient) -> VoterChanged:
        before = given or (await client.describe_quorum(confirmed=True)).voter_record
        return await client.add_voter(voter, before, replaces=old)

    _show_change(ask(connection, work), as_json=as_json)


@app.command()
@with_flag_groups
def remove_voter(
    *,
    replica_id: ReplicaId,
    replica_uuid: ReplicaUuid,
    expected: Expected = None,
    connection: KafkaConnection,
    as_json: AsJson = False,
) -> None:
    """Remove a voter and wait for the commit."""
    replica = _replica(replica_id, replica_uuid)
    given = _expected(expected)

    async def work(client: QuorumClient) -> VoterChanged:
        before = given or (await client.describe_quorum(confirmed=True)).voter_record
        return await client.remove_voter(replica, before)

    _show_change(ask(connection, work), as_json=as_json)


@app.command()
@with_flag_groups
def reassign(
    *,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="ID[-UUID],…",
            help="The voters that the quorum is to have. An id without directory id names the "
            "only replica of that id.",
        ),
    ] = None,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Cancel the reassignment; the voters stay as they are now."),
    ] = False,
    expected: Expected = None,
    connection: KafkaConnection,
    as_json: AsJson = False,
) -> None:
    """Set the target voters; the leader adds and removes one voter at a time.

    The command returns once the target is committed. The voters are changed once `describe
    --status` shows no TargetVoters. A new target replaces one that is not reached.
    """
    if (targets is None) != cancel:
        raise usage("reassign: give one of --targets and --cancel")
    specs = _targets(targets) if targets is not None else ()
    given = _expected(expected)

    async def work(client: QuorumClient) -> ReassignmentAccepted:
        if cancel:
            return await client.cancel_reassignment()
        before = given or (await client.describe_quorum(confirmed=True)).assignment_record
        if before is None:
            raise usage("reassign: the node runs a version without reassignment; upgrade it first")
        return await client.reassign(specs, before)

    accepted = ask(connection, work)
    if as_json:
        print_json(accepted.model_dump(mode="json"))
    elif accepted.target_voters:
        voters = ", ".join(str(voter.key) for voter in accepted.target_voters)
        typer.echo(f"committed; target voters: {voters}")
    else:
        typer.echo("committed; the voters need no further change")


@app.command()
@with_flag_groups
def transfer(
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ID[-UUID]",
            help="The voter that is to lead. The leader refuses a voter that is not caught "
            "up. Default: the leader chooses.",
        ),
    ] = None,
    connection: KafkaConnection,
    as_json: AsJson = False,
) -> None:
    """Make the leader transfer leadership; the new leader starts its election at once."""
    wanted = _targets(to, "--to") if to is not None else ()
    if len(wanted) > 1:
        raise usage(f"--to: {to!r}; expected one ID or ID-UUID")

    async def work(client: QuorumClient) -> NodeInfo:
        preferred = await _voter(client, wanted[0]) if wanted else None
        return await client.resign(preferred=preferred)

    left = ask(connection, work)
    if as_json:
        print_json(left.model_dump(mode="json"))
    else:
        typer.echo(f"{left.node_id}-{left.directory_id} transferred leadership")


async def _voter(client: QuorumClient, wanted: TargetSpec) -> Replica:
    """Find the voter that an id names; the leader decides whether it can take leadership."""
    if wanted.directory_id is not None:
        return Replica(node_id=wanted.node_id, directory_id=wanted.directory_id)
    info = await client.describe_quorum()
    matches = [voter for voter in info.voters if voter.node_id == wanted.node_id]
    if len(matches) != 1:
        raise usage(
            f"--to: {wanted.node_id} is the id of {len(matches)} voters; name a voter by ID-UUID"
        )
    return Replica(node_id=matches[0].node_id, directory_id=matches[0].directory_id)


@app.command()
@with_flag_groups
def upgrade(
    *,
    raft_version: Annotated[
        int,
        typer.Option(
            "--raft-version",
            min=0,
            max=2,
            help="1: only the node ids of the formation vote; 2: any replica can become a voter.",
        ),
    ],
    connection: KafkaConnection,
    as_json: AsJson = False,
) -> None:
    """Raise raft.version once every replica's program knows it; it is never lowered."""
    final = ask(connection, lambda client: client.upgrade(raft_version))
    if as_json:
        print_json(final.model_dump(mode="json"))
    else:
        typer.echo(f"raft.version is now {final.raft_version}, and is never lowered")


STATUS_WIDTH = 24
"""Where the values of `describe --status` begin, as in Kafka's tool."""


def status_fields(info: QuorumInfo) -> list[tuple[str, object]]:
    """The fields of `describe --status`, with the names of the KIPs and of Kafka's tool (P60)."""
    targets = [("TargetVoters", _ids(info.target_voters))] if info.target_voters else []
    lag, lag_time_ms = _max_follower_lag(info)
    return [
        ("ClusterId", info.cluster_id),
        ("LeaderId", info.leader.node_id),
        ("LeaderEpoch", info.epoch),
        ("HighWatermark", info.high_watermark),
        ("MaxFollowerLag", lag),
        ("MaxFollowerLagTimeMs", lag_time_ms),
        ("CurrentVoters", _ids(info.voters)),
        ("CouldBeVoters", _could_be_voters(info)),
        ("CurrentObservers", _ids(info.observers)),
        *targets,
        ("LogStartOffset", info.log_start_offset),
    ]


def _max_follower_lag(info: QuorumInfo) -> tuple[int, int]:
    """The records that the voter farthest behind lacks, and how long ago it had all; -1: never.

    Among voters that lack equally many, the longest time counts: a voter that died on a quiet
    quorum lacks nothing, and its time says that it is gone. Kafka's tool takes the first of them.
    """
    followers = [voter for voter in info.voters if voter.key != info.leader.key]
    lag = max((voter.lag for voter in followers), default=0)
    ages = [voter.last_caught_up_age_ms for voter in followers if voter.lag == lag]
    known = [age for age in ages if age is not None]
    return lag, -1 if len(known) < len(ages) else max(known, default=0)


def _could_be_voters(info: QuorumInfo) -> str:
    """The observers that the leader would let become voters, by its own rules."""
    if any(observer.could_be_voter is None for observer in info.observers):
        return "unknown: the leader runs an earlier version"
    return _ids(tuple(replica for replica in info.observers if replica.could_be_voter))


def replication_table(
    info: QuorumInfo, *, now_ms: int | None
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """The columns and rows of `describe --replication`: Kafka's seven, then KIP-595's LagTimeMs.

    Args:
        info: the leader's description.
        now_ms: Unix time for timestamps; None: ages, for `--human-readable`.
    """
    header = (
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
        "LagTimeMs",
    )

    def row(replica: ReplicaProgress, status: str) -> tuple[object, ...]:
        age_ms = replica.last_caught_up_age_ms
        return (
            replica.node_id,
            replica.directory_id,
            replica.acknowledged_offset,
            replica.lag,
            _timestamp(replica.last_fetch_age_ms, now_ms),
            _timestamp(age_ms, now_ms),
            status,
            -1 if age_ms is None else age_ms,
        )

    leader = info.leader.key
    rows = [row(voter, "Leader") for voter in info.voters if voter.key == leader]
    rows += [row(voter, "Follower") for voter in info.voters if voter.key != leader]
    rows += [row(observer, "Observer") for observer in info.observers]
    return header, rows


def _timestamp(age_ms: int | None, now_ms: int | None) -> object:
    if age_ms is None:
        return -1
    return f"{age_ms} ms ago" if now_ms is None else now_ms - age_ms


def _ids(replicas: tuple[ReplicaProgress, ...]) -> str:
    return json.dumps(
        [{"id": replica.node_id, "uuid": replica.directory_id} for replica in replicas]
    )


def _replica(replica_id: int, replica_uuid: str) -> Replica:
    try:
        directory_id = format_directory_id(parse_directory_id(replica_uuid))
        return Replica(node_id=replica_id, directory_id=directory_id)
    except ValueError as error:
        raise usage(f"--replica-uuid: {error}") from None


def _targets(text: str, flag: str = "--targets") -> tuple[TargetSpec, ...]:
    """Read `id,id-uuid,…`."""
    specs: list[TargetSpec] = []
    for part in (part.strip() for part in text.split(",")):
        try:
            if part.isdecimal():
                specs.append(TargetSpec(node_id=int(part)))
            else:
                replica = Replica.of(ReplicaKey.parse(part))
                specs.append(TargetSpec(node_id=replica.node_id, directory_id=replica.directory_id))
        except ValueError:
            raise usage(f"{flag}: {part!r}; expected ID or ID-UUID") from None
    return tuple(specs)


def _expected(text: str | None) -> VoterRecord | None:
    if text is None:
        return None
    offset, _, epoch = text.partition(":")
    try:
        return VoterRecord(offset=int(offset), epoch=int(epoch))
    except ValueError:
        raise usage(f"--expected: {text!r}; expected OFFSET:EPOCH") from None


def _show_change(changed: VoterChanged, *, as_json: bool) -> None:
    if as_json:
        print_json(changed.model_dump(mode="json"))
        return
    voters = ", ".join(str(voter.key) for voter in changed.voters)
    record = changed.voter_record
    typer.echo(f"committed at {record.offset}, epoch {record.epoch}; voters: {voters}")
