"""Cuts or silences a stream of watch events (pure)."""

from .rules import CutWatch, SilenceWatch


class WatchFilter:
    """Takes the server's bytes; says what goes on to the client.

    Attributes:
        cut: Whether the connection is to be broken now.
    """

    def __init__(self, cuts: list[CutWatch], silences: list[SilenceWatch]) -> None:
        self._event_limit = _least([c.after_events for c in cuts])
        self._byte_limit = _least([c.after_bytes for c in cuts])
        self._silent_after = _least([s.after_events for s in silences])
        self._events = 0
        self._bytes = 0
        self.cut = self._event_limit == 0 or self._byte_limit == 0

    def feed(self, data: bytes) -> bytes:
        """The part of ``data`` that passes."""
        passed = bytearray()
        while data and not self.cut:
            end = data.find(b"\n") + 1
            line, data = (data[:end], data[end:]) if end else (data, b"")
            if self._silent_after is not None and self._events >= self._silent_after:
                continue
            if self._byte_limit is not None:
                line = line[: self._byte_limit - self._bytes]
            passed += line
            self._bytes += len(line)
            self._events += line.endswith(b"\n")
            self.cut = (self._byte_limit is not None and self._bytes >= self._byte_limit) or (
                self._event_limit is not None and self._events >= self._event_limit
            )
        return bytes(passed)


def _least(values: list[int] | list[int | None]) -> int | None:
    return min((v for v in values if v is not None), default=None)
