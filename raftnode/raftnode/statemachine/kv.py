"""The key-value store: the newest value of each key in the committed log.

This module is a deterministic fold over committed records, without clocks, randomness, I/O or
anything uncommitted. A record with a key and a value puts the value. A record with a key and no
value deletes the key. A record without a key (a raw append, a control record) changes only the
applied offset. So the log is a change log that can be compacted to its newest record per key.
"""

from __future__ import annotations

import bisect
import hashlib
import heapq
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from raftnode.core.types import FIRST_OFFSET, Epoch, Offset
from raftnode.statemachine.errors import OffsetGapError
from raftnode.statemachine.frozen_map import FreezableMap
from raftnode.statemachine.sharded_map import SpreadMap

if TYPE_CHECKING:
    from raftnode.logformat.batch import LogRecord

_ORIGIN = struct.Struct(">qi")
_RUN_KEYS = 4096
"""Sorted in one go: about a millisecond."""
_DIGEST_BYTES = 16
_DIGEST_MODULUS = 1 << (8 * _DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest value of a key and the record that wrote it; the offset is its version."""

    value: bytes
    offset: Offset
    epoch: Epoch


class KeyValueReader(Protocol):
    """The read side of the store, for the API."""

    @property
    def next_offset(self) -> Offset:
        """One past the last applied offset."""
        ...

    def get(self, key: bytes) -> Entry | None:
        """The entry of a key, or None."""
        ...

    def scan(self, *, prefix: bytes = b"", after: bytes | None = None) -> Iterator[bytes]:
        """Keys in byte order that begin with `prefix` and come after `after`."""
        ...

    def state_hash(self) -> str:
        """A digest that is equal on two replicas that applied the same records."""
        ...

    def __len__(self) -> int: ...


class KeyValueStore:
    """The fold itself; `apply` is called once per committed record, in order.

    Invariant: the state is that of the log up to, and without, `next_offset`.
    """

    def __init__(self) -> None:
        # Entries are packed in bytes: the garbage collector does not track a dict that holds
        # only bytes. A walk through a million objects takes it a second, in which the node
        # stands still. The keys below are kept in dicts and a tuple for the same reason.
        self._entries: FreezableMap[bytes, bytes] = FreezableMap()
        self._next_offset = FIRST_OFFSET
        self._size_bytes = 0
        self._digest = 0
        # Keys in order as of the last scan, and what changed since. A scan merges them:
        # sort() finds two sorted runs and needs O(n), while a put stays O(1). Keeping the
        # list sorted with bisect.insort would cost every put of a new key a move of half
        # the list; writes are the hot path and scans are rare.
        self._order: tuple[bytes, ...] = ()
        self._added: SpreadMap[bytes, None] = SpreadMap()
        self._removed: SpreadMap[bytes, None] = SpreadMap()

    @classmethod
    def restore(cls, next_offset: Offset, entries: Iterable[tuple[bytes, Entry]]) -> KeyValueStore:
        """The store as of an offset, from the entries that it had, in any order.

        Raises:
            ValueError: a key stands there twice.
        """
        store, keys = cls(), list[bytes]()
        for key, entry in entries:
            if store._entries.put(key, _packed(entry)) is not None:
                raise ValueError(f"key {key!r} occurs twice")
            store._digest += _entry_digest(key, entry.value, entry.offset, entry.epoch)
            store._size_bytes += len(key) + len(entry.value)
            keys.append(key)
        keys.sort()  # a snapshot's are in order: a look at each
        store._order = tuple(keys)
        store._next_offset = next_offset
        return store

    @property
    def next_offset(self) -> Offset:
        """One past the last applied offset; what `apply` expects next."""
        return self._next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys and values."""
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def apply(
        self, offset: Offset, key: bytes | None, value: bytes | None, *, epoch: Epoch
    ) -> bool:
        """Apply one committed record.

        Returns:
            False when the offset was applied before; then nothing changes.

        Raises:
            OffsetGapError: the offset is not the next one.
        """
        if not self._advance(offset, offset):
            return False
        if key is not None:
            self._write(key, value, offset, epoch)
        return True

    def apply_all(self, records: Iterable[LogRecord]) -> None:
        """Apply consecutive committed records, control records among them, in one go.

        Records that were applied before are left out.

        Raises:
            OffsetGapError: an offset is not the next one; the records before it are applied.
        """
        for record in records:
            offset, key = record.offset, record.key
            if offset == self._next_offset:
                self._next_offset = Offset(offset + 1)
            elif not self._advance(offset, offset):
                continue
            if key is not None and not record.is_control:
                self._write(key, record.value, offset, record.epoch)

    def _write(self, key: bytes, value: bytes | None, offset: Offset, epoch: Epoch) -> None:
        """Put or delete a key; it makes no `Entry`, which would only be packed."""
        if value is None:
            old = self._entries.remove(key)
            if old is not None:
                if key in self._added:
                    self._added.discard(key)
                else:
                    self._removed.put(key, None)
        else:
            old = self._entries.put(key, _ORIGIN.pack(offset, epoch) + value)
            self._digest += _entry_digest(key, value, offset, epoch)
            self._size_bytes += len(key) + len(value)
            if old is None:
                self._added.put(key, None)
        if old is not None:
            before = memoryview(old)[_ORIGIN.size :]
            self._digest -= _entry_digest(key, before, *_ORIGIN.unpack_from(old))
            self._size_bytes -= len(key) + len(before)

    def skip(self, base_offset: Offset, last_offset: Offset) -> bool:
        """Skip offsets that hold nothing for the store: a control batch.

        Returns:
            False when they were passed or applied before.

        Raises:
            OffsetGapError: `base_offset` is past the next offset.
        """
        return self._advance(base_offset, last_offset)

    def freeze(self, pause: Callable[[], None] = lambda: None) -> Iterator[tuple[bytes, Entry]]:
        """The entries as of `next_offset` by key, for another thread to read until `release`.

        The order is that of the keys, so that equal stores give the same entries, whatever was
        written before. The order is made bit by bit when the first entry is read.

        Args:
            pause: called by the reading thread about each millisecond while it makes the order;
                it may raise to give up.

        Raises:
            RuntimeError: the entries are frozen already, or `merge` has not caught up.
        """
        frozen = self._entries.freeze()
        return ((key, _unpacked(frozen[key])) for key in _in_order(frozen, pause))

    def release(self) -> None:
        """End the reading of the frozen entries; then call `merge` until it returns True."""
        self._entries.release()

    def merge(self, limit: int) -> bool:
        """Merge at most `limit` of the entries written meanwhile, after `release`.

        Returns:
            True when nothing is left.
        """
        if self._entries.frozen:
            return False
        self._entries.merge(limit)
        return not self._entries.unmerged

    def let_go(self, pause: Callable[[], None]) -> None:
        """Give the memory back bit by bit, after the last use; a snapshot may still be read.

        In one go a million entries hold the interpreter for some hundred ms, on any thread.

        Args:
            pause: called after each bit; it may raise to give up.
        """
        self._order = ()  # the keys live on in the maps for a moment
        for parts in (self._entries, self._added, self._removed):
            for _ in parts.drop_parts():
                pause()

    def get(self, key: bytes) -> Entry | None:
        """The entry of a key, or None."""
        packed = self._entries.get(key)
        return None if packed is None else _unpacked(packed)

    def scan(self, *, prefix: bytes = b"", after: bytes | None = None) -> Iterator[bytes]:
        """Keys in byte order that begin with `prefix` and come after `after`.

        The caller must exhaust or drop the iterator before the next `apply`.
        """
        keys = self._sorted_keys()
        start = bisect.bisect_left(keys, prefix)
        if after is not None and after >= prefix:
            start = max(start, bisect.bisect_left(keys, after + b"\0"))
        for position in range(start, len(keys)):
            if not keys[position].startswith(prefix):
                return
            yield keys[position]

    def state_hash(self) -> str:
        """A digest that is equal on two replicas that applied the same records.

        The digest is a sum over the entries, so that reading it after each record costs O(1).
        It finds replicas that differ by accident, not forgeries.
        """
        digest = self._digest % _DIGEST_MODULUS
        state = f"{self._next_offset}:{len(self._entries)}:{digest:032x}"
        return hashlib.blake2b(state.encode(), digest_size=_DIGEST_BYTES).hexdigest()

    def _advance(self, base_offset: Offset, last_offset: Offset) -> bool:
        if last_offset < self._next_offset:
            return False
        if base_offset > self._next_offset:
            raise OffsetGapError(self._next_offset, base_offset)
        self._next_offset = Offset(last_offset + 1)
        return True

    def _sorted_keys(self) -> tuple[bytes, ...]:
        if self._added or self._removed:
            # A key that was deleted and put again is in both: it counts as added.
            gone = frozenset(self._removed)
            kept = [key for key in self._order if key not in gone] if gone else list(self._order)
            kept += sorted(self._added)
            kept.sort()
            self._order = tuple(kept)
            self._added, self._removed = SpreadMap(), SpreadMap()
        return self._order


def _in_order(frozen: Mapping[bytes, bytes], pause: Callable[[], None]) -> Iterator[bytes]:
    """The keys in order, without holding the interpreter for long: sorted runs, merged.

    The runs are dicts, which the garbage collector does not track as long as they hold only bytes.
    It would walk through lists each time: a million keys in up to 180 ms.
    """
    keys, runs = iter(frozen), list[dict[bytes, None]]()
    while run := dict.fromkeys(sorted(islice(keys, _RUN_KEYS))):
        runs.append(run)
        pause()
    yield from heapq.merge(*runs)
    while runs:  # a million keys let go in one go are 150 ms
        runs.pop()
        pause()


def _packed(entry: Entry) -> bytes:
    return _ORIGIN.pack(entry.offset, entry.epoch) + entry.value


def _unpacked(packed: bytes) -> Entry:
    offset, epoch = _ORIGIN.unpack_from(packed)
    return Entry(packed[_ORIGIN.size :], Offset(offset), Epoch(epoch))


def _entry_digest(key: bytes, value: bytes | memoryview, offset: int, epoch: int) -> int:
    digest = hashlib.blake2b(
        b"%d:%d:%d:%b" % (offset, epoch, len(key), key), digest_size=_DIGEST_BYTES
    )
    digest.update(value)
    return int.from_bytes(digest.digest(), "big")
