"""What the client returns: bytes instead of base64, otherwise the API's own words."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from raftnode.api.model import KeyList, ReadResult, RecordOut
from raftnode.session import answers


class _Control(TypedDict):
    control: str
    fields: dict[str, object]


_CONTROL = TypeAdapter(_Control)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A committed record; `control` names its kind when it is the quorum's own."""

    offset: int
    epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    control: str | None = None
    fields: Mapping[str, object] | None = None

    @classmethod
    def of(cls, record: RecordOut) -> LogRecord:
        """Read a record of `GET /v1/log`."""
        return cls(
            offset=record.offset,
            epoch=record.epoch,
            timestamp_ms=record.timestamp_ms,
            key=_decode(record.key),
            value=_decode(record.value),
            control=record.control,
            fields=record.fields,
        )

    @classmethod
    def of_session(cls, record: answers.LogRecord) -> LogRecord:
        """Read a record of a session's READ.

        Raises:
            ValueError: a control record is not described in JSON.
        """
        _, offset, epoch, timestamp_ms, key, value = record
        if not record.is_control:
            return cls(offset, epoch, timestamp_ms, key, value)
        described = _CONTROL.validate_json(value or b"")
        return cls(
            offset, epoch, timestamp_ms, None, None, described["control"], described["fields"]
        )


@dataclass(frozen=True, slots=True)
class LogPage:
    """A stretch of the committed log, and where to read next."""

    records: tuple[LogRecord, ...]
    next_offset: int
    high_watermark: int
    log_start_offset: int

    @classmethod
    def of(cls, read: ReadResult) -> LogPage:
        """Read the answer of `GET /v1/log`."""
        return cls(
            records=tuple(LogRecord.of(record) for record in read.records),
            next_offset=read.next_offset,
            high_watermark=read.high_watermark,
            log_start_offset=read.log_start_offset,
        )

    @classmethod
    def of_session(cls, read: answers.Records) -> LogPage:
        """Read the answer of a session's READ.

        Raises:
            ValueError: a control record is not described in JSON.
        """
        return cls(
            records=tuple(LogRecord.of_session(record) for record in read.records),
            next_offset=read.next_offset,
            high_watermark=read.high_watermark,
            log_start_offset=read.log_start_offset,
        )


@dataclass(frozen=True, slots=True)
class Value:
    """The newest value of a key and the record that wrote it; the offset is its version."""

    value: bytes
    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ListingEntry:
    """One entry of a listing."""

    key: str
    value: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of entries in byte order of their keys; `next` is the next call's `after`."""

    entries: tuple[ListingEntry, ...]
    next: str | None

    @classmethod
    def of(cls, page: KeyList) -> Listing:
        """Read the answer of `GET /v1/kv`."""
        return cls(
            entries=tuple(
                ListingEntry(entry.key, base64.b64decode(entry.value), entry.offset)
                for entry in page.entries
            ),
            next=page.next,
        )


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
