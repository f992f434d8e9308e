"""Prometheus and its promtool: found, or installed by apt where we may."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kraftquorum_devcluster.errors import StartError
from kraftquorum_devcluster.realnode.packages import install, search_path

PACKAGE = "prometheus"
"""Debian's, which brings both; as old as 2.42 on Debian 12."""


def find(program: str) -> Path | None:
    """Where a program is; None: nowhere."""
    found = shutil.which(program, path=search_path())
    return Path(found) if found else None


def why_not() -> str | None:
    """Install Prometheus if it is missing and we may; None, or why there is none."""
    if find("prometheus") and find("promtool"):
        return None
    if os.geteuid() != 0:
        return f"Prometheus is missing and only root can install it: apt-get install {PACKAGE}"
    try:
        install([PACKAGE])
    except StartError as error:
        return f"Prometheus is missing and could not be installed: {error}"
    return None if find("promtool") else "the package has no promtool"


def ensure(program: str) -> Path:
    """Where a program is, installed if need be.

    Raises:
        StartError: It is missing, and why it could not be installed.
    """
    why = why_not()
    found = find(program)
    if why is not None or found is None:
        raise StartError("prometheus", why or f"the package has no {program}")
    return found
