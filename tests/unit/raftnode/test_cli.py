"""The program: what it prints, on which stream, and with which exit code it ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from proofkit.memoryservice import MemoryService
from raftnode.api.errors import refusal
from raftnode.api.model import ReplicaProgress
from raftnode.api.server import ApiServer, make_app
from raftnode.cli import GROUPS
from raftnode.cli import make_app as make_cli
from raftnode.commands.output import EXIT_CODE_MEANINGS, CommandExitCode
from raftnode.commands.quorum import status_fields
from raftnode.commands.storage import random_id
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, format_directory_id
from raftnode.errors import ExitCode
from raftnode.settings import NodeSettings

OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2 << 64 | 7))
OTHER_UUID = format_directory_id(OTHER.directory_id)
CLI = make_cli()


class Node:
    """A node in a thread of its own, since commands run a loop of theirs."""

    def __init__(self) -> None:
        self.service = MemoryService()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._started.wait(60)

    async def _serve(self) -> None:
        app = make_app(self.service, registry=CollectorRegistry(), version="1")
        server = ApiServer(app, shutdown_grace_ms=0)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.service.api_endpoint = await server.start(Endpoint("127.0.0.1", 0))
        self._started.set()
        await self._stop.wait()
        await server.stop()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


@pytest.fixture
def node() -> Iterator[Node]:
    one = Node()
    yield one
    one.stop()


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(CLI, list(arguments), input=stdin)


def ask(node: Node, *arguments: str, stdin: bytes | None = None) -> Result:
    server = str(node.service.api_endpoint)
    return run(*arguments, "--bootstrap-server", server, "--timeout-ms", "60000", stdin=stdin)


def test_keys_are_written_read_listed_and_deleted(node: Node):
    assert ask(node, "kv", "put", "Europe/Berlin", "one").exit_code == 0
    assert ask(node, "kv", "put", "raw", stdin=b"\x00\xff").exit_code == 0
    assert ask(node, "kv", "get", "raw").stdout_bytes == b"\x00\xff"
    listed = ask(node, "kv", "list", "Europe/").stdout.split("\t")
    assert listed[1:] == ["3", "Europe/Berlin\n"]
    assert json.loads(ask(node, "kv", "list", "--json").stdout.splitlines()[1])["key"] == "raw"
    assert "committed at" in ask(node, "kv", "delete", "raw").stdout
    missing = ask(node, "kv", "get", "raw")
    assert missing.exit_code == CommandExitCode.NOT_FOUND
    assert missing.stderr == "raftnode: 'raw' has no value\n"


def test_log_is_appended_and_read(node: Node):
    assert ask(node, "log", "append", "a", "b\n").exit_code == 0
    lines = ask(node, "log", "read").stdout.splitlines()
    assert "LeaderChange" in lines[0]
    assert [line.split("\t")[-1] for line in lines[-2:]] == ["a", "b\\n"]
    (last,) = ask(
        node, "log", "read", "--offset", "4", "--limit", "1", "--json"
    ).stdout.splitlines()
    assert json.loads(last)["value"] == "YQ=="


@pytest.mark.rule("P60")
def test_status_has_the_fields_of_the_documents(node: Node):
    node.service.observe_replica(OTHER)
    shown = ask(node, "metadata-quorum", "describe", "--status").stdout
    names = [line.partition(":")[0] for line in shown.splitlines()]
    assert names == [
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CouldBeVoters",
        "CurrentObservers",
        "LogStartOffset",  # ours
    ]
    could_be = next(line for line in shown.splitlines() if line.startswith("CouldBeVoters"))
    assert json.loads(could_be.partition(":")[2]) == [{"id": 2, "uuid": OTHER_UUID}]


@pytest.mark.rule("P60")
def test_replication_has_the_columns_of_kafkas_tool(node: Node):
    node.service.observe_replica(OTHER)
    lines = ask(node, "metadata-quorum", "describe", "--replication").stdout.splitlines()
    assert lines[0].split() == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
        "LagTimeMs",
    ]
    assert [line.split()[-2:] for line in lines[1:]] == [["Leader", "0"], ["Observer", "0"]]
    assert lines[2].split()[1] == OTHER_UUID


@pytest.mark.rule("P60", "P61")
@pytest.mark.parametrize(
    "words",
    [
        "--bootstrap-server {} describe --status",
        "--bootstrap-controller={} describe --stat",
        "describe --status --status --bootstrap-server {}",
        "desc --boot {} --status",
        "--bootstrap-server 127.0.0.1:1 describe --bootstrap-server {} --status",
        "--describe --bootstrap-server {}",
        "--describe --bootstrap-server {} status",
        "--bootstrap-server {} --describe --status",
    ],
)
def test_status_is_asked_for_in_any_order_of_words(node: Node, words: str):
    shown = run("metadata-quorum", *words.format(node.service.api_endpoint).split())
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("ClusterId:              memory\nLeaderId:               1\n")


@pytest.mark.rule("P60", "P61")
@pytest.mark.without(
    "commands.kafka_syntax:arrange", "return [command, *arranged]", "return list(arguments)"
)
@pytest.mark.parametrize(
    "words",
    [
        "--bootstrap-server {} describe --replication",
        "describe --bootstrap-server {} --rep",
        "--bootstrap-server {} --describe replication",
        "--describe --bootstrap-server {} --replication",
        "--describe replication --human --bootstrap-server {}",
    ],
)
def test_replication_is_asked_for_in_any_order_of_words(node: Node, words: str):
    shown = run("metadata-quorum", *words.format(node.service.api_endpoint).split())
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.split()[:2] == ["NodeId", "DirectoryId"]
    assert ("0 ms ago" in shown.stdout) == ("--human" in words)


@pytest.mark.rule("P61")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("describe --status --replication", "give one of --status and --replication"),
        ("describe --status --human-readable", "goes with --replication only"),
        ("describe --status --bogus", "No such option: --bogus"),
        ("describe --status extra", "extra"),
        ("--bogus describe --status", "no such option before the command: --bogus"),
        ("--bootstrap-server", "no command given"),
        ("--bootstrap-server a:1", "no command given"),
        ("--bootstrap-server a:1 --bootstrap-controller b:1 describe", "not allowed with"),
        ("re -i 1", "no such command: 're'; expected one of reassign, remove-voter"),
        ("add-controller", "use add-voter"),
        ("remove-voter -i 1 --controller-id 2 -d x", "--controller-id is given twice: 1 and 2"),
        ("remove-voter -i 1 -dx -i2", "-i is given twice: 1 and 2"),
        ("remove-voter -i1 -i 2 -d x", "-i is given twice: 1 and 2"),
        ("remove-voter -i1 -da --replica-uuid=b", "--replica-uuid is given twice: a and b"),
        ("remove-controller -i 1", "--replica-uuid"),
        ("remove-voter -i", "-i"),
        ("-i1 remove-voter -i2 -d x", "-i is given twice: 1 and 2"),
        ("-i1 remove-voter -dx", "not a directory id: 'x'"),
        ("remove-voter -d AAAAAAAAAAAAAAAAAAAAAQ -i 2147483648", "'--replica-id'"),
    ],
)
def test_words_that_mean_nothing_or_two_things_are_refused(words: str, says: str):
    refused = run("metadata-quorum", *words.split())
    assert refused.exit_code == ExitCode.USAGE, refused.output
    assert says in refused.output
    assert refused.stdout == ""


@pytest.mark.rule("P61")
@pytest.mark.parametrize("words", ["-h", "--help", "describe -h", "--describe -h", "-h describe"])
def test_help_is_asked_for_as_kafkas_tool_is(words: str):
    shown = run("metadata-quorum", *words.split())
    assert shown.exit_code == 0, shown.output
    assert "Usage: " in shown.stdout
    assert ("--human-readable" in shown.stdout) == (words in {"describe -h", "--describe -h"})


@pytest.mark.rule("P61")
@pytest.mark.without(
    "commands.kafka_syntax:_arrange_options",
    "yield (value := following)",
    "yield (value := flags.get(following, following))",
)
def test_value_of_an_option_is_no_word_of_describe(node: Node):
    words = ("--describe", "--hosts-file", "replication")
    shown = run("metadata-quorum", *words, "--bootstrap-server", str(node.service.api_endpoint))
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("ClusterId:")


@pytest.mark.rule("P60")
def test_status_of_a_follower_is_the_leaders_and_of_no_leader_none(node: Node):
    """A follower's own view would show lags that it cannot know."""
    leader, follower = MemoryService(2), node.service
    follower.follow(leader.key)
    server = str(follower.api_endpoint)
    words = ("describe", "--status", "--bootstrap-server", server, "--timeout-ms", "300")
    shown = run("metadata-quorum", *words)
    assert (shown.exit_code, shown.stdout) == (CommandExitCode.UNAVAILABLE, "")
    assert "no node could serve it in time" in shown.stderr
    other = Node()
    try:
        follower.follow(other.service.key, other.service.api_endpoint)
        shown = ask(node, "metadata-quorum", "describe", "--replication")
        assert other.service.describe_node().directory_id in shown.stdout
        assert follower.describe_node().directory_id not in shown.stdout
    finally:
        other.stop()


