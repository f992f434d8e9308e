"""A disk that takes seconds for each fsync: the liveness probe does not wait for it."""

from __future__ import annotations

import asyncio
import random
import time

import aiohttp
import pytest

from raftnode.api.model import FormRequest, VoterSpec
from raftnode.api.service import NewRecord
from raftnode.runtime.server import Node
from raftnode.settings import NodeSettings
from raftnode.storage.files import Files
from raftnode.testing.faultdisk import FaultDisk

SLOW_S = 1.5
PROBE_MAX_S = 0.7
"""The probe's own time-out is two seconds; the machine may be busy."""


class SlowDisk(FaultDisk):
    """Each fsync takes so many seconds."""

    delay_s = 0.0

    def fdatasync(self, fd: int) -> None:
        time.sleep(self.delay_s)
        super().fdatasync(fd)


@pytest.mark.timeout(60)
async def test_liveness_answers_while_a_write_waits_for_the_disk(tmp_path) -> None:
    disk = SlowDisk(random.Random(0))
    disk.make_directory(tmp_path)
    settings = NodeSettings(
        node_id=1,
        log_dir=tmp_path,
        peer_listen="127.0.0.1:0",
        api_listen="127.0.0.1:0",
        disk_reserve_bytes=0,
    )
    node = Node(settings, Files(disk))
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        while node._running is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        service = node._running._service
        own = VoterSpec(node_id=1, directory_id=service.describe_node().directory_id)
        await service.form(FormRequest(cluster_id="c", voters=(own,)))
        async with asyncio.timeout(20):
            while not service.health().ready:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await service.append([NewRecord(b"key", b"quick")], timeout_ms=5_000)
        disk.delay_s = SLOW_S
        write = group.create_task(service.append([NewRecord(b"key", b"slow")], timeout_ms=20_000))
        url = f"http://{service.describe_node().api_endpoint}/healthz/live"
        slowest_s, probes = 0.0, 0
        async with aiohttp.ClientSession() as session:
            while not write.done():
                began_s = time.monotonic()
                async with session.get(url) as answer:
                    assert answer.status == 200
                slowest_s, probes = max(slowest_s, time.monotonic() - began_s), probes + 1
                await asyncio.sleep(0.05)
        disk.delay_s = 0.0
        assert write.result().base_offset > 0
        assert probes > 5
        assert slowest_s < PROBE_MAX_S
        node.request_stop()
