"""A pause lets others go on, and ends the work of a node that stops."""

from __future__ import annotations

import threading

import pytest

from raftnode.runtime.process.pause import Pause, StoppedError


def test_it_returns_after_its_time_until_the_node_stops() -> None:
    pause = Pause()
    pause()
    pause(0.002)
    assert not pause.stopped
    pause.stop()
    assert pause.stopped
    for _ in range(2):
        with pytest.raises(StoppedError):
            pause()


def test_a_long_one_ends_when_the_node_stops() -> None:
    pause, ended = Pause(), threading.Event()

    def work() -> None:
        with pytest.raises(StoppedError):
            pause(60)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    pause.stop()
    assert ended.wait(10)
    thread.join()
