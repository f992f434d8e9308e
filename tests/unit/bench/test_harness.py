"""The rounds: turns in alternating order, faults of peers and of ours, and the end of the time."""

import asyncio
import dataclasses
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from kraftquorum_bench import harness, quorums
from kraftquorum_bench.contenders import PeerMissingError
from kraftquorum_bench.harness import Bench, busy_warning
from kraftquorum_bench.loads import Sample
from kraftquorum_bench.processes import ToolError
from kraftquorum_bench.quorums import Quorums
from kraftquorum_bench.report import Raw
from kraftquorum_bench.sizes import QUICK, chosen_workloads

SIZE = dataclasses.replace(QUICK, rounds=3, limit_s=100)


class Steady:
    """Answers each load with the next of its rates, and writes down its turns."""

    def __init__(self, name, rates, turns):
        self.name, self._rates, self._turns = name, iter(rates), turns
        self.filled = []

    async def measure(self, load, seconds):
        self._turns.append((self.name, load.operation, load.transport))
        rate = next(self._rates)
        if isinstance(rate, Exception):
            raise rate
        return Sample(figures={"per_s": rate})

    async def fill(self, count, value_bytes, keys):
        self.filled.append(count)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Make a bench of contenders that need no processes."""

    def make(size=SIZE, **rates):
        turns, lines = [], []
        made = Bench(size, tmp_path, ["etcd"], say=lines.append)
        contenders = {name: Steady(name, values, turns) for name, values in rates.items()}

        async def opened(_quorums, _group, _stack):
            return contenders

        monkeypatch.setattr(Quorums, "open", opened)
        raw = Raw(fdatasync_p50_ms=1, fdatasync_p99_ms=1, round_trip_us=1, calibration_mib_per_s=1)
        monkeypatch.setattr(Bench, "_measure_machine", lambda _: raw)
        return made, turns, lines, contenders

    return make


@pytest.mark.without("kraftquorum_bench.harness:Bench._take_turns", "if number % 2:", "if False:")
async def test_ours_and_peer_take_turns_and_each_begins_in_turn(bench):
    made, turns, lines, contenders = bench(ours=[200, 300, 400], etcd=[100, 100, 100])
    report = await made.run(chosen_workloads(SIZE, ["put_64"]))
    assert [name for name, *_ in turns] == ["ours", "etcd", "etcd", "ours", "ours", "etcd"]
    result = report.workloads["put_64"]
    assert (result.ours, result.peer, result.ratio, result.rounds) == (300, 100, 3, 3)
    assert result.peer_name == "etcd"
    assert contenders["etcd"].filled == [1000]
    assert any(" 2.00×  put_64 (round 1): ours 200 op/s, etcd 100 op/s" in line for line in lines)
    assert (report.left_out, report.failures) == ((), ())


async def test_workloads_of_a_group_take_turns_within_a_round(bench):
    made, turns, *_ = bench(ours=[1] * 6, etcd=[1] * 6)
    await made.run(chosen_workloads(SIZE, ["put_64", "get_64"]))
    assert [what for name, what, _ in turns if name == "ours"] == ["put", "get"] * 3


async def test_the_peer_of_http_is_asked_by_its_own_client(bench):
    made, turns, *_ = bench(ours=[1] * 3, etcd=[1] * 3)
    await made.run(chosen_workloads(SIZE, ["put_64_http"]))
    assert {(name, transport) for name, _, transport in turns} == {
        ("ours", "http"),
        ("etcd", "sessions"),
    }


async def test_a_round_that_the_peer_failed_in_does_not_count(bench):
    made, *_ = bench(ours=[4, 3, 2], etcd=[1, ToolError("it broke"), 1])
    report = await made.run(chosen_workloads(SIZE, ["put_64"]))
    result = report.workloads["put_64"]
    assert (result.ours, result.ratio, result.rounds) == (3, 3, 2)
    assert result.spread.ours == (2, 4)
    [note] = report.left_out
    assert (note.what, note.why) == ("put_64: etcd", "ToolError: it broke")
    assert report.failures == ()


async def test_a_peer_that_cannot_be_filled_is_left_out(bench, monkeypatch):
    made, _, _, contenders = bench(ours=[2, 2, 2], etcd=[])

    async def refuse(*_):
        raise ToolError("no space")

    monkeypatch.setattr(contenders["etcd"], "fill", refuse)
    report = await made.run(chosen_workloads(SIZE, ["put_64"]))
    assert (report.workloads["put_64"].ours, report.workloads["put_64"].ratio) == (2, None)
    assert [note.what for note in report.left_out] == ["etcd in three"]


async def test_a_failure_of_ours_is_a_failure_of_the_run(bench):
    group = ExceptionGroup("clients", [ToolError("no leader")])
    made, *_ = bench(ours=[2, group, 2], etcd=[1, 1, 1])
    report = await made.run(chosen_workloads(SIZE, ["put_64"]))
    [note] = report.failures
    assert (note.what, note.why) == ("put_64, round 2", "ToolError: no leader")
    assert report.workloads["put_64"].rounds == 2


async def test_what_a_peer_measured_alone_makes_no_pair(bench):
    made, *_ = bench(ours=[ToolError("x"), 2, 2], etcd=[1, 1, 1])
    report = await made.run(chosen_workloads(SIZE, ["put_64"]))
    assert report.workloads["put_64"].rounds == 2


@pytest.mark.without("kraftquorum_bench.harness:Bench.run", "if self.left_s() <= 0:", "if False:")
async def test_after_the_time_nothing_begins_and_each_workload_is_named(bench):
    made, turns, *_ = bench(dataclasses.replace(SIZE, limit_s=0), ours=[], etcd=[])
    report = await made.run(chosen_workloads(SIZE, ["put_64", "failover"]))
    assert turns == []
    assert [note.what for note in report.left_out] == ["put_64", "failover"]
    assert report.left_out[0].why == "the time of 0 minutes is over"
    assert report.workloads == {}


@pytest.mark.without(
    "kraftquorum_bench.harness:Bench._sample", "asyncio.timeout(limit_s)", "asyncio.timeout(5)"
)
async def test_a_hanging_sample_is_given_up(bench, monkeypatch):
    made, *_ = bench(dataclasses.replace(SIZE, sample_limit_s=0.05, rounds=1), ours=[], etcd=[])

    async def hang(*_):
        await asyncio.sleep(2)
        return Sample(figures={"per_s": 1.0})

    monkeypatch.setattr(Steady, "measure", hang)
    report = await made.run(chosen_workloads(SIZE, ["put_64"]))
    assert [note.what for note in report.failures] == ["put_64, round 1"]


async def test_a_peer_that_cannot_be_had_is_left_out(tmp_path, monkeypatch):
    notes = []
    made = Quorums(
        tmp_path,
        ["kafka", "zookeeper"],
        {"zookeeper": "zookeeper needs a JDK"},
        lambda what, why: notes.append((what, why)),
    )

    @asynccontextmanager
    async def ours(_root, _network, _members, **_options):
        yield Steady("ours", [], [])

    def missing(*_):
        raise PeerMissingError("kafka needs Java")

    monkeypatch.setattr(quorums, "our_quorum", ours)
    monkeypatch.setattr(quorums, "kafka_contenders", missing)
    async with AsyncExitStack() as stack:
        [kafka] = chosen_workloads(SIZE, ["bulk_kafka_best"])
        assert list(await made.open(kafka.group, stack)) == ["ours"]
        [etcd] = chosen_workloads(SIZE, ["put_64"])
        assert list(await made.open(etcd.group, stack)) == ["ours"]
        [zookeeper] = chosen_workloads(SIZE, ["put_64_zookeeper"])
        assert list(await made.open(zookeeper.group, stack)) == ["ours"]
    assert notes == [
        ("kafka in kafka", "PeerMissingError: kafka needs Java"),
        ("etcd", "not asked for (PEERS)"),
        ("zookeeper", "zookeeper needs a JDK"),
    ]


def test_what_cannot_be_prepared_is_named_and_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    missing = quorums.prepare(["kafka", "zookeeper", "copy"])
    assert missing.keys() == {"kafka", "zookeeper"}
    assert "on Debian, apt-get install default-jdk" in missing["kafka"]
    assert "zookeeper needs a JDK" in missing["zookeeper"]


@pytest.mark.parametrize(("load", "warned"), [(0.5, False), (1.5, True)])
def test_a_busy_machine_is_named(monkeypatch, load, warned):
    monkeypatch.setattr(harness.os, "getloadavg", lambda: (load, 0, 0))
    monkeypatch.setattr(harness.os, "cpu_count", lambda: 2)
    warning = busy_warning()
    assert (warning is not None) == warned
    assert warning is None or "load 1.5 on 2 cores" in warning
