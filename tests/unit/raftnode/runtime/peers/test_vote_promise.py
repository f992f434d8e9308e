"""S33: what a start promises is durable first, and forgotten only once it is over."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.raftnode.runtime.conftest import LONG_S

from raftnode.core.types import NodeId
from raftnode.errors import StorageLostError
from raftnode.runtime.peers.vote_promise import forget_promises, remember_promise
from raftnode.storage.directory import incarnation
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.directory.incarnation import FILE_NAME, Incarnation, read_incarnation
from raftnode.storage.files import Files

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


@pytest.mark.without("runtime.peers.vote_promise:remember_promise", "promise_ms > ", "0 > ")
def test_the_longest_promise_is_remembered(path: Path) -> None:
    for own_ms, longest_ms in ((0, 0), (300, 300), (200, 300), (400, 400), (0, 400)):
        directory = DataDirectory.open(path, NodeId(1))
        asyncio.run(remember_promise(directory, own_ms))
        directory.close()
        assert promised(path) == longest_ms


@pytest.mark.without(
    "runtime.peers.vote_promise:forget_promises", "directory.promised_ms / 1000", "0"
)
def test_a_longer_promise_is_forgotten_once_it_is_over(path: Path) -> None:
    directory = DataDirectory.open(path, NodeId(1))
    asyncio.run(remember_promise(directory, 300))
    began_s = time.monotonic()
    asyncio.run(forget_promises(directory, 100))
    assert time.monotonic() - began_s >= 0.3
    asyncio.run(forget_promises(directory, 100))
    directory.close()
    assert promised(path) == 100


class Door:
    """A lock that tells when a thread finds it taken."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.tried = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.tried.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.without(
    "storage.directory.directory:DataDirectory._change_incarnation",
    "with self._incarnation_lock:",
    "if True:",
)
def test_a_latch_and_a_promise_that_are_written_at_once_both_stand(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each from its thread, into one file: the latch comes while the promise is being written."""
    directory = DataDirectory.open(path, NodeId(1))
    door = Door(directory._incarnation_lock)
    monkeypatch.setattr(directory, "_incarnation_lock", door)
    writing, write = threading.Event(), incarnation.write_incarnation

    def held(files: Files, to: Path, new: Incarnation) -> None:
        if not writing.is_set():
            writing.set()
            assert door.tried.wait(LONG_S)
        write(files, to, new)

    def promise() -> None:
        directory.write_promise(100)

    def latch() -> None:
        assert writing.wait(LONG_S)
        directory._change_incarnation(latched=True)
        door.tried.set()

    monkeypatch.setattr(incarnation, "write_incarnation", held)
    failed: list[BaseException | None] = []
    with ThreadPoolExecutor(2) as pool:
        failed.extend(job.exception() for job in (pool.submit(promise), pool.submit(latch)))
    directory.close()
    assert failed == [None, None]
    found = read_incarnation(Files(), path / FILE_NAME)
    assert (found.promised_ms, found.latched) == (100, True)


@pytest.mark.rule("S4")
@pytest.mark.without(
    "storage.directory.directory:DataDirectory.write_promise", "self.check_identity()", "pass"
)
def test_nothing_is_promised_on_a_disk_that_is_gone(path: Path) -> None:
    directory = DataDirectory.open(path, NodeId(1))
    path.rename(path.with_name("elsewhere"))
    path.mkdir()
    lost = False
    try:
        directory.write_promise(300)
    except StorageLostError:
        lost = True
    directory.close()
    assert lost
