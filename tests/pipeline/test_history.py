"""The tables of a quorum's life, on the files of one whose life is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kraftquorum_pipeline.datasource import NAME
from kraftquorum_pipeline.jobs.history import FAULTS, TABLES, no_faults, write_history
from kraftquorum_pipeline.testing import FIRST_MS, key_of, quorum_history, write_quorum
from raftnode.core.types import format_directory_id

START = datetime.fromtimestamp(FIRST_MS / 1000, UTC)


@pytest.fixture(scope="module")
def life(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("life")
    history = quorum_history()
    write_quorum(root / "nodes", history)
    rows = spark.read.format(NAME).load(str(root / "nodes"))
    seen = [(1, START), (2, START), (1, START - timedelta(minutes=5))]
    faults = spark.createDataFrame(seen, FAULTS)
    return write_history(spark, rows, faults, str(root / "tables")), history


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
    found, history = life
    rows = sum(
        batch.last_offset - batch.base_offset + 1 for batch in history.batches if not batch.control
    )
    assert found["key_changes"] == rows


def test_without_faults_no_detection_is_made_up(life, spark, tmp_path):
    write_quorum(tmp_path / "nodes", quorum_history())
    rows = spark.read.format(NAME).load(str(tmp_path / "nodes"))
    found = write_history(spark, rows, no_faults(spark), str(tmp_path / "tables"))
    [repair] = found["repairs"]
    assert (repair["detected_at"], repair["repair_s"]) == (None, None)
    assert repair["add_to_remove_s"] > 0
