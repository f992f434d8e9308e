"""Kafka's metadata-quorum tool and ours, on quorums of the same shape with the same history.

Three voters, of which one dies, and an observer. The first half gives Kafka's own answer to our
printing, so both tools describe one and the same quorum and their lines must agree. The second
half does the same to a quorum of our nodes and compares what is the same in both. Differences
are those of P60 and P61 in the KIP map, each named here.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proofkit.kafkacontroller import PORT
from proofkit.kafkaquorum import KafkaQuorum
from proofkit.localquorum import LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork, claim_loopback
from raftnode.api.model import QuorumInfo, Replica, ReplicaProgress, VoterRecord
from raftnode.cli import make_app
from raftnode.commands.output import CommandExitCode, print_fields, print_table
from raftnode.commands.quorum import STATUS_WIDTH, replication_table, status_fields
from raftnode.commands.storage import random_id
from raftnode.core.types import format_directory_id
from raftnode.errors import ExitCode

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.rule("P26", "P60", "P61")]

CLI = make_app("metadata-quorum")
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
VOTERS, OBSERVER = 3, 3
FIRST_HOST = 11
OURS_ONLY = ("CouldBeVoters", "LogStartOffset")
"""KIP-856's field, which Kafka did not take over, and one of ours."""


@dataclass(frozen=True)
class Theirs:
    """Kafka's quorum after its history: voter `dead` was killed and lacks `lag` records."""

    quorum: KafkaQuorum
    leader: int
    dead: int
    before: Any
    after: Any
    status: str
    replication: str

    @property
    def lag(self) -> int:
        """How many records the dead voter lacks."""
        ends = {one.replica_id: one.log_end_offset for one in self.before.current_voters}
        return int(ends[self.leader] - ends[self.dead])


