"""Frames are written at once, in order and within the limit."""

from __future__ import annotations

import asyncio

import pytest

from raftnode.transport.outbox import Outbox


class Connection:
    """Takes a frame at once, then waits while it is full."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.takes_more = asyncio.Event()

    async def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        await self.takes_more.wait()


async def drained(outbox: Outbox) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert outbox.waiting_bytes == 0


async def test_frame_is_written_before_the_caller_goes_on() -> None:
    connection = Connection()
    connection.takes_more.set()
    outbox = Outbox(connection.send, bytes_max=10)
    assert outbox.put(b"12345")
    assert outbox.put(b"67890" * 5)
    assert connection.sent == [b"12345", b"67890" * 5]
    assert outbox.waiting_bytes == 0


async def test_frames_wait_in_order_within_the_limit_while_the_connection_is_full() -> None:
    connection = Connection()
    outbox = Outbox(connection.send, bytes_max=10)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outbox.run())
        assert outbox.put(b"x" * 50), "one frame always fits"
        assert not outbox.put(b"a")
        await asyncio.sleep(0)
        assert not outbox.put(b"a")
        connection.takes_more.set()
        await drained(outbox)
        connection.takes_more.clear()
        assert outbox.put(b"12345")
        assert outbox.put(b"67890")
        assert not outbox.put(b"1")
        assert connection.sent == [b"x" * 50, b"12345"]
        connection.takes_more.set()
        await drained(outbox)
        task.cancel()
    assert connection.sent == [b"x" * 50, b"12345", b"67890"]


async def test_cancelled_writing_ends_the_send_that_waits() -> None:
    ended: list[str] = []

    async def send(_: bytes) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("send")

    outbox = Outbox(send, bytes_max=10)
    outbox.put(b"x")
    task = asyncio.get_running_loop().create_task(outbox.run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["send"]


async def test_connection_that_is_gone_ends_the_writing() -> None:
    async def send(_: bytes) -> None:
        raise ConnectionResetError

    outbox = Outbox(send, bytes_max=10)
    outbox.put(b"x")
    await asyncio.wait_for(outbox.run(), 1)
    assert not outbox.put(b"y" * 10), "nothing drains it any more"


async def test_connection_that_goes_while_a_frame_waits_ends_the_writing() -> None:
    gone = asyncio.get_running_loop().create_future()

    async def send(_: bytes) -> None:
        await gone

    outbox = Outbox(send, bytes_max=10)
    outbox.put(b"x")
    gone.set_exception(ConnectionResetError())
    await asyncio.wait_for(outbox.run(), 1)
    assert not outbox.put(b"y" * 10), "nothing drains it any more"
