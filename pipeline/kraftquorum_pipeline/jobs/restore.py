"""Is what the files come to what a living quorum has? The quorum may be written to meanwhile.

The state at an offset comes from the files. What was committed since comes from the quorum's
log. A key may be read at any moment between the begin and the end of the listing, so what is
listed must be the key's state at one of these moments. Pure but for `look`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from kraftquorum_pipeline.audit.sound import SoundLog
from kraftquorum_pipeline.audit.states import read_state, read_stretch
from kraftquorum_pipeline.errors import TrimmedError
from raftnode.client import QuorumClient, RefusedError

_PAGE_BYTES = 2 << 20
_PAGE_KEYS = 1000
_SHOWN_MAX = 20


class Held(NamedTuple):
    """A key's value: where it was written, and a hash."""

    offset: int
    digest: bytes

    @classmethod
    def of(cls, offset: int, value: bytes) -> Held:
        """From the value."""
        return cls(offset, blake2b(value, digest_size=16).digest())


class Written(NamedTuple):
    """A committed record with a key; `held` None: a deletion."""

    offset: int
    key: bytes
    held: Held | None


@dataclass(frozen=True, slots=True)
class Living:
    """What a living quorum said.

    Attributes:
        cluster_id: its id.
        records: from the offset of the files on, with a key.
        listed: all keys, each read at some moment.
        began: the high watermark before the listing.
        ended: the high watermark after it.
    """

    cluster_id: str
    records: tuple[Written, ...]
    listed: Mapping[bytes, Held]
    began: int
    ended: int


@dataclass(slots=True)
class Restored:
    """The outcome.

    Attributes:
        end: the offset that the files were taken at.
        keys: of the state there.
        listed: keys of the living quorum.
        changed: keys that were written since.
        differences: what does not fit, in words; at most a few.
        different: how many.
    """

    end: int
    keys: int
    listed: int = 0
    changed: int = 0
    different: int = 0
    differences: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        """Whether all of it fits."""
        return not self.different


def state_of(log: SoundLog) -> dict[bytes, Held]:
    """The key-value store that a log comes to.

    Raises:
        StorageCorruptError: a file is not sound after all.
    """
    state: dict[bytes, Held] = {}
    if log.base is not None:
        for key, value, offset, _ in read_state(log.base):
            state[key] = Held.of(offset, value or b"")
    for stretch in log.stretches:
        for key, value, offset, _ in read_stretch(stretch):
            if value is None:
                state.pop(key, None)
            else:
                state[key] = Held.of(offset, value)
    return state


async def look(client: QuorumClient, start: int) -> Living:
    """Read a living quorum's log from an offset on, and its store.

    Raises:
        TrimmedError: its log begins later.
        ClientError: it could not be read.
    """
    before = await client.describe_quorum(confirmed=True)
    listed: dict[bytes, Held] = {}
    after: str | None = None
    while True:
        page = await client.list(after=after, limit=_PAGE_KEYS)
        for entry in page.entries:
            listed[entry.key.encode("utf-8", "surrogateescape")] = Held.of(
                entry.offset, entry.value
            )
        after = page.next
        if after is None:
            break
    end = (await client.describe_quorum(confirmed=True)).high_watermark
    records: list[Written] = []
    offset = start
    while offset < end:
        try:
            page = await client.read(offset, max_bytes=_PAGE_BYTES, max_wait_ms=500)
        except RefusedError as error:
            if error.error != "OFFSET_OUT_OF_RANGE":
                raise
            said = f"the log was trimmed since: take newer files ({error.answer.message})"
            raise TrimmedError(f"cluster {before.cluster_id}", said, offset) from error
        for record in page.records:
            if record.control is None and record.key is not None and record.offset < end:
                held = None if record.value is None else Held.of(record.offset, record.value)
                records.append(Written(record.offset, record.key, held))
        offset = page.next_offset
    return Living(before.cluster_id, tuple(records), listed, before.high_watermark, end)


def compare(state: Mapping[bytes, Held], end: int, living: Living) -> Restored:
    """Hold a state at an offset against a living quorum.

    Args:
        state: from the files.
        end: the offset.
        living: the quorum; its records begin at `end`.
    """
    result = Restored(end, len(state), len(living.listed))
    written: dict[bytes, list[Written]] = {}
    for record in living.records:
        written.setdefault(record.key, []).append(record)
    result.changed = len(written)
    for key in sorted({*state, *living.listed, *written}):
        possible = list(_moments(state.get(key), written.get(key, ()), living.began))
        there = living.listed.get(key)
        if there in possible:
            continue
        result.different += 1
        if len(result.differences) < _SHOWN_MAX:
            shown = repr(key.decode("utf-8", "backslashreplace"))
            wanted = " or ".join(dict.fromkeys(_words(one) for one in possible))
            result.differences.append(f"key {shown} is {_words(there)}, not {wanted}")
    return result


def _moments(first: Held | None, records: Iterable[Written], began: int) -> Iterable[Held | None]:
    """What a key could be from the moment on at which `began` was the high watermark."""
    now, open_ = first, []
    for record in records:
        if record.offset < began:
            now = record.held
        else:
            open_.append(record.held)
    return [now, *open_]


def _words(held: Held | None) -> str:
    return "not there" if held is None else f"what offset {held.offset} wrote"
