"""Jars that Maven fetches by a pom.xml, and that are checked against the hashes beside it.

They end up in the cache, whole and checked or not at all. Nothing of them is built or shipped.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import DevClusterError
from .paths import cache_root

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_S = 900


class JarsError(DevClusterError):
    """The jars could not be fetched, or are not those that are pinned."""


@dataclass(frozen=True)
class JarSet:
    """The runtime jars of a pom.

    Attributes:
        folder: Holds ``pom.xml`` and ``jars.sha256``, and names the set.
    """

    folder: Path

    @property
    def name(self) -> str:
        """Of the set, such as ``kafka``."""
        return self.folder.name

    @property
    def version(self) -> str:
        """Of the pom's first dependency."""
        text = self._pom.read_text(encoding="utf-8")
        match = re.search(r"<dependency>.*?<version>([^<]+)</version>", text, re.DOTALL)
        if match is None:
            raise JarsError(f"{self._pom} has no dependency with a version")
        return match[1]

    @property
    def directory(self) -> Path:
        """Where the jars are, or are to be."""
        pinned = hashlib.sha256(self._pins_file.read_bytes()).hexdigest()[:12]
        return cache_root() / f"{self.name}-{self.version}-{pinned}"

    @property
    def _pom(self) -> Path:
        return self.folder / "pom.xml"

    @property
    def _pins_file(self) -> Path:
        return self.folder / "jars.sha256"

    def ensure(self) -> Path:
        """Return the directory of the jars, and fetch them if they are missing.

        Raises:
            JarsError: Java or Maven is missing, Maven failed, or a jar is not the pinned one.
        """
        target = self.directory
        if target.is_dir() and _hashes(target) == self._pins():
            return target
        with tempfile.TemporaryDirectory(dir=self._cache()) as scratch:
            jars = self._fetch(Path(scratch) / "jars")
            self._keep(jars, target)
        return target

    def pin(self) -> Path:
        """Fetch the jars and write their hashes, after the pom was changed.

        Raises:
            JarsError: Java or Maven is missing, or Maven failed.
        """
        with tempfile.TemporaryDirectory(dir=self._cache()) as scratch:
            jars = self._fetch(Path(scratch) / "jars")
            lines = (f"{digest}  {name}\n" for name, digest in _hashes(jars).items())
            self._pins_file.write_text("".join(lines), encoding="ascii")
            self._keep(jars, self.directory)
        return self.directory

    @staticmethod
    def _cache() -> Path:
        cache_root().mkdir(parents=True, exist_ok=True)
        return cache_root()

    def _keep(self, jars: Path, target: Path) -> None:
        fetched, pinned = _hashes(jars), self._pins()
        names = {*fetched, *pinned}
        wrong = sorted(name for name in names if fetched.get(name) != pinned.get(name))
        if wrong:
            raise JarsError(
                f"not the jars that {self._pins_file} names: {', '.join(wrong)}; nothing was kept"
            )
        shutil.rmtree(target, ignore_errors=True)
        jars.rename(target)

    def _pins(self) -> dict[str, str]:
        lines = (line.split() for line in self._pins_file.read_text(encoding="ascii").splitlines())
        return {name: digest for digest, name in lines}

    def _fetch(self, into: Path) -> Path:
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                raise JarsError(
                    f"{program} is missing: on Debian, apt-get install default-jdk maven"
                )
        print(f"fetching the jars of {self.name} {self.version}, once", file=sys.stderr)  # noqa: T201
        command = ["mvn", "-q", "-B", "-f", str(self._pom), PLUGIN, "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={into}"],
                capture_output=True,
                text=True,
                timeout=FETCH_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise JarsError(f"Maven did not fetch the jars within {FETCH_S} s") from error
        if done.returncode:
            raise JarsError(f"Maven could not fetch the jars: {done.stdout[-1500:]}")
        return into


def _hashes(directory: Path) -> dict[str, str]:
    """Hash by file name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.glob("*.jar"))
    }
