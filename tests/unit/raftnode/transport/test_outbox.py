from __future__ import annotations

import asyncio

from raftnode.transport.outbox import Outbox


async def drained(outbox: Outbox) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert outbox.waiting_bytes == 0


async def test_frames_go_out_in_order_within_the_limit() -> None:
    sent: list[bytes] = []
    gate = asyncio.Event()

    async def send(frame: bytes) -> None:
        await gate.wait()
        sent.append(frame)

    outbox = Outbox(send, bytes_max=10)
    assert outbox.put(b"x" * 50), "one frame always fits"
    assert not outbox.put(b"a")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outbox.run())
        gate.set()
        await drained(outbox)
        assert outbox.put(b"12345")
        assert outbox.put(b"67890")
        assert not outbox.put(b"1")
        await drained(outbox)
        task.cancel()
    assert sent == [b"x" * 50, b"12345", b"67890"]


async def test_connection_that_is_gone_ends_the_writing() -> None:
    async def send(frame: bytes) -> None:
        raise ConnectionResetError

    outbox = Outbox(send, bytes_max=10)
    outbox.put(b"x")
    await asyncio.wait_for(outbox.run(), 1)
    assert not outbox.put(b"y" * 10), "nothing drains it any more"
