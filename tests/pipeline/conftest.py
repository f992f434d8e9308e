"""One small Spark session and one recorded quorum for all tests of the pipeline.

Without PySpark and pyarrow (`make spark` installs them) the tests are not there.
"""

from __future__ import annotations

import asyncio
import importlib.util
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from proofkit.clientrecord import ClientRecord
from proofkit.localquorum import LocalQuorum, eventually
from raftnode.api.model import Replica, VoterSpec

HERE = importlib.util.find_spec("pyspark") is not None
# `*` matches folders too.
collect_ignore_glob = [] if HERE else ["*test_*.py"]

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""For little data: what Spark compiles would not be used often enough to pay."""


def pytest_collection_modifyitems(items):
    for item in items:
        if "/tests/pipeline/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(900))
            # Py4J leaves its sockets to the end of the process.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from kraftquorum_pipeline.session import spark_session  # noqa: PLC0415 - may be missing

    # Spark makes one where it runs, as soon as anything asks for a catalog.
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = spark_session("tests", master="local[2]", settings=QUICK | warehouse)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def quick_conf():
    """The same as flags of a command."""
    return [f"--conf={name}={value}" for name, value in QUICK.items()]


@pytest.fixture(scope="session")
def run_async():
    return in_loop


@pytest.fixture
def live_quorum(tmp_path, network):
    """Makes a quorum of three nodes, each with an address of its own."""
    return LocalQuorum(tmp_path, 3, network, SETTINGS)


@pytest.fixture
def trimming_quorum(tmp_path, network):
    """Likewise, of nodes that keep little more of the log than their snapshots do not cover."""
    return LocalQuorum(tmp_path / "quorum", 3, network, SETTINGS | TRIMMING)


@pytest.fixture
def restored_quorum(session_network):
    """Makes a quorum of the directories under a root that the `recorded` one left."""
    return lambda root: LocalQuorum(root, 4, session_network, SETTINGS)


def in_loop(work):
    """Run a coroutine function to its end, and leave the loop that pytest-asyncio knows alone."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(work())


SETTINGS = {
    "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(__file__).resolve().parents[2] / ".hypothesis"),
    "RAFTNODE_SEGMENT_BYTES": "65536",
    "RAFTNODE_MAX_BATCH_BYTES": "32768",
    "RAFTNODE_RECORD_MAX_BYTES": "16384",
}

TRIMMING = {
    "RAFTNODE_SEGMENT_BYTES": "16384",
    "RAFTNODE_MAX_BATCH_BYTES": "8192",
    "RAFTNODE_RECORD_MAX_BYTES": "4096",
    "RAFTNODE_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS": "30000",
    "RAFTNODE_SNAPSHOTS_RETAINED": "1",
    "RAFTNODE_LOG_RETENTION_BYTES": "0",
}


@dataclass
class Recorded:
    """The directories of a quorum that has stopped, and what its client knows."""

    root: Path
    record: ClientRecord
    epochs: int

    def node(self, number: int) -> Path:
        return self.root / f"node-{number}"


async def change_voters(quorum, directory_id, change, *, votes):
    """Change the voters until a replica votes, or does not; looked at first: answers get lost."""

    async def changed():
        told = await quorum.describe()
        if (directory_id in {one.directory_id for one in told.voters}) is votes:
            return True if told.voter_record_committed else None
        await change(told.voter_record)
        return None

    what = f"{directory_id} to be {'added' if votes else 'removed'}"
    await eventually(changed, within_s=120, what=what)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, session_network) -> Recorded:
    """Three voters, many segments, elections, a fourth voter that came and one that went."""
    root = tmp_path_factory.mktemp("recorded")
    record = ClientRecord()

    async def work() -> int:
        async with LocalQuorum(root, 4, session_network, SETTINGS) as quorum:
            await quorum.form(3)
            await record.write(quorum, 0, 1500)
            await quorum.client.append([b"\xff\x00raw", b"second"])
            leader = await quorum.leader()
            writing = asyncio.ensure_future(record.write(quorum, 1500, 800))  # noqa: TID251
            await asyncio.sleep(0.3)
            leader.kill()
            await writing
            leader.start()
            await quorum.wait_running([leader])
            # A fourth voter for one of the others: the repair of a replica, as the log shows it.
            quorum.nodes[3].start()
            replica = await quorum.observe(quorum.nodes[3])
            told = await quorum.describe()
            gone = next(one for one in told.voters if one.node_id != told.leader.node_id)
            endpoint = str(quorum.nodes[3].peer)
            spec = VoterSpec(
                node_id=replica.node_id, directory_id=replica.directory_id, endpoint=endpoint
            )
            leaving = Replica(node_id=gone.node_id, directory_id=gone.directory_id)
            add = partial(quorum.client.add_voter, spec, timeout_ms=60_000)
            remove = partial(quorum.client.remove_voter, leaving, timeout_ms=60_000)
            await change_voters(quorum, spec.directory_id, add, votes=True)
            await change_voters(quorum, leaving.directory_id, remove, votes=False)
            await record.write(quorum, 2300, 200)
            epoch = (await quorum.describe()).epoch
            for node in quorum.nodes:
                node.stop()
            return epoch

    return Recorded(root, record, in_loop(work))
