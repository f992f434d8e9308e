"""What a client's key and records must be, whichever way they come: HTTP or a session."""

from __future__ import annotations

from collections.abc import Sequence

from raftnode.api.errors import refusal
from raftnode.api.http import ApiLimits
from raftnode.api.queries import KEY_MAX_BYTES
from raftnode.api.service import NewRecord
from raftnode.logformat.keyless import Sizes


def check_key(key: bytes) -> None:
    """Refuse a key that no node stores.

    Raises:
        RequestError: INVALID_REQUEST when it is empty, too long or not UTF-8.
    """
    if not key:
        raise refusal("INVALID_REQUEST", "key: is empty; expected 1 byte or more")
    if len(key) > KEY_MAX_BYTES:
        raise refusal("INVALID_REQUEST", f"key: {len(key)} bytes; at most {KEY_MAX_BYTES}")
    try:
        key.decode()
    except UnicodeDecodeError as error:
        raise refusal("INVALID_REQUEST", f"key: is not UTF-8 at byte {error.start}") from None


def check_sizes(records: Sequence[NewRecord], limits: ApiLimits) -> None:
    """Refuse records that the leader would never accept.

    Raises:
        RequestError: RECORD_TOO_LARGE or BATCH_TOO_LARGE, with the sizes.
    """
    total = 0
    for index, record in enumerate(records):
        size = record.size_bytes
        total += size
        _check_record(index, size, limits)
    _check_batch(total, limits)


def check_batch_sizes(sizes: Sizes, limits: ApiLimits) -> None:
    """As `check_sizes`, for the values of a client's batch.

    Raises:
        RequestError: RECORD_TOO_LARGE or BATCH_TOO_LARGE, with the sizes.
    """
    _check_record(sizes.largest_at, sizes.largest_bytes, limits)
    _check_batch(sizes.total_bytes, limits)


def _check_record(index: int, size: int, limits: ApiLimits) -> None:
    if size > limits.record_max_bytes:
        raise refusal(
            "RECORD_TOO_LARGE",
            f"records.{index}: {size} bytes; at most {limits.record_max_bytes} (record_max_bytes)",
        )


def _check_batch(total: int, limits: ApiLimits) -> None:
    if total > limits.batch_max_bytes:
        raise refusal(
            "BATCH_TOO_LARGE",
            f"records: {total} bytes together; at most {limits.batch_max_bytes} (max_batch_bytes)",
        )
