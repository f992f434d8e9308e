"""Connections to controllers: by name, and without harm to the rest of the operator."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from kafkaserver import Controller, serving
from kraftquorum_operator.kafka.connection import Address, connect
from kraftquorum_operator.kafka.errors import KafkaUnreachableError
from kraftquorum_operator.kafka.query import AT_ONCE, Target, query
from kraftquorum_operator.kafka.security import Security


async def test_a_controller_is_reached_by_its_name() -> None:
    async with serving([Controller()]) as (address,):
        port = int(address.partition(":")[2])
        view = await query(Target([Address("localhost", port)], {}, Security(), 60, 60))
    assert view.confirmed


@pytest.mark.without(
    "kraftquorum_operator.kafka.query:_node_or_error",
    "async with turns, connect",
    "async with connect",
)
async def test_a_check_asks_few_controllers_at_once() -> None:
    """So the memory for their answers is bounded."""
    hanging = Controller(hangs=True)
    async with serving([hanging]) as (address,):
        place = Address("127.0.0.1", int(address.partition(":")[2]))
        target = Target([place] * 20, {}, Security(), 60, 60)
        querying = asyncio.ensure_future(query(target))  # noqa: TID251
        try:
            async with asyncio.timeout(30):
                while len(hanging.asked) < AT_ONCE:  # noqa: ASYNC110 - of the listener
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert hanging.connections == AT_ONCE
        finally:
            querying.cancel()
            await asyncio.wait({querying})


@pytest.mark.without(
    "kraftquorum_operator.kafka.connection:_resolved",
    "run_in_executor(_WORKERS, resolve)",
    "run_in_executor(None, resolve)",
)
async def test_a_name_server_that_hangs_takes_no_thread_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The operator resolves its nodes, and makes its metrics and its page, on other threads."""
    released = threading.Event()

    def getaddrinfo(*_: object, **__: object) -> list[object]:
        released.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def attempt() -> None:
        async with connect(Address("a.example", 1), Security(), 60):
            pass

    attempts = [asyncio.ensure_future(attempt()) for _ in range(64)]  # noqa: TID251
    try:
        await asyncio.sleep(0.1)
        other = asyncio.ensure_future(asyncio.to_thread(int, "7"))  # noqa: TID251
        await asyncio.wait({other}, timeout=15)
        assert other.done()
        released.set()
        failures = await asyncio.gather(*attempts, return_exceptions=True)
        assert all(isinstance(failure, KafkaUnreachableError) for failure in failures)
        assert "a.example has no address" in str(failures[0])
    finally:
        released.set()
