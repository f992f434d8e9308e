"""Errors of the pipeline. Each message names the source, and the offset if there is one.

PipelineError
├── OptionError             an option or a command line that cannot work
├── NoJavaError             Spark needs Java 17 and there is none
└── SourceError             a quorum or a directory
    ├── UnreachableError    no node of the quorum answered in time, or no object store
    ├── DeniedError         the nodes refuse the client's credentials
    ├── IncompleteError     an export stopped before the end that it should reach
    ├── ClusterIdError      the source is of another cluster than the one asked for
    ├── TrimmedError        the log begins after the offset to read
    ├── DivergedError       the checkpoint was made from another log
    ├── CorruptError        the bytes are not what was written
    └── ValueFormatError    a key or a value has not the format in the options
"""

from __future__ import annotations

import enum


class PipelineExitCode(enum.IntEnum):
    """Why a command of `kraftquorum-pipeline` ended."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    UNREACHABLE = 3
    CLUSTER_ID = 4
    TRIMMED = 5
    CORRUPT = 6
    NO_JAVA = 7
    DIVERGED = 8
    INCOMPLETE = 9
    DENIED = 10


class PipelineError(Exception):
    """Base of all errors that the pipeline raises on purpose."""

    exit_code: PipelineExitCode = PipelineExitCode.UNEXPECTED


class OptionError(PipelineError):
    """An option that cannot work; the message names it and what is allowed."""

    exit_code = PipelineExitCode.USAGE


class NoJavaError(PipelineError):
    """Spark needs Java and there is none, or one that is too old."""

    exit_code = PipelineExitCode.NO_JAVA


class SourceError(PipelineError):
    """Something about a quorum or a directory.

    Attributes:
        source: the directory, the file or the endpoints.
        offset: the offset of the record; None: the error is about no record.
    """

    def __init__(self, source: str, reason: str, offset: int | None = None) -> None:
        at = "" if offset is None else f" at offset {offset}"
        super().__init__(f"{source}{at}: {reason}")
        self.source = source
        self.reason = reason
        self.offset = offset

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, str, int | None]]:
        """Pickle by the arguments: the driver reads an executor's error."""
        return type(self), (self.source, self.reason, self.offset)


class UnreachableError(SourceError):
    """No node of the quorum could serve the read in time, or an object store refused it."""

    exit_code = PipelineExitCode.UNREACHABLE


class DeniedError(SourceError):
    """The nodes do not know the client, or it may not read."""

    exit_code = PipelineExitCode.DENIED


class IncompleteError(SourceError):
    """An export ended before it had all records that were committed when it began."""

    exit_code = PipelineExitCode.INCOMPLETE


class ClusterIdError(SourceError):
    """The source is of another cluster than the one asked for, or than the checkpoint."""

    exit_code = PipelineExitCode.CLUSTER_ID


class TrimmedError(SourceError):
    """The log begins after the offset at which the read begins."""

    exit_code = PipelineExitCode.TRIMMED


class DivergedError(SourceError):
    """The log has another record where the checkpoint had one: a restored or other quorum."""

    exit_code = PipelineExitCode.DIVERGED


class CorruptError(SourceError):
    """The bytes are not what was written."""

    exit_code = PipelineExitCode.CORRUPT


class ValueFormatError(SourceError):
    """A key or a value does not have the format in the options."""

    exit_code = PipelineExitCode.CORRUPT
