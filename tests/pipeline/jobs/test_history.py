"""The tables of a quorum's life, on the files of one whose life is known."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

from kraftquorum_pipeline.datasource import NAME
from kraftquorum_pipeline.jobs.history import FAULTS, TABLES, history, no_faults, write_history
from kraftquorum_pipeline.report.figures import Sources, gather
from proofkit.replicadirs import (
    CLUSTER_ID,
    FIRST_MS,
    History,
    key_of,
    quorum_history,
    segments,
    write_quorum,
)
from raftnode.core.types import format_directory_id

START = datetime.fromtimestamp(FIRST_MS / 1000, UTC)


@pytest.fixture(scope="module")
def life(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("life")
    past = quorum_history()
    write_quorum(root / "nodes", past)
    rows = spark.read.format(NAME).load(str(root / "nodes"))
    seen = [(1, START), (2, START), (1, START - timedelta(minutes=5))]
    faults = spark.createDataFrame(seen, FAULTS)
    return write_history(spark, rows, faults, str(root / "tables")), past


def test_all_tables_are_there_and_elections_name_the_leaders(life):
    found, _ = life
    assert set(found) == set(TABLES)
    assert [(row["epoch"], row["leader_id"]) for row in found["elections"]] == [
        (1, 0), (3, 2), (4, 0),
    ]  # fmt: skip
    assert [row["epoch"] for row in found["leadership"]] == [1, 3, 4]
    records = sum(row["records"] for row in found["leadership"])
    assert records == found["leadership"][-1]["last_offset"] + 1
    assert all(row["without_leader_s"] >= 0 for row in found["elections"][1:])
    assert found["elections"][0]["without_leader_s"] is None


def test_voter_changes_count_the_voters_and_a_replaced_disk_is_a_repair(life):
    found, _ = life
    assert [(row["change"], row["node_id"], row["voters_after"]) for row in found["voter_changes"]] == [
        ("add", 0, 1), ("add", 1, 2), ("add", 2, 3), ("add", 1, 4), ("remove", 1, 3),
    ]  # fmt: skip
    [repair] = found["repairs"]
    assert repair["node_id"] == 1
    assert repair["old_directory_id"] == format_directory_id(key_of(1).directory_id)
    assert repair["new_directory_id"] == format_directory_id(key_of(1, disk=1).directory_id)
    # The latest fault of this node before the new disk came; not that of another node.
    assert repair["detected_at"] == START.replace(tzinfo=None)
    times = (repair["added_at"], repair["removed_at"])
    assert repair["add_to_remove_s"] == (times[1] - times[0]).total_seconds() > 0
    assert repair["repair_s"] == repair["detect_to_add_s"] + repair["add_to_remove_s"]


def test_stretches_without_a_leader_lie_between_epochs(life):
    found, _ = life
    assert [row["until_epoch"] for row in found["unavailability"]] == [3, 4]
    for row in found["unavailability"]:
        seconds = (row["until_at"] - row["from_at"]).total_seconds()
        assert row["at_most_s"] == max(seconds, 0)


def test_each_write_of_a_key_has_its_number(life, spark, tmp_path_factory):
    found, past = life
    rows = sum(
        batch.last_offset - batch.base_offset + 1 for batch in past.batches if not batch.control
    )
    assert found["key_changes"] == rows


def trim(nodes, end):
    """Remove what a snapshot that ends there covers."""
    for node in nodes:
        for segment, following in pairwise(segments(node)):
            if int(following.stem) <= end:
                segment.unlink()


def late_history(*, elected):
    """A snapshot of four voters, of whom one goes and one comes before an election, or without."""
    history = History(voters=(key_of(0), key_of(1), key_of(2)))
    history.lead(key_of(0), 1)
    history.write(30)
    history.add(key_of(3))
    history.write(30)
    history.keep_state()
    history.write(40)
    history.remove(key_of(3))
    history.write(2)
    history.add(key_of(1, disk=1))
    if elected:
        history.lead(key_of(2), 2)
    history.remove(key_of(1))
    history.write(2)
    return history


def with_voters(rows, as_of):
    """The rows with a state's voters as of another record, as nodes tell them; None: without."""
    told, others = (
        rows.where("control = 'VoterSet'"),
        rows.where("control is distinct from 'VoterSet'"),
    )
    if as_of is None:
        return others  # as an older export has it
    voters = [{"node_id": number, "directory_id": "any"} for number in range(3)]
    fields = json.dumps({"voters": voters, "as_of": as_of})
    return others.unionByName(told.withColumn("fields", F.lit(fields)))


