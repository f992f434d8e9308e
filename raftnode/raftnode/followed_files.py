"""Files that others replace: read again when they have changed, refused while they cannot be used.

Kubernetes replaces the files of a mounted Secret at once, by the link `..data`. Other tools replace
files one after the other, or write into them. What is read meanwhile may be a part of a file, and
a part may be valid, as in YAML. So changed files wait until two looks see no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

from raftnode.small_files import stamp_of_file

LOOK_S = 1.0
"""Interval between two looks at the files."""

RETRY_LOOKS = 60
"""Refused files that do not change are read again after so many looks."""

ValueT = TypeVar("ValueT")
Stamps = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Taken(Generic[ValueT]):
    """Files that were read again and are good.

    Attributes:
        value: that they make.
        after_refusal: whether they were refused before.
    """

    value: ValueT
    after_refusal: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Files that were read again and cannot be used.

    Attributes:
        problem: why.
        known: whether neither the files nor the problem are others than at the last refusal.
    """

    problem: str
    known: bool


class FollowedFiles(Generic[ValueT]):
    """Some files that make one value.

    Args:
        paths: of the files; links are followed.
        read: reads the files and makes the value; raises `refusal`.
        refusal: the error that says that the files cannot be used.
        settled: whether changed files are read only once two looks saw no difference.
        retry_looks: after how many looks refused files are read again if they do not change.

    Attributes:
        first: the value at the start.

    Raises:
        refusal: the files cannot be used at the start.
    """

    def __init__(
        self,
        paths: tuple[Path, ...],
        read: Callable[[], ValueT],
        refusal: type[Exception],
        *,
        settled: bool = True,
        retry_looks: int = RETRY_LOOKS,
    ) -> None:
        self._paths = paths
        self._read = read
        self._refusal = refusal
        self._settled = settled
        self._retry_looks = retry_looks
        # Before it is read: a change meanwhile is one for the next look.
        self._stamps = self._seen = self._now()
        self._problem: str | None = None
        self._looks_since_refusal = 0
        self.first = read()

    def look(self) -> Taken[ValueT] | Refused | None:
        """Read the files if they have changed; None: there is nothing new. Blocks for the disk."""
        stamps, last_stamps = self._now(), self._seen
        self._seen = stamps
        if self._settled and stamps != last_stamps:
            return None
        changed = stamps != self._stamps
        if not changed and not self._is_time_to_retry():
            return None
        problem: str | None = None
        value: ValueT | None = None
        try:
            value = self._read()
        except self._refusal as error:
            problem = str(error)
        if self._now() != stamps:
            return None  # They changed while they were read, which the next look sees.
        changed = changed or problem != self._problem
        refused_before, self._problem = self._problem is not None, problem
        self._stamps, self._looks_since_refusal = stamps, 0
        if problem is not None:
            return Refused(problem, known=not changed)
        return Taken(cast("ValueT", value), refused_before)

    def _is_time_to_retry(self) -> bool:
        if self._problem is None:
            return False
        self._looks_since_refusal += 1
        return self._looks_since_refusal >= self._retry_looks

    def _now(self) -> Stamps:
        return tuple(map(stamp_of_file, self._paths))
