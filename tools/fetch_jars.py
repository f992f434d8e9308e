"""Fetch the jars of a folder's pom.xml into the cache, once: `tools/fetch_jars.py tools/kafka`.

Prints the directory. With --pin, writes the folder's jars.sha256 again after the pom was changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kraftquorum_devcluster.jars import JarsError, JarSet


def main() -> None:
    """Fetch what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="has pom.xml and jars.sha256")
    parser.add_argument("--pin", action="store_true", help="write jars.sha256 again")
    given = parser.parse_args()
    jars = JarSet(given.folder.resolve())
    try:
        print(jars.pin() if given.pin else jars.ensure())
    except JarsError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