def test_voters_of_a_trimmed_log_are_counted_from_its_state_or_an_election(spark, tmp_path):
    frames, known, unknown = [], {}, []

    def add(name, rows):
        frames.append(rows.withColumn("cluster_id", F.lit(name)))

    for name, elected in (("elected", True), ("one leader", False)):
        past = late_history(elected=elected)
        nodes = write_quorum(tmp_path / name, past)
        [end] = past.states
        changed = next(
            batch.base_offset
            for batch in past.batches
            if batch.base_offset >= end and batch.control
        )
        load = spark.read.format(NAME).load
        add(f"{name}, whole", load(str(tmp_path / name)))
        trimmed = tmp_path / f"{name}, trimmed"
        trim([shutil.copytree(node, trimmed / node.name) for node in nodes], end)
        rows = load(str(trimmed))
        known[f"{name}, state"] = f"{name}, whole"
        add(f"{name}, state", rows)
        # Of nodes the voters are the current ones, by a record of the log.
        known[f"{name}, now"] = f"{name}, whole"
        add(f"{name}, now", with_voters(rows, changed))
        # Or by one that was written since the export's last.
        for later, as_of in (("later", past.end + 5), ("never", None)):
            add(f"{name}, {later}", with_voters(rows, as_of))
            if elected:
                known[f"{name}, {later}"] = f"{name}, whole"
            else:
                unknown.append(f"{name}, {later}")
    found = voters_after(spark, reduce(DataFrame.unionByName, frames))
    assert found["elected, whole"] == [1, 2, 3, 4, 3, 4, 3]
    assert {name: found[name] for name in known} == {
        name: found[whole][-3:] for name, whole in known.items()
    }
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown, [None] * 3)


def voters_after(spark, rows):
    """By cluster, in the order of the log."""
    found = {}
    changes = history(rows, no_faults(spark))["voter_changes"]
    for row in changes.orderBy("offset").collect():
        found.setdefault(row["cluster_id"], []).append(row["voters_after"])
    return found


def test_the_first_write_of_a_key_in_a_trimmed_log_replaces_that_of_the_state(spark, tmp_path):
    past = quorum_history()
    nodes = write_quorum(tmp_path / "nodes", past)
    [end] = past.states
    trim(nodes, end)
    rows = spark.read.format(NAME).load(str(tmp_path / "nodes"))
    changes = history(rows, no_faults(spark))["key_changes"]
    first = {bytes(row["key"]): row for row in changes.where("version = 1").collect()}
    kept = {one.key: int(one.offset) for one in past.states[end]}
    assert kept.keys() & first.keys()
    assert {key: row["replaced_offset"] for key, row in first.items()} == {
        key: kept.get(key) for key in first
    }
    assert all(row["offset"] >= end for row in first.values())
    assert changes.where("version = 0").count() == 0
    # The report's page, too, shows the replicas that voted before the log's start.
    figures = gather(
        spark, rows.withColumn("at_ms", F.unix_millis("timestamp")), CLUSTER_ID, Sources()
    )
    names = [f"{key.node_id}-{format_directory_id(key.directory_id)}" for key in past.voters]
    assert sorted(span.replica for span in figures.voters) == sorted(names)
    assert {(span.from_ms, span.until_ms) for span in figures.voters} == {(figures.first_ms, None)}


def test_without_faults_no_detection_is_made_up(life, spark, tmp_path):
    write_quorum(tmp_path / "nodes", quorum_history())
    rows = spark.read.format(NAME).load(str(tmp_path / "nodes"))
    found = write_history(spark, rows, no_faults(spark), str(tmp_path / "tables"))
    [repair] = found["repairs"]
    assert (repair["detected_at"], repair["repair_s"]) == (None, None)
    assert repair["add_to_remove_s"] > 0