@pytest.mark.rule("P59", "P60")
def test_could_be_voters_of_a_node_of_an_earlier_version_are_unknown():
    def replica(number: int, **known: object) -> ReplicaProgress:
        return ReplicaProgress(
            node_id=number,
            directory_id=format_directory_id(uuid.UUID(int=number)),
            endpoint=None,
            acknowledged_offset=90,
            lag=10,
            last_fetch_age_ms=1,
            last_caught_up_age_ms=1,
            caught_up=True,
            fenced=False,
            incarnation=1,
        ).model_copy(update=known)

    quorum = asyncio.run(MemoryService().describe_quorum(confirmed=False, timeout_ms=1))

    def shown(*observers: ReplicaProgress) -> object:
        info = quorum.model_copy(update={"observers": observers})
        return dict(status_fields(info))["CouldBeVoters"]

    assert shown() == "[]"
    assert shown(replica(7)) == "unknown: the leader runs an earlier version"
    could = replica(7, could_be_voter=True)
    fenced = replica(8, could_be_voter=False)
    assert shown(could, fenced) == f'[{{"id": 7, "uuid": "{could.directory_id}"}}]'


@pytest.mark.rule("P60")
def test_max_follower_lag_time_is_that_of_the_voter_farthest_behind():
    quorum = asyncio.run(MemoryService().describe_quorum(confirmed=False, timeout_ms=1))

    def lags(*followers: tuple[int, int | None]) -> tuple[object, object]:
        voters = [
            quorum.voters[0].model_copy(
                update={"node_id": 10 + number, "lag": lag, "last_caught_up_age_ms": age_ms}
            )
            for number, (lag, age_ms) in enumerate(followers)
        ]
        info = quorum.model_copy(update={"voters": (*quorum.voters, *voters)})
        fields = dict(status_fields(info))
        return fields["MaxFollowerLag"], fields["MaxFollowerLagTimeMs"]

    assert lags() == (0, 0)
    assert lags((4, 10), (34, 15), (10, 99)) == (34, 15)
    assert lags((4, 10), (34, None)) == (34, -1)
    assert lags((4, None), (34, 15)) == (34, 15)
    assert lags((0, 200), (0, 3_600_000)) == (0, 3_600_000)


