"""Command lines of the peers' own tools, and what these print, as they printed it."""

import re
from pathlib import Path

import pytest

from kraftquorum_bench import etcdtool, kafka, zookeeper
from kraftquorum_bench.contenders import UnsupportedLoadError
from kraftquorum_bench.loads import Load
from kraftquorum_devcluster import versions
from kraftquorum_devcluster.jars import JarSet

TOOLS = Path(__file__).resolve().parents[3] / "tools"
ETCD_PRINTED = """
Summary:
  Total:	1.0417 secs.
  Slowest:	0.0431 secs.
  Fastest:	0.0016 secs.
  Average:	0.0132 secs.
  Stddev:	0.0051 secs.
  Requests/sec:	4800.5

Response time histogram:
  0.0016 [1]	|

Latency distribution:
  10% in 0.0079 secs.
  50% in 0.0124 secs.
  99% in 0.0301 secs.
  99.9% in 0.0401 secs.
"""
ERRORS = """
Error distribution:
  [3]	etcdserver: request timed out
  [2]	etcdserver: too many requests
"""
KAFKA_PRINTED = """\
5021 records sent, 1004.0 records/sec (0.98 MB/sec), 812.3 ms avg latency, 1801.0 ms max latency.
20000 records sent, 8123.476848 records/sec (7.93 MB/sec), 1503.12 ms avg latency, 2203.00 ms max \
latency, 1490 ms 50th, 2100 ms 95th, 2190 ms 99th, 2201 ms 99.9th.
"""
ENDPOINTS = ["127.0.0.1:2379", "127.0.0.2:2379"]


def test_rate_and_latencies_of_etcd():
    result = etcdtool.parse(ETCD_PRINTED)
    assert result.per_s == 4800.5
    assert result.p50_ms == pytest.approx(12.4)
    assert result.p99_ms == pytest.approx(30.1)
    assert result.errors == 0


def test_both_parts_of_a_mixed_load_add_up():
    assert etcdtool.parse(ETCD_PRINTED * 2).per_s == 9601


def test_errors_of_etcd_are_counted():
    assert etcdtool.parse(ETCD_PRINTED + ERRORS).errors == 5


@pytest.mark.parametrize("parse", [etcdtool.parse, kafka.parse])
def test_no_result_is_an_error_with_what_was_printed(parse):
    with pytest.raises(ValueError, match=r"no result.*panic: no endpoint"):
        parse("panic: no endpoint")


@pytest.mark.parametrize(
    ("load", "wanted"),
    [
        (
            Load(operation="put", clients=64),
            "put --target-leader .*--key-space-size=1000 .*--total=77",
        ),
        (Load(operation="get", clients=1), "range read --consistency=l .*--target-leader"),
        (
            Load(operation="get_stale", clients=1),
            "range read --consistency=s (?!.*--target-leader)",
        ),
        (Load(operation="mixed", clients=64), "txn-mixed .*--rw-ratio=1 --limit=1"),
        (Load(operation="append", clients=64, batch=1000), "txn-put .*--txn-ops=100 "),
        (Load(operation="put", clients=2048), "--clients=2048 --conns=100"),
        (Load(operation="put", clients=1, value_bytes=7), "--val-size=7 .*--clients=1 --conns=1 "),
    ],
)
def test_the_command_line_of_etcds_tool(load, wanted):
    words = " ".join(etcdtool.arguments(load, ENDPOINTS, 77))
    assert re.search(wanted, words), words
    assert "--endpoints=127.0.0.1:2379,127.0.0.2:2379" in words
    assert "--precise" in words


def test_etcds_tool_has_no_http():
    with pytest.raises(UnsupportedLoadError, match="gRPC alone"):
        etcdtool.arguments(Load(operation="put", clients=1, transport="http"), ENDPOINTS, 1)


@pytest.mark.parametrize(
    ("per_s", "seconds", "clients", "requests"),
    [(1000, 2, 64, 2000), (1, 1, 64, 64), (0, 1, 1, 10)],
)
def test_requests_of_a_run(per_s, seconds, clients, requests):
    assert etcdtool.requests_for(per_s, seconds, clients) == requests


def test_the_last_line_of_kafka_counts():
    assert kafka.parse(KAFKA_PRINTED) == (20_000, 8123.476848, 1490, 2190)


def test_kafkas_settings_are_printed_whole():
    words = kafka.PINNED.describe()
    for part in ("acks=all", "flush.messages=1", "batch.size=16384", "linger.ms=5"):
        assert part in words
    assert kafka.BEST.describe() != words


def test_kafkas_directory_ids_differ_and_are_none_that_it_reserves():
    assert len(set(kafka.DIRECTORY_IDS)) == kafka.NODES
    for text in kafka.DIRECTORY_IDS:
        assert re.fullmatch(r"[\w-]{21}[AQgw]", text)
        assert not text.startswith("AAAA")


def test_the_java_client_is_beside_its_module():
    assert zookeeper.SOURCE.is_file()


@pytest.mark.parametrize("name", ["kafka", "zookeeper"])
def test_the_jars_are_pinned(name):
    jars = JarSet(TOOLS / name)
    assert jars.directory.name.startswith(f"{name}-{jars.version}-")
    pins = (TOOLS / name / "jars.sha256").read_text().splitlines()
    assert all(re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line) for line in pins)
    assert any(line.endswith(f"-{jars.version}.jar") for line in pins)
    assert "://" not in (TOOLS / name / "pom.xml").read_text().replace(
        "http://maven.apache.org/POM/4.0.0", ""
    )


def test_etcd_and_its_tool_are_pinned_to_the_version_of_the_control_plane():
    text = versions.BENCH_TOOLS.module_file("go.mod")
    assert f"go.etcd.io/etcd/server/v3 v{versions.ETCD_VERSION}" in text
    assert f"go.etcd.io/etcd/v3 v{versions.ETCD_VERSION}" in text
    sums = versions.BENCH_TOOLS.module_file("go.sum")
    assert f"go.etcd.io/etcd/v3 v{versions.ETCD_VERSION} h1:" in sums
    assert "://" not in text + sums
    assert (
        f"go.etcd.io/etcd/server/v3 v{versions.ETCD_VERSION}"
        in versions.CONTROL_PLANE.module_file("go.mod")
    )
