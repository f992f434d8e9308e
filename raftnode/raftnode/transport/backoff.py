"""When to dial a peer again: soon while it may be restarting, seldom when it is long down."""

from __future__ import annotations

import random

from raftnode.transport.settings import TransportSettings


class Backoff:
    """Pauses between attempts to reach one peer; all times in seconds of the loop's clock."""

    def __init__(self, settings: TransportSettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._failures = 0
        self._gone_since = 0.0
        self._retry_at = 0.0

    def failed(self, now: float) -> None:
        """An attempt failed, or a connection ended too soon to be one."""
        settings = self._settings
        if self._failures == 0:
            self._gone_since = now
        long_gone = now - self._gone_since > settings.backoff_quick_ms / 1000
        ceiling = settings.backoff_max_ms if long_gone else settings.backoff_quick_max_ms
        pause_ms = min(settings.backoff_initial_ms * 2 ** min(self._failures, 16), ceiling)
        self._failures += 1
        self._retry_at = now + pause_ms / 1000 * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Dial at once next time, as the peer was reached or was heard of."""
        self._failures = 0
        self._retry_at = 0.0

    def pause(self, now: float) -> float:
        """How long to wait before the next attempt; 0: dial now."""
        return max(0.0, self._retry_at - now)
