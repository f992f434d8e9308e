"""Errors of the pipeline. Each message names the source, and the offset where there is one.

PipelineError
├── OptionError             an option or a command line that cannot work
├── NoJavaError             Spark needs Java 17 and there is none
└── SourceError             a quorum or a directory
    ├── UnreachableError    no node of the quorum answered in time, or no object store
    ├── IncompleteError     an export ended before the end that it was to reach
    ├── ClusterIdError      it is another cluster than the one asked for
    ├── TrimmedError        the log begins after the offset that is to be read
    ├── DivergedError       the log is not the one that the checkpoint was made of
    ├── CorruptError        bytes that are not what they should be
    └── ValueFormatError    a key or a value that is not what the options say
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
        offset: of the record that it is about; None: of none.
    """

    def __init__(self, source: str, reason: str, offset: int | None = None) -> None:
        at = "" if offset is None else f" at offset {offset}"
        super().__init__(f"{source}{at}: {reason}")
        self.source = source
        self.reason = reason
        self.offset = offset

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, str, int | None]]:
        """Pickle by the arguments: an executor's error is read by the driver."""
        return type(self), (self.source, self.reason, self.offset)


class UnreachableError(SourceError):
    """No node of the quorum could serve the read in time, or an object store refused it."""

    exit_code = PipelineExitCode.UNREACHABLE


class IncompleteError(SourceError):
    """An export ended before it had all that was committed when it began."""

    exit_code = PipelineExitCode.INCOMPLETE


class ClusterIdError(SourceError):
    """It is another cluster than the one asked for, or than the checkpoint's."""

    exit_code = PipelineExitCode.CLUSTER_ID


class TrimmedError(SourceError):
    """The log begins after the offset from which it is to be read."""

    exit_code = PipelineExitCode.TRIMMED


class DivergedError(SourceError):
    """The log has another record where the checkpoint had one: a restored or other quorum."""

    exit_code = PipelineExitCode.DIVERGED


class CorruptError(SourceError):
    """Bytes that are not what they should be."""

    exit_code = PipelineExitCode.CORRUPT


class ValueFormatError(SourceError):
    """A key or a value that is not what the options say."""

    exit_code = PipelineExitCode.CORRUPT
