from __future__ import annotations

import random

from raftnode.transport import TransportSettings
from raftnode.transport.backoff import Backoff


def pauses(backoff: Backoff, start: float, count: int) -> list[float]:
    now, found = start, []
    for _ in range(count):
        backoff.failed(now)
        found.append(backoff.pause(now))
        now += found[-1]
    return found


def test_pauses_are_short_while_a_peer_may_be_restarting_and_bounded_after() -> None:
    settings = TransportSettings()
    backoff = Backoff(settings, random.Random(3))
    found = pauses(backoff, 0.0, 2000)
    assert found[0] <= settings.backoff_initial_ms / 1000
    total, quick = 0.0, []
    for pause in found:
        if total <= settings.backoff_quick_ms / 1000:
            quick.append(pause)
        total += pause
    assert max(quick) <= settings.backoff_quick_max_ms / 1000
    assert settings.backoff_max_ms / 2000 < max(found) <= settings.backoff_max_ms / 1000
    assert len(set(found)) > 1000, "jitter"


def test_reset_dials_at_once() -> None:
    backoff = Backoff(TransportSettings(), random.Random(3))
    backoff.failed(100.0)
    assert backoff.pause(100.0) > 0
    backoff.reset()
    assert backoff.pause(100.0) == 0
