"""Commands that name another cluster than the node's: refused, recorded, and without effect."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from commandtree import commands_of
from proofkit.localquorum import LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.api.model import QuorumInfo
from raftnode.cli import make_app
from raftnode.client.credentials import Credentials
from raftnode.commands.output import CommandExitCode
from raftnode.core.types import Endpoint
from raftnode.errors import ExitCode

CLUSTER_ID = "MeantMeantMeantMeantMe"
ANOTHER = "AnotherAnotherAnotherA"
PROGRAM = str(Path(sys.executable).with_name("raftnode"))


@dataclass(frozen=True)
class Row:
    """A command, and what the audit log calls its request. The client may ask for a session first.

    Attributes:
        command: its names and arguments; `{observer}` and its like are of the quorum.
        operation: the API's.
        verb: what the operation does.
    """

    command: str
    operation: str
    verb: str


ROWS = (
    Row("node transfer-leadership", "describeNode", "describe"),
    Row("metadata-quorum describe --status", "describeQuorum", "describe"),
    Row(
        "metadata-quorum add-voter --replica-id 1 --replica-uuid {observer} --expected {record}",
        "addVoter",
        "admin",
    ),
    Row(
        "metadata-quorum remove-voter --replica-id 0 --replica-uuid {voter} --expected {record}",
        "removeVoter",
        "admin",
    ),
    Row("metadata-quorum reassign --targets 1 --expected {target_record}", "reassign", "admin"),
    Row("metadata-quorum reassign --cancel", "cancelReassignment", "admin"),
    Row("metadata-quorum transfer", "resign", "resign"),
    Row("metadata-quorum upgrade --raft-version 2", "upgrade", "admin"),
    Row("log append record", "appendRecords", "write"),
    Row("log read", "readLog", "read"),
    Row("kv get colour", "getKey", "read"),
    Row("kv put colour red", "putKey", "write"),
    Row("kv delete colour", "deleteKey", "write"),
    Row("kv list", "listKeys", "read"),
)
"""Each command that asks a node, those with two kinds of requests twice."""

ADD_VOTER, DELETE = ROWS[2], ROWS[12]


def test_each_command_that_names_its_cluster_has_a_row() -> None:
    naming = {
        path
        for path, options in commands_of(make_app()).items()
        if "--cluster-id" in options and options["--cluster-id"].envvar is not None
    }
    assert naming == {" ".join(row.command.split()[:2]) for row in ROWS}


def subject_of(row: Row) -> str:
    """The subject that runs it: of each, the audit log has only some refusals a minute."""
    return f"runs-{row.operation}"


async def run(
    row: Row, info: QuorumInfo, api: Endpoint, cluster_id: str, credentials: Credentials
) -> tuple[int, str, str]:
    """Run the command as its subject; return its exit code and what it printed."""
    [voter], [observer] = info.voters, info.observers
    target = info.assignment_record
    assert target is not None
    words = row.command.format(
        voter=voter.directory_id,
        observer=observer.directory_id,
        record=f"{info.voter_record.offset}:{info.voter_record.epoch}",
        target_record=f"{target.offset}:{target.epoch}",
    ).split()
    done = await asyncio.to_thread(
        subprocess.run,
        [
            *(PROGRAM, *words),
            *("--api" if words[0] == "node" else "--bootstrap-server", str(api)),
            *("--cluster-id", cluster_id),
            *("--token-file", str(credentials.token_file), "--plaintext-token"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def state_of(info: QuorumInfo) -> dict[str, Any]:
    """All that a change would move, and no times."""
    return info.model_dump(
        include={
            *("cluster_id", "leader", "epoch", "high_watermark", "log_end_offset"),
            *("committed_voters", "voter_record", "pending_change", "target_voters"),
            *("assignment_record", "raft_version"),
        }
    )


async def test_a_command_for_another_cluster_is_refused_and_changes_nothing(
    tmp_path: Path, network: LoopbackNetwork, request: pytest.FixtureRequest
) -> None:
    security = QuorumSecurity(
        tmp_path / "security", CLUSTER_ID, peer_tls="disabled", api_tls="disabled"
    )
    for row in ROWS:
        security.grant(subject_of(row), "read", "write", "admin")
    cache = {"HYPOTHESIS_STORAGE_DIRECTORY": str(request.config.rootpath / ".hypothesis")}
    # Of one voter: no election of a busy machine moves its log.
    async with LocalQuorum(
        tmp_path, 2, network, cache, cluster_id=CLUSTER_ID, security=security
    ) as quorum:
        await quorum.form(1)
        leader, observer = quorum.nodes
        observer.start()
        await quorum.observe(observer)
        await quorum.put("colour", b"blue")
        before = await quorum.describe()

        async def refused(row: Row) -> None:
            credentials = security.credentials(subject_of(row))
            code, printed, said = await run(row, before, leader.api, ANOTHER, credentials)
            assert (code, printed) == (CommandExitCode.REFUSED, ""), (row, said)
            assert "INCONSISTENT_CLUSTER_ID" in said, row
            assert ANOTHER in said, row
            assert CLUSTER_ID in said, row

        async def recorded(row: Row) -> None:
            expected = {
                "event": "refused",
                "subject": subject_of(row),
                "authenticated_by": "token",
                "listener": "api",
                "verb": row.verb,
                "operation": row.operation,
                "outcome": "not_done",
                "error": "INCONSISTENT_CLUSTER_ID",
                "reason": "other_cluster",
            }

            async def look() -> bool | None:  # a thread writes the log
                lines = [
                    {name: value for name, value in line.items() if name not in {"time", "remote"}}
                    for line in leader.audited()
                    if line.get("subject") == subject_of(row)
                ]
                return expected in lines or None

            await eventually(look, what=f"the line about {row}")

        for row in ROWS:
            await refused(row)
            await recorded(row)
            assert state_of(await quorum.describe()) == state_of(before), row
        value = await quorum.client.get("colour")
        assert value is not None
        assert value.value == b"blue"

        # The same commands for this cluster are no fault of their arguments.
        for row in (DELETE, ADD_VOTER):
            credentials = security.credentials(subject_of(row))
            code, _, said = await run(row, before, leader.api, CLUSTER_ID, credentials)
            assert code == ExitCode.OK, (row, said)
        assert await quorum.client.get("colour") is None
        assert {voter.node_id for voter in (await quorum.describe()).voters} == {0, 1}