def run_theirs(quorum: KafkaQuorum, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Kafka's tool; it gives up an answer that does not come within a few seconds."""
    patience = quorum.root / "client.properties"
    patience.write_text("default.api.timeout.ms=8000\nrequest.timeout.ms=4000\n")
    command = quorum.command(TOOL, *words)
    at = command.index(TOOL) + 1
    if "--command-config" not in words and any(word.startswith("--bootstrap") for word in words):
        command[at:at] = ["--command-config", str(patience)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def info_of(answer: Any, cluster_id: str) -> QuorumInfo:
    """Kafka's answer as if a node of ours had given it; ages are by the leader's clock."""
    leader = next(one for one in answer.current_voters if one.replica_id == answer.leader_id)
    now_ms = milliseconds(leader.last_caught_up_timestamp)
    assert now_ms is not None

    def progress(state: Any) -> ReplicaProgress:
        def age(timestamp: Any) -> int | None:
            at = milliseconds(timestamp)
            return None if at is None else now_ms - at

        return ReplicaProgress(
            node_id=state.replica_id,
            directory_id=format_directory_id(state.replica_directory_id),
            endpoint=None,
            acknowledged_offset=state.log_end_offset,
            lag=leader.log_end_offset - max(state.log_end_offset, 0),
            last_fetch_age_ms=age(state.last_fetch_timestamp),
            last_caught_up_age_ms=age(state.last_caught_up_timestamp),
            caught_up=False,
            fenced=False,
            incarnation=1,
            could_be_voter=False,
        )

    voters = tuple(progress(state) for state in answer.current_voters)
    return QuorumInfo(
        cluster_id=cluster_id,
        leader=Replica(
            node_id=answer.leader_id,
            directory_id=format_directory_id(leader.replica_directory_id),
        ),
        epoch=answer.leader_epoch,
        high_watermark=answer.high_watermark,
        log_end_offset=leader.log_end_offset,
        voters=voters,
        committed_voters=(),
        voter_record=VoterRecord(offset=0, epoch=0),
        voter_record_committed=True,
        observers=tuple(progress(state) for state in answer.observers),
        pending_change=None,
        formation_completed=True,
        epoch_committed=True,
        confirmed=False,
    )


def milliseconds(timestamp: Any) -> int | None:
    """A timestamp of Kafka's; None: unknown, which is -1 on the wire."""
    if hasattr(timestamp, "timestamp"):
        timestamp = round(timestamp.timestamp() * 1000)
    return None if timestamp is None or int(timestamp) < 0 else int(timestamp)


def printed(capture: pytest.CaptureFixture[str]) -> list[str]:
    return capture.readouterr().out.splitlines()


@pytest.fixture(scope="module")
def theirs(
    kafka: Any, session_network: LoopbackNetwork, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Theirs]:
    hosts = [session_network.host(FIRST_HOST + number) for number in range(VOTERS + 1)]
    directory_ids = [random_id() for _ in range(VOTERS)]
    root = tmp_path_factory.mktemp("kafka-quorum")
    with KafkaQuorum(root, hosts, kafka.command, random_id(), directory_ids) as quorum:
        quorum.format()
        for number in range(VOTERS):
            quorum.start(number)
        quorum.until(lambda answer: min(voter_ends(answer)) == answer.high_watermark)
        leader = quorum.leader()
        dead = (leader + 1) % VOTERS
        quorum.kill(dead)
        quorum.start(OBSERVER)  # it registers itself, which the dead voter lacks

        def observed(answer: Any) -> bool:
            ends = [one.log_end_offset for one in answer.observers]
            return ends == [answer.high_watermark] and min(voter_ends(answer)) < ends[0]

        before = quorum.until(observed)
        server = f"{hosts[leader]}:{PORT}"
        words = ("--bootstrap-controller", server, "describe")
        status = run_theirs(quorum, *words, "--status")
        replication = run_theirs(quorum, *words, "--replication")
        assert (status.returncode, replication.returncode) == (0, 0), status.stderr
        after = quorum.describe(leader)
        yield Theirs(quorum, leader, dead, before, after, status.stdout, replication.stdout)


@pytest.fixture(scope="module")
def our_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node that leads a quorum of one."""
    with claim_loopback() as network:
        quorum = LocalQuorum(tmp_path_factory.mktemp("ours"), 1, network)

        async def form() -> None:
            async with quorum.client:
                await quorum.form(1)

        try:
            asyncio.run(form())
            yield str(quorum.nodes[0].api)
        finally:
            quorum.nodes[0].kill()


def voter_ends(answer: Any) -> list[int]:
    return [one.log_end_offset for one in answer.current_voters]


def test_status_of_one_quorum_is_the_same_line_by_line(
    theirs: Theirs, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster_id = theirs.quorum.cluster_id
    before, after = (info_of(answer, cluster_id) for answer in (theirs.before, theirs.after))
    assert theirs.lag > 0
    print_fields(
        [field for field in status_fields(before) if field[0] not in OURS_ONLY], width=STATUS_WIDTH
    )
    ours, kafkas = printed(capsys), theirs.status.splitlines()
    time_of = "MaxFollowerLagTimeMs:   "
    for our_line, their_line in zip(ours, kafkas, strict=True):
        if our_line.startswith(time_of):  # it grows while they are asked
            times = [int(line.removeprefix(time_of)) for line in (our_line, their_line)]
            assert times[0] <= times[1] <= int(dict(status_fields(after))[time_of.strip(": ")])
        elif our_line.startswith(("CurrentVoters", "CurrentObservers")):
            # KIP-856 names the directory id `uuid`; a node of ours has no named listeners.
            name, text = their_line[:STATUS_WIDTH], their_line[STATUS_WIDTH:]
            listed = [{"id": one["id"], "uuid": one["directoryId"]} for one in json.loads(text)]
            assert our_line == f"{name}{json.dumps(listed)}"
        else:
            assert our_line == their_line


def test_replication_of_one_quorum_is_the_same_line_by_line(
    theirs: Theirs, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[list[list[str]]] = []
    for answer in (theirs.before, theirs.after):
        info = info_of(answer, theirs.quorum.cluster_id)
        leader = next(one for one in answer.current_voters if one.replica_id == answer.leader_id)
        header, table = replication_table(
            info, now_ms=milliseconds(leader.last_caught_up_timestamp)
        )
        print_table(header, table)
        rows.append([line.split() for line in printed(capsys)])
    kafkas = [line.split() for line in theirs.replication.splitlines()]
    before, after = rows
    assert before[0] == [*kafkas[0], "LagTimeMs"]  # KIP-595's column, behind Kafka's seven
    for earlier, their_row, later in zip(before[1:], kafkas[1:], after[1:], strict=True):
        assert [*earlier[:4], earlier[6]] == [*their_row[:4], their_row[6]]
        for column in (4, 5):
            assert int(earlier[column]) <= int(their_row[column]) <= int(later[column])
    [gone] = [row for row in kafkas if row[0] == str(theirs.dead)]
    [ours] = [row for row in before if row[0] == str(theirs.dead)]
    assert ours[:7] == gone, "nothing of a dead voter changes"


def test_timestamps_are_ages_on_request(theirs: Theirs) -> None:
    leader = f"{theirs.quorum.hosts[theirs.leader]}:{PORT}"
    done = run_theirs(
        theirs.quorum,
        "--bootstrap-controller",
        leader,
        "describe",
        "--replication",
        "--human-readable",
    )
    assert done.returncode == 0, done.stderr
    [gone] = [line for line in done.stdout.splitlines() if line.split()[0] == str(theirs.dead)]
    _, table = replication_table(info_of(theirs.before, "any"), now_ms=None)
    [ours] = [row for row in table if row[0] == theirs.dead]
    pattern = re.compile(r"\d+ ms ago")
    assert len(pattern.findall(gone)) == len(pattern.findall(" ".join(map(str, ours)))) == 2


async def test_the_same_history_of_our_nodes_is_described_alike(
    theirs: Theirs, tmp_path: Path, network: LoopbackNetwork
) -> None:
    async with LocalQuorum(tmp_path, VOTERS + 1, network) as quorum:
        await quorum.form(VOTERS)
        await quorum.lead(quorum.nodes[theirs.leader])
        await quorum.put("before", b"value")

        async def level() -> bool | None:
            return all(one.lag == 0 for one in (await quorum.describe()).voters) or None

        await eventually(level, what="all voters to have all")
        quorum.nodes[theirs.dead].kill()
        quorum.nodes[OBSERVER].start()
        await quorum.observe(quorum.nodes[OBSERVER])
        start = (await quorum.describe()).log_end_offset
        for number in range(theirs.lag):
            await quorum.put(f"key-{number}", b"value")
        assert (await quorum.describe()).log_end_offset == start + theirs.lag

        async def level_again() -> bool | None:
            described = await quorum.describe()
            return [one.lag for one in described.observers] == [0] or None

        await eventually(level_again, what="the observer to have all")
        server = str(quorum.nodes[theirs.leader].api)

        def ask(*words: str) -> str:
            done = CliRunner().invoke(
                CLI, ["metadata-quorum", "--bootstrap-server", server, "describe", *words]
            )
            assert done.exit_code == 0, done.output
            return done.stdout

        status = await asyncio.to_thread(ask, "--status")
        replication = await asyncio.to_thread(ask, "--replication")

        # Without a majority no node describes the quorum, and neither does Kafka's tool below.
        for node in quorum.nodes[:VOTERS]:
            node.kill()
        survivor = quorum.nodes[(theirs.leader + 2) % VOTERS]
        survivor.start()
        await quorum.wait_running([survivor])
        words = ("--bootstrap-server", str(survivor.api), "--timeout-ms", "3000")
        command = ["metadata-quorum", *words, "describe", "--status"]
        done = await asyncio.to_thread(CliRunner().invoke, CLI, command)
        assert (done.exit_code, done.stdout) == (CommandExitCode.UNAVAILABLE, "")
    assert kept(status) == kept(theirs.status)
    assert shape(replication) == shape(theirs.replication)
    [could_be] = [line for line in status.splitlines() if line.startswith("CouldBeVoters")]
    assert [one["id"] for one in json.loads(could_be[STATUS_WIDTH:])] == [OBSERVER]


def kept(status: str) -> list[tuple[str, object]]:
    """Of each line that both tools print, what is the same whatever offsets and UUIDs are."""
    found: list[tuple[str, object]] = []
    for line in status.splitlines():
        name, value = line[: STATUS_WIDTH - 1].strip(), line[STATUS_WIDTH:]
        match name:
            case "CouldBeVoters:" | "LogStartOffset:":
                continue
            case "CurrentVoters:" | "CurrentObservers:":
                found.append((name, sorted(one["id"] for one in json.loads(value))))
            case "LeaderId:" | "MaxFollowerLag:":
                found.append((name, int(value)))
            case "ClusterId:":
                found.append((name, len(value)))
            case _:
                found.append((name, int(value) > 0))
    return found


def shape(replication: str) -> list[tuple[str, ...]]:
    """Each replica with its lag, its status, and which of its times are known, by node id."""
    [header, *rows] = [line.split() for line in replication.splitlines()]
    found = [(row[0], row[3], row[6], str(int(row[4]) > 0), str(int(row[5]) > 0)) for row in rows]
    return [tuple(header[:7]), *sorted(found)]


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ("{} describe --status", True),
        ("{} describe --stat", True),
        ("{} desc --status", True),
        ("{} describe --status --status", True),
        ("{} {} describe --replication", True),
        ("-h", True),
        ("{} describe -h", True),
        ("{} describe", False),
        ("{}", False),
        ("{} describe --status --replication", False),
        ("{} describe --status --human-readable", False),
        ("{} describe --bogus", False),
        ("--bogus {} describe --status", False),
        ("{} describe --status extra", False),
        ("{} undescribe --status", False),
        ("{} remove-controller -i 1", False),
        ("{} remove-controller -i one -d AAAAAAAAAAAAAAAAAAAAAQ", False),
        ("{} remove-controller -i -5 -d AAAAAAAAAAAAAAAAAAAAAQ", False),
        ("{} remove-controller -i 1 -d none", False),
    ],
)
def test_both_accept_and_refuse_the_same_words(
    theirs: Theirs, our_server: str, words: str, accepted: bool
) -> None:
    """Kafka exits with 0 or 1; ours has a code for each kind of failure, none of them 0."""
    leader = f"{theirs.quorum.hosts[theirs.leader]}:{PORT}"
    their_words = words.format(*[f"--bootstrap-controller {leader}"] * 2).split()
    our_words = words.format(*[f"--bootstrap-controller {our_server}"] * 2).split()
    done = run_theirs(theirs.quorum, *their_words)
    mine = CliRunner().invoke(CLI, ["metadata-quorum", *our_words])
    assert (done.returncode == 0, mine.exit_code == 0) == (accepted, accepted), mine.output
    if not accepted:
        assert (done.returncode, mine.exit_code) == (1, ExitCode.USAGE)
        assert mine.stdout == done.stdout == ""


def test_neither_describes_a_quorum_without_a_leader(theirs: Theirs) -> None:
    """The last test: it takes Kafka's majority away."""
    other = next(n for n in range(VOTERS) if n not in {theirs.leader, theirs.dead})
    theirs.quorum.kill(other)
    theirs.quorum.kill(theirs.leader)
    theirs.quorum.start(other)
    server = f"{theirs.quorum.hosts[other]}:{PORT}"
    done = run_theirs(theirs.quorum, "--bootstrap-controller", server, "describe", "--status")
    assert (done.returncode, done.stdout) == (1, "")
