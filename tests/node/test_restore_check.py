"""Files of a running quorum hold what it has, also while it is written to and changes leaders."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path

import pytest

from kraftquorum_pipeline.audit.engine import LocalEngine
from kraftquorum_pipeline.audit.replica_files import find_replicas
from kraftquorum_pipeline.audit.run import Audit
from kraftquorum_pipeline.audit.undamaged_log import undamaged_log
from kraftquorum_pipeline.jobs.restore import compare, look, state_of
from proofkit.localquorum import LocalQuorum
from raftnode.client import ClientError

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]


class Writer:
    """Writes until it is stopped; `count` says how often."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self._client = quorum.client
        self.count = 0
        self.stop = False

    async def run(self) -> None:
        while not self.stop:
            try:
                number = self.count + 1
                await self._client.put(f"key {number % 40}", b"value %d" % number)
                if number % 9 == 0:
                    await self._client.delete(f"key {(number * 7) % 40}")
                self.count = number
            except ClientError:
                continue

    async def more(self, writes: int) -> None:
        end = self.count + writes
        while self.count < end:  # noqa: ASYNC110 - a count, not an event
            await asyncio.sleep(0.02)


async def test_files_taken_while_it_runs_bring_back_what_the_quorum_has(
    quorum: LocalQuorum, tmp_path: Path
):
    await quorum.form(3)
    writer = Writer(quorum)
    writing = asyncio.create_task(writer.run())  # noqa: TID251 - ended below
    try:
        await writer.more(60)
        leader = await quorum.leader()
        leader.signal(signal.SIGKILL)
        leader.wait()
        leader.start()
        await quorum.wait_running([leader])
        await quorum.leader()
        await writer.more(5)
        # One file after the other, beside the running nodes; what is a .tmp now is none soon.
        backup, unfinished = tmp_path / "backup", shutil.ignore_patterns("*.tmp")
        for node in quorum.nodes[:3]:
            await asyncio.to_thread(
                shutil.copytree, node.directory, backup / node.directory.name, ignore=unfinished
            )
        log = await asyncio.to_thread(undamaged_log, [backup], LocalEngine())
        state = state_of(log)
        await writer.more(5)
        nodes = [node.api for node in quorum.nodes[:3]]
        living = await look(nodes, None, log.end, {"TestTestTestTestTestTe"})
    finally:
        writer.stop = True
        await writing
    result = compare(state, log.end, living)
    assert result.ok, result.differences
    assert result.keys > 20
    assert result.changed > 0, "it was written to meanwhile"
    assert living.ended > log.end

    # The same files with one value changed are told apart.
    key = next(key for key in state if key not in {one.key for one in living.records})
    state[key] = state[key]._replace(digest=b"other")
    assert compare(state, log.end, living).different == 1

    # Told to stop, the last one might lead a new epoch alone: then files prove nothing (P42).
    for node in quorum.nodes[:3]:
        node.kill()
    verdict = Audit(find_replicas([node.directory for node in quorum.nodes[:3]]), LocalEngine())
    assert verdict.run().word == "ok"
    assert verdict.verdict.committed_end >= living.ended
