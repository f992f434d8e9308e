"""Writers and the read-back, against a node in memory behind the real HTTP server."""

import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry

from kraftquorum_demo.plan import Plan
from kraftquorum_demo.readback import read_back
from kraftquorum_demo.record import Outcome, Record
from kraftquorum_demo.verify import compare
from kraftquorum_demo.writers import Writers, numbered_value
from proofkit.memoryservice import MemoryService
from raftnode.api.errors import refusal
from raftnode.api.server import ApiServer, make_app
from raftnode.client import QuorumClient
from raftnode.core.types import Endpoint


@pytest.fixture
async def service():
    return MemoryService()


@pytest.fixture
async def client(service):
    app = make_app(service, registry=CollectorRegistry(), version="1")
    server = ApiServer(app, shutdown_grace_ms=0)
    try:
        endpoint = await server.start(Endpoint("127.0.0.1", 0))
        async with QuorumClient([endpoint], timeout_ms=60_000) as opened:
            yield opened
    finally:
        await server.stop()


def writers(client, record, **plan) -> Writers:
    return Writers(client, record, Plan(**plan), time.monotonic)


async def test_all_that_was_written_is_read_back(client):
    record = Record()
    work = writers(client, record, writers=3, writes_per_s=3000.0, loaders=2)
    files = {f"Zone/{n}": b"TZif%d" % n for n in range(25)}
    async with asyncio.TaskGroup() as group:
        group.create_task(work.write_on())
        work.begin()
        await work.load(files)
        while record.count(Outcome.ACKNOWLEDGED) < 100:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await work.end()
    record.close(time.monotonic())
    back = await read_back(client)
    verdict = compare(record.writes, back.log, back.kv)
    assert verdict.differences == []
    assert verdict.acknowledged >= 100
    assert {entry.key: entry.value for entry in back.kv if entry.key in files} == files
    assert any(write.key is None for write in record.writes)
    assert back.high_watermark == len(back.log)


async def test_a_refused_zone_is_written_again(client, service):
    record = Record()
    service.fail_next(refusal("RECORD_TOO_LARGE", "planted"))
    await writers(client, record, loaders=1).load({"Zone/1": b"TZif"})
    assert [write.outcome for write in record.writes] == [Outcome.REFUSED, Outcome.ACKNOWLEDGED]
    back = await read_back(client)
    assert compare(record.writes, back.log, back.kv).ok


async def test_an_unknown_write_is_not_sent_again(client, service):
    record = Record()
    service.fail_next(refusal("LEADERSHIP_LOST", "planted"))
    write = await writers(client, record).write("w0", "k", b"v")
    assert write.outcome is Outcome.UNKNOWN
    assert service.appends == 0


def test_numbered_values_are_unique_and_the_same_each_time():
    values = {numbered_value(w, n, 100) for w in ("w0", "w1") for n in range(50)}
    assert len(values) == 100
    assert all(len(value) == 100 for value in values)
    assert numbered_value("w0", 3, 100) == numbered_value("w0", 3, 100)
    assert numbered_value("w0", 3, 0) == b"w0 0000003 "