@pytest.mark.rule("P61")
@pytest.mark.without(
    "commands.quorum:remove_voter",
    "client.remove_voter(replica, before)",
    "client.remove_voter(replica, (await client.describe_quorum(confirmed=True)).voter_record)",
)
def test_voters_are_added_and_removed_also_in_the_documents_spelling(node: Node):
    node.service.observe_replica(OTHER)
    added = ask(
        node, "metadata-quorum", "add-voter", "--replicaId", "2", "--replicaUuid", OTHER_UUID
    )
    assert (added.exit_code, str(OTHER) in added.stdout) == (0, True)
    arguments = ("metadata-quorum", "remove-voter", "-i", "2", "-d", OTHER_UUID)
    stale = ask(node, *arguments, "--expected", "0:0")
    assert stale.exit_code == CommandExitCode.REFUSED
    assert stale.stderr.startswith("raftnode: STALE_VOTER_RECORD: ")
    assert stale.stderr.count("\n") == 1
    assert ask(node, *arguments, "--json").exit_code == 0


def test_unknown_outcome_and_no_node_there_have_their_own_exit_codes(node: Node):
    node.service.fail_next(refusal("LEADERSHIP_LOST", "gone"))
    unknown = ask(node, "kv", "put", "a", "b")
    assert unknown.exit_code == CommandExitCode.OUTCOME_UNKNOWN
    assert "outcome unknown" in unknown.stderr
    absent = run("kv", "put", "a", "b", "--bootstrap-server", "127.0.0.1:1", "--timeout-ms", "50")
    assert absent.exit_code == CommandExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kv", "get", "a", "--bootstrap-server", "nowhere"], "not an endpoint: 'nowhere'"),
        (["kv", "get", "a", "--bootstrap-server", ","], "at least one host:port"),
        (["kv", "put", "a", "b", "--file", "c"], "both a value and --file"),
        (["kv", "put", "a", "--file", "/no/such"], "--file: "),
        (["metadata-quorum", "describe"], "give one of --status and --replication"),
        (["metadata-quorum", "add-voter", "-i", "1", "-d", "x"], "--replica-uuid: not a dir"),
        (["run", "--fetch-timeout-ms", "x"], "fetch_timeout_ms: Input should be a valid integer"),
        (["run", "--config", "/no/such"], "/no/such: cannot be read"),
        (["run"], "node_id: Field required; set it by --node-id or RAFTNODE_NODE_ID"),
    ],
)
def test_wrong_flags_are_one_line_and_a_usage_error(arguments: list[str], says: str):
    result = run(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.rule("P47", "P51", "P61", "S2")
@pytest.mark.rule("P53")
@pytest.mark.without(
    "commands.storage:info", "[str(key) for key in latch.voters] if latch else None", "None"
)
@pytest.mark.without(
    "commands.storage:format_directory",
    "format_storage(log_dir, NodeId(node_id), directory_id=given, latch=latch)",
    "format_storage(log_dir, NodeId(node_id), directory_id=given)",
)
def test_standalone_format_gives_a_directory_that_info_describes(tmp_path: Path):
    directory = tmp_path / "data"
    made = run("storage", "format", "--log-dir", str(directory), "--node-id", "7", "--standalone")
    assert made.exit_code == 0, made.stderr
    info = json.loads(run("storage", "info", "--log-dir", str(directory), "--json").stdout)
    assert info["node_id"] == 7
    assert info["formed_with"] == [f"7-{info['directory_id']}"]
    assert info["cluster_id"]
    again = run("storage", "format", "--log-dir", str(directory), "--node-id", "7")
    assert again.exit_code == ExitCode.USAGE
    assert "not empty" in again.stderr
    assert "node_id:" in run("storage", "info", "--log-dir", str(directory)).stdout


@pytest.mark.rule("P51")
def test_format_for_a_cluster_without_voters_makes_an_observer(tmp_path: Path):
    where = ["--log-dir", str(tmp_path)]
    assert run("storage", "format", *where, "--node-id", "7", "--cluster-id", "c").exit_code == 0
    info = json.loads(run("storage", "info", *where, "--json").stdout)
    assert (info["cluster_id"], info["formed_with"]) == ("c", None)


@pytest.mark.rule("P51", "S20")
@pytest.mark.without(
    "commands.storage:_listed",
    "if given is None or ReplicaKey(node_id, given) not in voters:",
    "if False:",
)
@pytest.mark.without(
    "commands.storage:format_directory", "if standalone and initial_voters:", "if False:"
)
def test_initial_voters_must_list_this_node_and_name_the_cluster(tmp_path: Path):
    base = ["storage", "format", "--log-dir", str(tmp_path), "--node-id", "1"]
    one, two = random_id(), random_id()
    voters = f"1-{one}@a:9093,2-{two}@b:9093"
    for extra, says in (
        (["--initial-voters", voters], "without --cluster-id"),
        (
            ["--initial-voters", f"2-{two}@b:1", "--cluster-id", "c"],
            "this node's id, 1, is not listed",
        ),
        (["--initial-voters", "2", "--cluster-id", "c"], "not a voter: '2'"),
        (["--initial-voters", f"{voters},2-{two}@c:1", "--cluster-id", "c"], "listed twice"),
        (["--initial-voters", voters, "--standalone"], "both --standalone and --initial-voters"),
        (["--directory-id", "x"], "--directory-id: not a directory id"),
    ):
        result = run(*base, *extra)
        assert (result.exit_code, says in result.stderr) == (ExitCode.USAGE, True), result.stderr
    assert not any(tmp_path.iterdir())
    assert run(*base, "--initial-voters", voters, "--cluster-id", "c").exit_code == 0
    info = json.loads(run("storage", "info", "--log-dir", str(tmp_path), "--json").stdout)
    assert (info["directory_id"], len(info["formed_with"])) == (one, 2)


def test_random_uuid_can_be_a_cluster_id():
    for _ in range(200):
        assert random_id()[0].isalnum()
    assert len(run("storage", "random-uuid").stdout.strip()) == 22


def test_run_has_a_flag_for_every_setting():
    shown = run("run", "--help").stdout
    for name in NodeSettings.model_fields:
        assert f"--{name.replace('_', '-')}"[:24] in shown


def test_every_exit_code_has_a_meaning():
    assert set(EXIT_CODE_MEANINGS) == {*ExitCode, *CommandExitCode}
    assert len({int(code) for code in EXIT_CODE_MEANINGS}) == len(EXIT_CODE_MEANINGS)


def test_each_group_is_imported_by_itself():
    for name in GROUPS:
        app = make_cli(name)
        assert [group.name for group in app.registered_groups] == [name]
        assert not app.registered_commands


def imported(code: str, *modules: str) -> list[str]:
    """Which of these modules a fresh process holds after running the code."""
    code = (
        f"import sys\ntry:\n {code}\nfinally:\n print(sorted({set(modules)} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    return done.stdout.splitlines()


def start(*arguments: str) -> str:
    return f"from raftnode.cli import main; sys.argv = ['raftnode', *{arguments}]; main()"


def test_program_starts_prints_its_version_and_imports_no_server():
    first, last = imported(start("--version"), "aiohttp", "pydantic")
    assert first.startswith("raftnode 0.")
    assert last == "[]"


def test_client_starts_without_what_only_a_node_needs():
    modules = ("aiohttp.web", "kio", "structlog", "prometheus_client", "raftnode.runtime")
    assert imported("import raftnode.client", *modules) == ["[]"]
    assert imported("import raftnode.runtime.builders.node", "aiohttp.web") == ["['aiohttp.web']"]


def test_node_starts_without_hypothesis(tmp_path: Path):
    gone = str(tmp_path / "gone")
    modules = ("kio", "hypothesis.strategies")
    assert imported(start("run", "--node-id", "1", "--log-dir", gone), *modules)[-1] == "['kio']"


def test_leadership_is_transferred_by_name(node: Node):
    own = node.service.key
    before = node.service.describe_node().epoch
    for to in ((), ("--to", str(own.node_id)), ("--to", str(own))):
        done = ask(node, "metadata-quorum", "transfer", *to)
        assert done.stdout == f"{own} transferred leadership\n"
    assert node.service.describe_node().epoch == before + 3
    for wrong, says in (
        ("7", "7 is the id of 0 voters"),
        ("1,2", "expected one"),
        ("x", "ID-UUID"),
    ):
        refused = ask(node, "metadata-quorum", "transfer", "--to", wrong)
        assert refused.exit_code == ExitCode.USAGE
        assert says in refused.stderr


@pytest.mark.rule("P33", "P35", "P56")
@pytest.mark.without(
    "commands.quorum:reassign", "client.reassign(specs, before)", "client.cancel_reassignment()"
)
def test_voters_are_reassigned_and_versions_raised(node: Node):
    node.service.observe_replica(OTHER)
    own = node.service.key
    accepted = ask(node, "metadata-quorum", "reassign", "--targets", "1", "--expected", "3:1")
    assert accepted.exit_code == CommandExitCode.REFUSED
    assert "STALE_VOTER_RECORD" in accepted.stderr
    for form in ((), ("--json",)):
        accepted = ask(node, "metadata-quorum", "reassign", "--targets", "1", *form)
        assert accepted.exit_code == 0, accepted.stderr
        assert format_directory_id(own.directory_id) in accepted.stdout
    assert "no further change" in ask(node, "metadata-quorum", "reassign", "--cancel").stdout
    assert "is now 2" in ask(node, "metadata-quorum", "upgrade", "--raft-version", "2").stdout
    lower = ask(node, "metadata-quorum", "upgrade", "--raft-version", "0", "--json")
    assert "VERSION_NOT_LOWERED" in lower.stderr
