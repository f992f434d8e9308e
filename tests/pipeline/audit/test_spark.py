"""The audit on Spark says what the audit in one process says, of sound and of damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kraftquorum_pipeline.audit.engine import LocalEngine
from kraftquorum_pipeline.audit.findings import Verdict
from kraftquorum_pipeline.audit.replica_files import find_replicas
from kraftquorum_pipeline.audit.run import Audit
from kraftquorum_pipeline.audit.spark import SparkEngine
from kraftquorum_pipeline.audit.undamaged_log import undamaged_log
from kraftquorum_pipeline.jobs.count import count
from kraftquorum_pipeline.report.figures import Sources, clusters, gather, read_export
from kraftquorum_pipeline.report.page import render
from proofkit.replicadirs import (
    History,
    add_snapshot,
    batches_in,
    flip,
    quorum_history,
    segments,
    write_quorum,
)


def make(root: Path, *, segment_bytes: int = 12_000) -> tuple[History, list[Path]]:
    history = quorum_history(writes=90)
    return history, write_quorum(root, history, segment_bytes=segment_bytes)


def both(session: SparkSession, paths: list[Path]) -> tuple[Verdict, Verdict]:
    local = Audit(find_replicas(paths), LocalEngine()).run()
    return local, Audit(find_replicas(paths), SparkEngine(session)).run()


def told(verdict: Verdict) -> dict[str, object]:
    return {**verdict.as_json(), "seconds": {}}


def damage(history: History, paths: list[Path]) -> None:
    """One of each part: a checksum, a forged batch, a snapshot."""
    first, last = segments(paths[0])[1], segments(paths[1])[-1]
    flip(first, batches_in(first)[2][0] + 70)
    flip(last, batches_in(last)[1][0] + 15, bit=4)
    [end] = history.states
    next(paths[2].rglob("*.checkpoint")).unlink()
    add_snapshot(paths[2], history, end, change=lambda r: [r[0]._replace(value=b"no"), *r[2:]])


@pytest.mark.parametrize("damaged", [False, True])
def test_both_engines_come_to_one_verdict(spark: SparkSession, tmp_path: Path, damaged: bool):
    history, paths = make(tmp_path)
    if damaged:
        damage(history, paths)
    local, on_spark = both(spark, paths)
    assert told(on_spark) == told(local)
    assert local.word == ("damaged" if damaged else "ok")
    assert not damaged or {"crc", "epochs", "snapshots"} <= set(local.counts)


def test_the_compacted_state_is_that_of_the_history(spark: SparkSession, tmp_path: Path):
    history, paths = make(tmp_path)
    engine = SparkEngine(spark)
    for end in (None, next(iter(history.states)) - 7):
        log = undamaged_log(paths, engine, end)
        rows = engine.state(log.stretches, log.base).collect()
        found = {bytes(row["key"]): (bytes(row["value"]), row["offset"]) for row in rows}
        if end is None:
            wanted = {key: (one.value, one.offset) for key, one in history.state.items()}
            assert found == wanted
        assert all(offset < log.end for _, offset in found.values())


def test_count_and_report_on_an_exported_log(spark: SparkSession, tmp_path: Path):
    _, paths = make(tmp_path / "replicas")
    target = str(tmp_path / "log")
    log = spark.read.format("kraftquorum").option("path", str(paths[0].parent)).load()
    log.write.partitionBy("cluster_id").parquet(target)
    table = read_export(spark, target)
    [cluster] = clusters(table)
    account = tmp_path / "writes.jsonl"
    rows = table.where("kind = 'data'").selectExpr(
        "cast(key as string) as key", "sha2(value, 256) as value_sha256", "offset", "at_ms"
    )
    written = [row.asDict() for row in rows.collect()]
    times = {"outcome": "acknowledged"}
    lines = [
        {**one, **times, "started_ms": one["at_ms"] - 2.5, "ended_ms": one["at_ms"] + 1}
        for one in written
    ]

    def counted(changed: list[dict[str, object]]):
        account.write_text("".join(json.dumps(line) + "\n" for line in changed))
        return count(spark, table, account)

    found = counted(lines)
    assert (found.ok, found.missing, found.duplicated, found.unexpected) == (True, 0, 0, 0)
    assert found.acknowledged == found.records == len(lines)
    # One that is not there, one at another offset, one with another value.
    missing = counted(
        [
            *({**line} for line in lines[3:]),
            {**lines[0], "offset": 1_000_000},
            {**lines[1], "value_sha256": "00"},
            {**lines[2], "key": None},
        ]
    )
    assert (missing.missing, missing.unexpected) == (3, 2)
    # The same row twice, as a job that is killed at the wrong moment might leave it.
    twice = table.unionByName(table.where(f"offset = {lines[5]['offset']}"))
    account.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert count(spark, twice, account).duplicated == 1
    moved = table.unionByName(
        table.where(f"offset = {lines[5]['offset']}").selectExpr(
            *(f"{name} + 100000 as offset" if name == "offset" else name for name in table.columns)
        )
    )
    assert count(spark, moved, account).duplicated == 1

    quorum = gather(spark, table, cluster, Sources("north & south", writes=account))
    assert quorum.records == len(lines)
    assert sum(one.records for one in quorum.bins) == len(lines)
    assert [one.epoch for one in quorum.leaders] == [1, 3, 4]
    assert len(quorum.repairs) == 1
    assert {one.median_ms for one in quorum.latency} == {3.5}
    page = render([quorum, quorum], title="Two quorums", made="now", version="1")
    assert "north &amp; south" in page
    for loading in ("http", "src=", "@import", "url("):
        assert loading not in page, "the page loads nothing"
    assert page.count("<svg") == 10
