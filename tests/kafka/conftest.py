"""Apache Kafka's own programs, where Java and their jars are (`make kafka` fetches them)."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraftquorum_devcluster.jars import JarSet
from proofkit.loopback import LoopbackNetwork

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "kafka"


@dataclass(frozen=True)
class Kafka:
    """Runs classes of Kafka's."""

    jars: Path

    def command(self, main: str, *arguments: str) -> list[str]:
        quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return ["java", *quick, quiet, "-cp", f"{self.jars}/*", main, *arguments]

    def run(self, main: str, *arguments: str) -> str:
        """Run to the end; returns all that it prints: mismatches go to stderr."""
        done = subprocess.run(
            self.command(main, *arguments), capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        printed = done.stdout + done.stderr
        assert "Exception" not in printed, printed
        return printed

    def dump(self, *arguments: str, files: list[Path]) -> str:
        """Kafka's tool for looking into files."""
        listed = ",".join(str(file) for file in files)
        return self.run("kafka.tools.DumpLogSegments", "--files", listed, *arguments)


@pytest.fixture(scope="session")
def host(session_network: LoopbackNetwork) -> str:
    """A loopback address for a controller, which no other run of tests has."""
    return session_network.host(1)


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    jars = JarSet(FOLDER).directory
    missing = None
    if shutil.which("java") is None:
        missing = "Java is not installed"
    elif not jars.is_dir():
        missing = f"{jars} is not there: `make kafka` fetches it"
    if missing is not None:
        if os.environ.get("KRAFTQUORUM_KAFKA") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    return Kafka(jars)
