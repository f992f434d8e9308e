"""One small Spark session for all tests of the pipeline; without PySpark they are not there."""

from __future__ import annotations

import importlib.util

import pytest

HERE = importlib.util.find_spec("pyspark") is not None
collect_ignore_glob = [] if HERE else ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "/tests/pipeline/" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark():
    from kraftquorum_pipeline.session import spark_session  # noqa: PLC0415 - PySpark may be missing

    session = spark_session(
        "tests", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"}
    )
    yield session
    session.stop()
