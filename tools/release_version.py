"""Print the version of a release, or say which file disagrees with the tag.

Usage: release_version.py TAG, such as v0.1.0.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def versions(root: Path) -> dict[str, str]:
    """The versions that a checkout's files name, by place."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    chart = (root / "charts" / "kraftquorum" / "Chart.yaml").read_text(encoding="utf-8")
    fields = dict(re.findall(r'^(version|appVersion): "?([^"\s]+)"?$', chart, re.MULTILINE))
    return {
        "pyproject.toml, version": project["project"]["version"],
        "charts/kraftquorum/Chart.yaml, version": fields["version"],
        "charts/kraftquorum/Chart.yaml, appVersion": fields["appVersion"],
    }


def main(root: Path, tag: str) -> int:
    """Print the version; 1 where a file has another one."""
    version = tag.removeprefix("v")
    others = {
        place: file_version
        for place, file_version in versions(root).items()
        if file_version != version
    }
    for place, file_version in others.items():
        print(
            f"{place} is {file_version}, but the tag is {tag}: change one of them", file=sys.stderr
        )
    if not others:
        print(version)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(ROOT, sys.argv[1]))
