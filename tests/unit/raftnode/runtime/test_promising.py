"""S33: what a start promises is durable first, and forgotten only once it is over."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from raftnode.core.types import NodeId
from raftnode.runtime.promising import forget_promises, remember_promise
from raftnode.storage.directory import DataDirectory

pytestmark = pytest.mark.rule("S33")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    return data


def promised(path: Path) -> int:
    directory = DataDirectory.open(path, NodeId(1))
    try:
        return directory.promised_ms
    finally:
        directory.close()


@pytest.mark.without("runtime.promising:remember_promise", "promise_ms > ", "0 > ")
def test_the_longest_promise_is_remembered(path: Path) -> None:
    for own_ms, longest_ms in ((0, 0), (300, 300), (200, 300), (400, 400), (0, 400)):
        directory = DataDirectory.open(path, NodeId(1))
        asyncio.run(remember_promise(directory, own_ms))
        directory.close()
        assert promised(path) == longest_ms


@pytest.mark.without("runtime.promising:forget_promises", "directory.promised_ms / 1000", "0")
def test_a_longer_promise_is_forgotten_once_it_is_over(path: Path) -> None:
    directory = DataDirectory.open(path, NodeId(1))
    asyncio.run(remember_promise(directory, 300))
    began_s = time.monotonic()
    asyncio.run(forget_promises(directory, 100))
    assert time.monotonic() - began_s >= 0.3
    asyncio.run(forget_promises(directory, 100))
    directory.close()
    assert promised(path) == 100
