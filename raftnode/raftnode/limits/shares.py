"""A count with a limit in total and a limit for each holder."""

from __future__ import annotations

from typing import Literal

Exceeded = Literal["total", "holder"]


class FreeShares:
    """Bytes of which a holder may have as many as are left.

    So one holder gets at most half, four that take all they can leave a fifth, and there is always
    room for a holder that has little.

    Args:
        most: in total.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most, most)
        self._most = most

    @property
    def total(self) -> int:
        """How much is taken."""
        return self._shares.total

    def of(self, holder: str) -> int:
        """How much a holder has."""
        return self._shares.of(holder)

    def take(self, holder: str, amount: int) -> bool:
        """Take a part, unless the holder would have more than is left; then nothing is taken."""
        if self.of(holder) + amount > self._most - self.total:
            return False
        return self._shares.take(holder, amount) is None

    def give_back(self, holder: str, amount: int) -> None:
        """Give a part back that was taken."""
        self._shares.give_back(holder, amount)


class Shares:
    """How much of something is taken, and by which holder.

    Invariant: a holder without a share is not in the table, so its size is bounded by the total.

    Args:
        most: in total.
        most_each: of one holder.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._taken: dict[str, int] = {}
        self.total = 0

    def of(self, holder: str) -> int:
        """How much a holder has."""
        return self._taken.get(holder, 0)

    def take(self, holder: str, amount: int = 1) -> Exceeded | None:
        """Take a part, or return the limit that forbids it; then nothing is taken."""
        held = self._taken.get(holder, 0)
        if held + amount > self._most_each:
            return "holder"
        if self.total + amount > self._most:
            return "total"
        self._taken[holder] = held + amount
        self.total += amount
        return None

    def give_back(self, holder: str, amount: int = 1) -> None:
        """Give a part back that was taken."""
        left = self._taken[holder] - amount
        if left < 0:
            raise ValueError(f"{holder} gives back {amount} and has {left + amount}")
        self.total -= amount
        if left:
            self._taken[holder] = left
        else:
            del self._taken[holder]
