"""Paths inside a container, and the host directories that stand for them.

There is no mount namespace, so a path that a pod's text names is replaced by
the host's wherever it begins a word.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount path of the container and the host path behind it."""

    mount_path: str
    host_path: Path


class PathRewriter:
    """Replaces mount paths by host paths in arguments and values."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._targets = {m.mount_path.rstrip("/"): str(m.host_path) for m in mounts}
        longest_first = sorted(self._targets, key=len, reverse=True)
        self._pattern = (
            re.compile(
                # Not in the middle of a path, a word or a URL's path; up to a full component.
                rf"(?<![\w./~-])(?:{'|'.join(map(re.escape, longest_first))})"
                r"""(?=$|[/\s:;,'"`)&|<>])"""
            )
            if longest_first
            else None
        )

    def rewrite(self, text: str) -> str:
        """The text with every mount path replaced."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._targets[match.group()], text)
