"""Each line and column of `describe`, held against the disks of a quorum that moves (P26, P60).

The command asks a real API server, whose service looks at the leader of a playbook. Each line of
the code that makes a value is broken once, by a constant or a neighbour's value.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from proofkit.playbook import Playbook
from proofkit.playbook.book import CLUSTER_ID
from proofkit.playbook.message import key_of
from raftnode.api.server import ApiServer, make_app
from raftnode.api.turns import Turns
from raftnode.cli import make_app as make_cli
from raftnode.core.types import Endpoint, format_directory_id
from raftnode.runtime.process import clock
from raftnode.runtime.service import Service

from .disk_readings import Fetches, committed_end, durable_end, log_end

CLI = make_cli("metadata-quorum")
STATUS = "commands.quorum:status_fields"
LAG = "commands.quorum:_max_follower_lag"
TABLE = "commands.quorum:replication_table"
CORE = "core.describe:describe"
OTHER = "core.describe:_other"
OWN = "core.describe:_self"
SHOWN = "runtime.description:describe_quorum"
PROGRESS = "runtime.description:_progress"


class Api:
    """The real API of the node that leads, in a thread of its own: commands run their own loop."""

    def __init__(self, book: Playbook, name: str) -> None:
        # A look needs the core alone, and the API the turns in which records are read.
        parts = dict.fromkeys(inspect.signature(Service).parameters)
        needed = {"core": book[name].core, "reads": SimpleNamespace(turns=Turns())}
        self.service = Service(**parts | needed)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._started.wait(60)

    async def _serve(self) -> None:
        app = make_app(self.service, registry=CollectorRegistry(), version="1.2")
        server = ApiServer(app, shutdown_grace_ms=0)
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self.endpoint = await server.start(Endpoint("127.0.0.1", 0))
        self._started.set()
        await self._stopped.wait()
        await server.stop()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(60)

    def describe(self, *options: str) -> str:
        words = ["metadata-quorum", "describe", *options]
        where = ["--bootstrap-server", str(self.endpoint), "--timeout-ms", "60000"]
        done = CliRunner().invoke(CLI, words + where)
        assert done.exit_code == 0, done.output
        return done.stdout

    def status(self) -> dict[str, str]:
        lines = [line.partition(":") for line in self.describe("--status").splitlines()]
        return {name: value.strip() for name, _, value in lines}

    def replication(self) -> dict[str, dict[str, str]]:
        """By directory id."""
        header, *lines = (line.split() for line in self.describe("--replication").splitlines())
        rows = [dict(zip(header, line, strict=True)) for line in lines]
        return {row["DirectoryId"]: row for row in rows}


def directory(name: str) -> str:
    return format_directory_id(key_of(name).directory_id)


def listed(*names: str) -> list[dict[str, object]]:
    return [{"id": int(name.rstrip("'")), "uuid": directory(name)} for name in names]


class Moved:
    """2 leads in epoch 2 and writes; 3 is cut off, 4 and the second disk of 1 observe.

    4's disk is slow, so that it asks often and never has all of the log.
    """

    def __init__(self) -> None:
        book = self.book = Playbook.formed("1", "2", "3")
        book.elect("2")
        self.fetches = Fetches(book, "2")
        book.observer("4")
        book.observer("1'")
        book.run(700)
        book["2"].snapshot(book.now_ms, trim_to=2)
        book["3"].flushes = book["4"].flushes = False
        self._behind("3", "4")
        book.isolate("3")
        for _ in range(2):
            self._behind("4")
        book["2"].flushes = False
        book.append("2", b"on the leader's disk only")
        book["2"].flush(book.now_ms)
        book.append("2", b"in the leader's memory only")
        book.wait(30)  # nothing is delivered

    def _behind(self, *names: str) -> None:
        """Let these ask with what is no longer all."""
        self.book.append("2", b"early")
        self.book.run(60)
        self.book.append("2", b"late")
        for name in names:
            self.book[name].flush(self.book.now_ms)
        self.book.run(60)

    def lag(self, name: str) -> int:
        return log_end(self.book, "2") - durable_end(self.book, name)


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Moved:
    made = Moved()
    monkeypatch.setattr(clock, "now_ms", lambda: made.book.now_ms)
    return made


@pytest.fixture
def api(moved: Moved) -> Iterator[Api]:
    made = Api(moved.book, "2")
    yield made
    made.stop()


FOLLOWERS, OBSERVERS = ("1", "3"), ("1'", "4")


@pytest.mark.rule("P60")
@pytest.mark.without(LAG, "max((voter.lag for", "min((voter.lag for")
@pytest.mark.without(LAG, "max((voter.lag for voter in followers), default=0)", "0")
@pytest.mark.without(
    LAG, "voter.lag for voter in followers", "voter.lag for voter in info.observers"
)
@pytest.mark.without(LAG, "max(known, default=0)", "0")
@pytest.mark.without(LAG, "voter.last_caught_up_age_ms", "voter.last_fetch_age_ms")
@pytest.mark.without(STATUS, "info.high_watermark", "0")
@pytest.mark.without(STATUS, "info.high_watermark", "info.log_end_offset")
@pytest.mark.without(STATUS, '("ClusterId", info.cluster_id)', '("ClusterId", "cluster")')
@pytest.mark.without(STATUS, "info.leader.node_id", "info.voters[0].node_id")
@pytest.mark.without(STATUS, "info.epoch", "1")
@pytest.mark.without(STATUS, "_ids(info.voters)", "_ids(info.observers)")
@pytest.mark.without(STATUS, "_could_be_voters(info)", "[]")
@pytest.mark.without(
    "commands.quorum:_could_be_voters", "if replica.could_be_voter))", "if not replica.key))"
)
@pytest.mark.without(
    STATUS, '("CurrentObservers", _ids(info.observers))', '("CurrentObservers", [])'
)
@pytest.mark.without(STATUS, "info.log_start_offset", "0")
@pytest.mark.without(
    CORE, "high_watermark=replica.high_watermark", "high_watermark=log.durable_end"
)
@pytest.mark.without(CORE, "log_start=log.start", "log_start=Offset(0)")
@pytest.mark.without(CORE, "epoch=role.epoch", "epoch=Epoch(1)")
@pytest.mark.without(CORE, "leader=replica.key", "leader=next(iter(log.voters))")
@pytest.mark.without(CORE, "log_end=log.end", "log_end=log.durable_end")
@pytest.mark.without(OTHER, "progress.acknowledged,", "replica.high_watermark,")
@pytest.mark.without(OTHER, "None if caught_up is None else now - caught_up", "0")
@pytest.mark.without(SHOWN, "high_watermark=description.high_watermark", "high_watermark=0")
@pytest.mark.without(PROGRESS, "lag=end - max(replica.acknowledged, 0)", "lag=0")
def test_every_line_of_the_status_is_what_the_disks_and_the_clock_say(moved: Moved, api: Api):
    book, shown = moved.book, api.status()
    lags = {name: moved.lag(name) for name in FOLLOWERS}
    behind_ms = {name: book.now_ms - moved.fetches.whole_ms[name] for name in FOLLOWERS}
    assert len({*lags.values(), *behind_ms.values(), 0}) == 5, "values that cannot be confused"
    committed = committed_end(book, "1", "2", "3")
    assert 0 < committed < durable_end(book, "2") < log_end(book, "2")
    values = {
        "ClusterId": CLUSTER_ID,
        "LeaderId": "2",
        "LeaderEpoch": str(book["2"].disk.state.epoch),
        "HighWatermark": str(committed),
        "MaxFollowerLag": str(max(lags.values())),
        "MaxFollowerLagTimeMs": str(max(behind_ms.values())),
        "LogStartOffset": str(book["2"].disk.start),
    }
    assert {name: shown[name] for name in values} == values
    replicas = {
        "CurrentVoters": listed("1", "2", "3"),
        "CouldBeVoters": listed(*OBSERVERS),
        "CurrentObservers": listed(*OBSERVERS),
    }
    assert {name: json.loads(shown[name]) for name in replicas} == replicas
    assert "TargetVoters" not in shown


@pytest.mark.rule("P26", "P60")
@pytest.mark.without(TABLE, "replica.acknowledged_offset", "info.log_end_offset")
@pytest.mark.without(TABLE, "replica.lag", "0")
@pytest.mark.without(TABLE, "_timestamp(replica.last_fetch_age_ms, now_ms)", "-1")
@pytest.mark.without(TABLE, "replica.last_fetch_age_ms", "replica.last_caught_up_age_ms")
@pytest.mark.without(TABLE, "_timestamp(age_ms, now_ms)", "-1")
@pytest.mark.without(TABLE, "-1 if age_ms is None else age_ms", "0")
@pytest.mark.without(TABLE, "replica.last_caught_up_age_ms", "replica.last_fetch_age_ms")
@pytest.mark.without(TABLE, '"Follower"', '"Observer"')
@pytest.mark.without(TABLE, "replica.node_id", "info.leader.node_id")
@pytest.mark.without("commands.quorum:_timestamp", "now_ms - age", "now_ms")
@pytest.mark.without(OTHER, "progress.acknowledged,", "replica.log.end,")
@pytest.mark.without(OTHER, "None if fetched is None else now - fetched", "0")
@pytest.mark.without(OTHER, "now - caught_up", "now - fetched")
@pytest.mark.without(OWN, "log.durable_end,", "log.end,")
@pytest.mark.without(PROGRESS, "acknowledged_offset=replica.acknowledged", "acknowledged_offset=0")
@pytest.mark.without(PROGRESS, "lag=end - max(replica.acknowledged, 0)", "lag=0")
@pytest.mark.without(PROGRESS, "last_fetch_age_ms=replica.last_fetch_age_ms", "last_fetch_age_ms=0")
@pytest.mark.without(
    PROGRESS, "last_caught_up_age_ms=replica.last_caught_up_age_ms", "last_caught_up_age_ms=0"
)
def test_every_column_of_the_replication_is_what_the_disks_and_the_clock_say(
    moved: Moved, api: Api
):
    book, fetches = moved.book, moved.fetches
    before_ms = time.time_ns() // 1_000_000
    shown = api.replication()
    took_ms = time.time_ns() // 1_000_000 - before_ms
    states = {"2": "Leader", "1": "Follower", "3": "Follower", "1'": "Observer", "4": "Observer"}
    assert set(shown) == {directory(name) for name in states}
    for name, state in states.items():
        row = shown[directory(name)]
        assert row["NodeId"] == name.rstrip("'")
        assert row["Status"] == state
        assert int(row["LogEndOffset"]) == durable_end(book, name)
        assert int(row["Lag"]) == moved.lag(name) > 0
        if state == "Leader":
            assert 0 <= int(row["LastFetchTimestamp"]) - before_ms <= took_ms
            continue
        for column, at_ms in (
            ("LastFetchTimestamp", fetches.last_ms[name]),
            ("LastCaughtUpTimestamp", fetches.whole_ms[name]),
        ):
            age_ms = book.now_ms - at_ms
            assert 0 <= int(row[column]) + age_ms - before_ms <= took_ms, (name, column)
        assert int(row["LagTimeMs"]) == book.now_ms - fetches.whole_ms[name], name
    assert fetches.last_ms["4"] > fetches.whole_ms["4"]


@pytest.mark.rule("P26")
@pytest.mark.without(CORE, "log.target_voters\n        )", "log.voters\n        )")
@pytest.mark.without(STATUS, "_ids(info.target_voters)", "_ids(info.voters)")
def test_the_target_voters_stand_in_the_status_until_they_are_the_voters(moved: Moved, api: Api):
    book = moved.book
    book["2"].flushes = book["4"].flushes = True
    book.heal()
    book.run(1000)
    book["1"].flushes = book["3"].flushes = False
    book.reassign("2", "1", "2", "4", within_ms=60_000)
    book.settle()
    assert json.loads(api.status()["TargetVoters"]) == listed("1", "2", "4")
    book["1"].flushes = book["3"].flushes = True
    book.run(5000)
    after = api.status()
    assert "TargetVoters" not in after
    assert json.loads(after["CurrentVoters"]) == listed("1", "2", "4")
