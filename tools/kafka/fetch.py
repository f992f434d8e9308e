"""Fetch Apache Kafka's jars for `make kafka`, once, and check each against jars.sha256.

Maven fetches them by the coordinates in pom.xml, from where its settings say. They end up
in ~/.cache/kraftquorum (or $KRAFTQUORUM_CACHE), whole and checked or not at all. Prints the
directory. With --pin, writes jars.sha256 again after the pom was changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "jars.sha256"
VERSION = "4.1.1"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def jars_directory() -> Path:
    """Where the jars are, or are to be."""
    explicit = os.environ.get("KRAFTQUORUM_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(explicit) if explicit else base / "kraftquorum"
    pinned = hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
    return cache.absolute() / f"kafka-{VERSION}-{pinned}"


def pins() -> dict[str, str]:
    """Hash by file name."""
    lines = (line.split() for line in PINS.read_text(encoding="ascii").splitlines())
    return {name: digest for digest, name in lines}


def hashes(directory: Path) -> dict[str, str]:
    """Hash by file name of what is there."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.glob("*.jar"))
    }


def fetch(into: Path) -> None:
    """Let Maven copy the jars into a directory."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing: on Debian, apt-get install default-jdk maven")
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), PLUGIN]
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    done = subprocess.run([*command, *options], check=False)
    if done.returncode:
        sys.exit("Maven could not fetch the jars; its output above says why")


def main() -> None:
    """Fetch what is not there yet."""
    pinning = sys.argv[1:] == ["--pin"]
    target = jars_directory()
    if not pinning and target.is_dir() and hashes(target) == pins():
        print(target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetching Apache Kafka {VERSION} (43 MB, once)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        jars = Path(scratch) / "jars"
        fetch(jars)
        fetched = hashes(jars)
        if pinning:
            PINS.write_text("".join(f"{digest}  {name}\n" for name, digest in fetched.items()))
            target = jars_directory()
        wanted = pins()
        wrong = sorted(
            name for name in {*fetched, *wanted} if fetched.get(name) != wanted.get(name)
        )
        if wrong:
            sys.exit(f"not the jars that jars.sha256 names: {', '.join(wrong)}; nothing was kept")
        shutil.rmtree(target, ignore_errors=True)
        jars.rename(target)
    print(target)


if __name__ == "__main__":
    main()
