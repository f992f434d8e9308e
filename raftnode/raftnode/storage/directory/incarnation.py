"""The `incarnation` file: how often this storage was opened, and by which starts (S3).

The count only grows. A peer that has seen a larger number knows that this volume was restored to
an earlier state. A volume that is started again and again would overtake that number, so each
start also leaves a random nonce. A peer knows a later start of the same storage by the earlier
start's nonce in its line.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from raftnode.core.replication.peer_memory import LINE_MAX
from raftnode.errors import StorageCorruptError
from raftnode.logformat.sealed_json import JsonValue, integer, seal, unseal
from raftnode.storage.files import Files

FILE_NAME = "incarnation"

NONCE = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Incarnation:
    """How often a storage was opened.

    Attributes:
        count: the number of openings so far.
        line: nonces of the last openings, the latest first; shorter than `count` if openings by
            earlier programs left none.
        latched: whether there is a latch beside it (S18): a start that misses it is refused.
        promised_ms: the longest that one of these starts may have promised not to vote (S33).
    """

    count: int = 0
    line: tuple[str, ...] = ()
    latched: bool = False
    promised_ms: int = 0

    def next(self) -> Incarnation:
        """The incarnation after one more opening, with a nonce of its own."""
        line = (secrets.token_hex(8), *self.line)[:LINE_MAX]
        return Incarnation(self.count + 1, line, self.latched, self.promised_ms)


def read_incarnation(files: Files, path: Path) -> Incarnation:
    """The openings so far.

    Raises:
        StorageCorruptError: the file is missing or is not what `write_incarnation` writes.
    """
    data = files.read_bytes(path)
    if data is None:
        raise StorageCorruptError(f"{path} is missing")
    try:
        fields, intact = unseal(data)
        if intact:
            line = _line(fields.get("starts", []))
            # Earlier programs did not know these fields, and leave them out.
            latched = fields.get("latched", False) is True
            promised_ms = integer(fields, "promisedMs", 0) if "promisedMs" in fields else 0
            return Incarnation(integer(fields, "incarnation", 0), line, latched, promised_ms)
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error
    raise StorageCorruptError(f"{path} is damaged: its checksum is wrong")


def _line(value: JsonValue) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > LINE_MAX:
        raise ValueError("starts is not a list of nonces")
    return tuple(nonce(item) for item in value)


def nonce(value: JsonValue) -> str:
    """Read one nonce.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str) or NONCE.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not the nonce of a start")
    return value


def write_incarnation(files: Files, path: Path, incarnation: Incarnation) -> None:
    """Replace the file durably."""
    starts: list[JsonValue] = list(incarnation.line)
    fields: dict[str, JsonValue] = {"incarnation": incarnation.count, "starts": starts}
    if incarnation.latched:
        fields["latched"] = True
    if incarnation.promised_ms:
        fields["promisedMs"] = incarnation.promised_ms
    files.replace(path, seal(fields))
