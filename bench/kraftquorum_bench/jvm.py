"""Java programs of peers, from jars that Maven fetches once."""

from __future__ import annotations

import shutil
from pathlib import Path

from kraftquorum_bench.contenders import PeerMissingError
from kraftquorum_devcluster.jars import JarsError, JarSet

TOOLS = Path(__file__).resolve().parents[2] / "tools"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def jars_of(name: str) -> tuple[JarSet, Path]:
    """The jars of `tools/NAME/pom.xml`, fetched if they are missing.

    Raises:
        PeerMissingError: there is no Java, or the jars could not be fetched.
    """
    if shutil.which("java") is None:
        raise PeerMissingError(f"{name} needs Java: on Debian, apt-get install default-jdk maven")
    jars = JarSet(TOOLS / name)
    try:
        return jars, jars.ensure()
    except JarsError as error:
        raise PeerMissingError(f"{name}: {error}") from error


def java(jars: Path, main: str, *arguments: str, heap: str = "1g") -> list[str]:
    """The command line of a class."""
    return ["java", f"-Xmx{heap}", QUIET, "-cp", f"{jars}/*", main, *arguments]
