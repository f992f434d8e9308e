"""Arguments: what is taken, and what is refused with the value, the limit and what to do."""

import asyncio
import contextlib
import json
import os
import signal
from argparse import Namespace

import pytest

from kraftquorum_bench import cli, interrupt
from kraftquorum_bench.quorums import PEERS
from kraftquorum_bench.sizes import FULL, QUICK, SIZES, WHOLE, chosen_workloads
from kraftquorum_bench.workloads import all_workloads, grouped


def run(*arguments):
    return cli.main(["run", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rounds", "0"], "--rounds is 0: it must be from 1 to 100"),
        (["--seconds", "nan"], "--seconds is nan: it must be from 0.1 to 600"),
        (["--seconds", "1e9"], "--seconds is 1000000000.0: it must be from 0.1 to 600"),
        (["--state-mib", "-1"], "--state-mib is -1: it must be from 1 to 16384"),
        (["--peers", "mysql"], "--peers mysql: peers are etcd kafka zookeeper copy plain, or none"),
        (["--peers", "none etcd"], "--peers none: peers are"),
        (["--only", "put_65"], "--only put_65: no workload of size whole has that name"),
        (["--only", "put_("], "--only put_(: no regular expression"),
        (["--only", "log_10gb"], "--only log_10gb: no workload of size whole"),
        (["--directory", "/nonexistent"], "--directory /nonexistent: no such directory"),
    ],
)
def test_wrong_arguments_are_named(arguments, said, capsys):
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err


def test_a_directory_in_memory_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "file_system", lambda _: "tmpfs")
    assert run("--directory", str(tmp_path)) == 2
    assert "is in memory (tmpfs), where syncing costs nothing" in capsys.readouterr().err


def test_too_little_room_is_refused_before_anything_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "file_system", lambda _: "ext4")
    monkeypatch.setattr(cli, "free_gib", lambda _: 3.0)
    assert run("--directory", str(tmp_path)) == 2
    assert "has 3 GiB free, a whole run needs 30" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_options_change_a_size():
    given = Namespace(size="quick", rounds=5, seconds=2.5, state_mib=8)
    size = cli.size_of(given)
    assert (size.rounds, size.seconds, size.state_mib, size.limit_s) == (5, 2.5, 8, QUICK.limit_s)
    assert cli.size_of(Namespace(size="full", rounds=None, seconds=None, state_mib=None)) == FULL


def test_peers_are_separated_by_blanks_or_commas():
    assert cli.peers_of("etcd, kafka") == ["etcd", "kafka"]
    assert cli.peers_of("none") == []
    assert cli.peers_of(" ".join(PEERS)) == list(PEERS)


def test_the_list_names_each_workload_of_the_size(capsys):
    assert run("--size", "full", "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [row.name for row in all_workloads()]


def test_the_issues_workloads_are_there():
    names = {row.name for row in all_workloads()}
    for operation in ("put", "get"):
        for clients in (1, 64, 512, 2048):
            assert {f"{operation}_{clients}", f"{operation}_{clients}_http"} <= names
    assert {"get_stale_64", "mixed_64", "put_64_100b", "put_64_1mib", "bulk_etcd"} <= names
    assert {"bulk_kafka_pinned", "bulk_kafka_best", "put_64_zookeeper"} <= names
    assert {f"members_{size}" for size in (1, 3, 5, 7, 9)} <= names
    assert {"log_10mb", "log_1gb", "log_10gb"} <= names
    assert {"failover", "wiped", "restart", "scale", "memory"} <= names
    assert {"put_1_tls", "put_64_tls", "get_1_tls", "get_64_tls"} <= names


def test_each_workload_has_its_peer_in_its_group_and_something_to_do():
    rows = all_workloads()
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.peer in row.group.peers, row.name
        assert (row.load is None) != (row.event is None), row.name
        assert {name.partition("_")[0] for name in row.group.peers} <= set(PEERS)


def test_rows_of_a_group_stand_together():
    rows = all_workloads()
    assert [row for group in grouped(rows).values() for row in group] == rows


def test_ten_gigabytes_are_for_full_runs_alone():
    assert "log_10gb" in {row.name for row in chosen_workloads(FULL, [])}
    assert "log_10gb" not in {row.name for row in chosen_workloads(WHOLE, [])}


@pytest.mark.parametrize("name", SIZES)
def test_the_loads_alone_leave_half_of_the_time_for_starts(name):
    size = SIZES[name]
    rows = [row for row in chosen_workloads(size, []) if row.load]
    assert len(rows) * 2 * size.rounds * size.seconds < 0.5 * size.limit_s


def test_quick_and_whole_runs_stay_below_their_promises():
    assert QUICK.limit_s + 60 < 10 * 60
    assert WHOLE.limit_s + 60 < 60 * 60


def docs(monkeypatch, tmp_path, report):
    """Run `docs` on a report and without explanations, into a directory."""
    explanations = tmp_path / "bench" / "explanations.toml"
    explanations.parent.mkdir(exist_ok=True)
    explanations.write_text("")
    monkeypatch.setattr(cli, "ROOT", tmp_path)
    monkeypatch.setattr(cli, "EXPLANATIONS", explanations)
    monkeypatch.setattr(cli, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(cli, "TLS_PAGE", tmp_path / "tls-cost.md")
    monkeypatch.setattr(cli, "COMMITTED", tmp_path / "performance.json")
    monkeypatch.setattr(cli, "PICTURES", tmp_path / "pictures")
    path = tmp_path / "report.json"
    path.write_text(report.model_dump_json())
    return cli.main(["docs", str(path)])


def test_docs_write_page_and_report_and_want_explanations(report, monkeypatch, tmp_path, capsys):
    assert docs(monkeypatch, tmp_path, report) == 1
    assert "explanations.toml: memory" in capsys.readouterr().err
    page = (tmp_path / "performance.md").read_text()
    assert "# Performance" in page
    drawn = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert drawn == ["put.svg", "ratios.svg"]
    assert all(f"](../images/performance/{name})" in page for name in drawn)
    assert json.loads((tmp_path / "performance.json").read_text())["size"] == "whole"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": "quick"}, "is of a quick run"),
        ({"failures": ({"what": "put_64", "why": "it broke"},)}, "put_64: it broke"),
    ],
)
def test_docs_refuse_a_run_that_does_not_count(
    make_report, monkeypatch, tmp_path, capsys, change, said
):
    assert docs(monkeypatch, tmp_path, make_report({}, **change)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "performance.md").exists()


def test_docs_without_a_report_say_what_to_run(tmp_path, capsys):
    assert cli.main(["docs", str(tmp_path / "none.json")]) == 2
    assert "run make bench first" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.without(
    "kraftquorum_bench.interrupt:until_interrupted", "loop.call_later(CANCEL_AGAIN_S, end)", "pass"
)
def test_an_interrupt_is_repeated_where_a_library_loses_it(number, monkeypatch):
    monkeypatch.setattr(interrupt, "CANCEL_AGAIN_S", 0.05)

    class Deaf:
        async def run(self, _workloads):
            os.kill(os.getpid(), number)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(5)
            await asyncio.sleep(3)
            return "a report"

    assert cli._until_cancelled(interrupt.until_interrupted(Deaf().run([]))) is None
