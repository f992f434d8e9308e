"""A disk that takes seconds for each fsync: the liveness probe does not wait for it."""

from __future__ import annotations

import asyncio
import random
import threading

import aiohttp

from proofkit.faultdisk import FaultDisk
from raftnode.api.model import FormRequest, VoterSpec
from raftnode.api.service import NewRecord
from raftnode.runtime.server import Node
from raftnode.settings import NodeSettings
from raftnode.storage.files import Files

from .conftest import LONG_MS, LONG_S, until


class SlowDisk(FaultDisk):
    """Each fsync waits for as long as it may not go on, a minute at most."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.go_on, self.held = threading.Event(), threading.Event()
        self.go_on.set()

    def fdatasync(self, fd: int) -> None:
        if not self.go_on.is_set():
            self.held.set()
            self.go_on.wait(LONG_S)
        super().fdatasync(fd)


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
        async with asyncio.timeout(LONG_S):
            while not service.health().ready:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await service.append([NewRecord(b"key", b"quick")], timeout_ms=LONG_MS)
        disk.go_on.clear()
        write = group.create_task(service.append([NewRecord(b"key", b"slow")], timeout_ms=LONG_MS))
        url = f"http://{service.describe_node().api_endpoint}/healthz/live"
        try:
            await until(disk.held.is_set)
            async with aiohttp.ClientSession() as session:
                for _ in range(6):
                    async with session.get(url) as answer:
                        assert answer.status == 200
            assert not write.done()
        finally:
            disk.go_on.set()
        assert (await write).base_offset > 0
        node.request_stop()
