"""A queue that serves its holders in turn, however much each has waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of several holders; each holder's come in their order.

    Invariant: a holder without an item is not in the table.
    """

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._of)

    def put(self, holder: str, item: T) -> None:
        """Add an item."""
        self._of.setdefault(holder, deque()).append(item)

    def pop(self) -> T:
        """Take the next item; its holder goes behind the others."""
        holder, items = self._of.popitem(last=False)
        item = items.popleft()
        if items:
            self._of[holder] = items
        return item
