"""A client's own record of its writes, with which a test compares a log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from proofkit.localquorum import LocalQuorum
from raftnode.client.errors import NotDoneError, OutcomeUnknownError


@dataclass(slots=True)
class ClientRecord:
    """The writes of one client and their outcomes.

    Attributes:
        acknowledged: offset and value by key.
        unknown: values by key whose outcome is unknown.
    """

    acknowledged: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])
    unknown: dict[str, bytes] = field(default_factory=dict[str, bytes])

    async def write(self, quorum: LocalQuorum, first: int, count: int, many: int = 16) -> None:
        """Put numbered keys, some at a time; repeat each put that certainly failed."""
        gate = asyncio.Semaphore(many)

        async def put(number: int) -> None:
            # Lengths on both sides of what one varint byte and an Arrow view hold.
            key, value = f"key-{number}", f"{number}:".encode() + b"v" * (number % 300)
            async with gate:
                while True:
                    try:
                        done = await quorum.client.put(key, value, timeout_ms=15_000)
                    except OutcomeUnknownError:
                        self.unknown[key] = value
                    except NotDoneError:
                        continue
                    else:
                        self.acknowledged[key] = (done.base_offset, value)
                    return

        await asyncio.gather(*(put(number) for number in range(first, first + count)))

    def check(self, rows: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Check that the log has each acknowledged write once, and each other at most once.

        Args:
            rows: offset, key and value of every record of the log; those without a key are
                another writer's.

        Raises:
            AssertionError: a write is missing or is there twice.
        """
        places: dict[str, list[tuple[int, bytes]]] = {}
        for offset, key, value in rows:
            if key is not None:
                places.setdefault(bytes(key).decode(), []).append((offset, bytes(value or b"")))
        missing = {key for key in self.acknowledged if key not in places}
        assert missing == set()
        assert {key: places[key] for key in self.acknowledged} == {
            key: [place] for key, place in self.acknowledged.items()
        }
        for key, value in self.unknown.items():
            assert [value for _, value in places.get(key, [])] in ([], [value])
        assert set(places) <= {*self.acknowledged, *self.unknown}
