"""Errors of the node, and the exit codes that give the reason of an exit.

RaftnodeError
├── ConfigurationError        settings that cannot work
├── StorageError              the disk; the process must end
│   ├── StorageFailedError    a write or an fsync failed (never retried)
│   ├── StorageLostError      the directory is not the one that was opened (S4)
│   ├── StorageCorruptError   damage before the recovery point
│   ├── StorageIdentityError  the UUID is missing or different somewhere (S2)
│   ├── StorageStaleError     restored from an old copy (S3)
│   └── StorageLockedError    another process uses the directory
├── ProtocolHaltError         going on would break a promise (e.g. truncate committed records)
├── DecodeError               bytes that are not what they claim to be
└── RequestError              an API request that cannot be done; carries the API's error name
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from raftnode.core.types import Endpoint, ReplicaKey


class ExitCode(enum.IntEnum):
    """Why `raftnode run` exited; also in the termination message, as JSON with the reason."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    STORAGE_FAILED = 10
    STORAGE_LOST = 11
    STORAGE_CORRUPT = 12
    STORAGE_IDENTITY = 13
    STORAGE_LOCKED = 14
    PROTOCOL_HALT = 15
    STORAGE_FULL = 16
    STORAGE_STALE = 17
    STORAGE_STALLED = 18
    LOOP_STALLED = 19


class RaftnodeError(Exception):
    """Base of all errors that the node raises on purpose."""

    exit_code: ExitCode = ExitCode.UNEXPECTED


class ConfigurationError(RaftnodeError):
    """Settings that cannot work; the message names the setting and what is allowed."""

    exit_code = ExitCode.USAGE


class StorageError(RaftnodeError):
    """A fault of the disk. The process exits with this code and answers nothing more."""


class StorageFailedError(StorageError):
    """A write or an fsync failed. It is never retried: the kernel may have dropped the pages."""

    exit_code = ExitCode.STORAGE_FAILED


class StorageLostError(StorageError):
    """The directory of the open files is gone, or another one is in its place (S4)."""

    exit_code = ExitCode.STORAGE_LOST


class StorageCorruptError(StorageError):
    """Corruption that a crash cannot explain: this replica must be replaced."""

    exit_code = ExitCode.STORAGE_CORRUPT


class StorageIdentityError(StorageError):
    """The directory id is not the same in its three places (S2): this replica must be replaced."""

    exit_code = ExitCode.STORAGE_IDENTITY


class StorageStaleError(StorageError):
    """The storage was restored from an old copy (S3): this replica must be replaced.

    A peer has seen votes, starts or acknowledgements that the storage no longer has.
    """

    exit_code = ExitCode.STORAGE_STALE


class StorageLockedError(StorageError):
    """Another process holds the directory."""

    exit_code = ExitCode.STORAGE_LOCKED


class ProtocolHaltError(RaftnodeError):
    """To continue would break a promise to a client; the message names it."""

    exit_code = ExitCode.PROTOCOL_HALT


class DecodeError(RaftnodeError):
    """Bytes from a peer, a client or a file that are not what they claim to be."""


class RequestError(RaftnodeError):
    """A request that was refused or whose outcome is unknown.

    Attributes:
        error: stable name, as in the API reference.
        status: HTTP status of the answer.
        leader: the leader to ask instead, if known.
        outcome: `not_done`, or `unknown` when it may have happened or still may.
    """

    def __init__(
        self,
        error: str,
        message: str,
        *,
        status: int = 409,
        leader: ReplicaKey | None = None,
        leader_api: Endpoint | None = None,
        outcome: Literal["not_done", "unknown"] = "not_done",
    ) -> None:
        super().__init__(message)
        self.error = error
        self.status = status
        self.leader = leader
        self.leader_api = leader_api
        self.outcome: Literal["not_done", "unknown"] = outcome
