"""The pipeline on what the demo leaves: export, history, audit, count, and its report page.

It is a program of its own, started as a person would: nothing here imports Spark. Where there
is no Java it is left out, and that is said.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from kraftquorum_devcluster.processes import OWNER_VARIABLE, kill_owned

from . import kept_files

LIMIT_S = 900.0
_JAVA_LEAST = 17
_VERSION = re.compile(r'version "(\d+)')
_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class Material:
    """What the pipeline works on.

    Attributes:
        data: Directory of the replicas' directories.
        writes: The clients' account.
        events: What was done to the quorum.
        committed_end: The high watermark that was read from the living quorum.
        name: Of the quorum.
    """

    data: Path
    writes: Path
    events: Path
    committed_end: int
    name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it.

    Attributes:
        figures: For the report; None: it was left out.
        ok: Whether nothing is missing, nothing is there twice and the replicas agree.
        said: Why it was left out or failed, for people; "" if it went well.
    """

    figures: dict[str, Any] | None
    ok: bool
    said: str = ""


def reason_to_leave_out(environment: Mapping[str, str] = os.environ) -> str:
    """Why the pipeline cannot run here; "" if it can."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        return f"Spark needs Java {_JAVA_LEAST} or later, and there is none"
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = _VERSION.search(done.stderr + done.stdout)
    if match is None or int(match[1]) < _JAVA_LEAST:
        version = "cannot be run" if match is None else f"is {match[1]}"
        return f"Spark needs Java {_JAVA_LEAST} or later, and {java} {version}"
    if find_spec("pyspark") is None:
        return "PySpark is not installed; `make demo` installs it"
    return ""


def run_pipeline(
    material: Material, out: Path, log: Path, owner: str, tell: Callable[[str], None]
) -> Outcome:
    """Run `kraftquorum-pipeline study`, passing on what it says.

    Args:
        material: What it works on.
        out: Where the demo leaves everything; the page becomes `report.html` there.
        log: Where Spark's own output goes.
        owner: Mark by which the processes are found and ended, however this ends.
        tell: For people.
    """
    target = out / "pipeline"
    command = [
        *(sys.executable, "-m", "kraftquorum_pipeline.cli", "study", str(material.data)),
        *("--output", str(target), "--name", material.name),
        *("--committed-end", str(material.committed_end)),
        *("--writes", str(material.writes), "--events", str(material.events)),
    ]
    began_s = time.monotonic()
    expired = threading.Event()

    def end() -> None:
        expired.set()
        kill_owned(owner)

    timer = threading.Timer(LIMIT_S, end)
    timer.start()
    try:
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, OWNER_VARIABLE: owner},
                text=True,
                errors="replace",
            ) as process,
        ):
            for line in process.stdout or ():
                tell(f"    {line.rstrip()}")
        problem = "" if process.returncode in {0, 8} else f"it ended with {process.returncode}"
    finally:
        timer.cancel()
        kill_owned(owner)
    if expired.is_set():
        problem = f"it did not end within {LIMIT_S:.0f} s"
    seconds = time.monotonic() - began_s
    if problem:
        said = f"{problem}\n{kept_files.tail(log, _TAIL_LINES)}"
        return Outcome({"error": problem, "seconds": round(seconds, 3)}, ok=False, said=said)
    shutil.copy(target / "report.html", out / "report.html")
    summary = json.loads((target / "summary.json").read_text(encoding="utf-8"))
    return Outcome(_figures(cast("dict[str, Any]", summary), seconds), ok=bool(summary["ok"]))


def _figures(summary: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The summary with its time as a whole, and by part."""
    parts = summary.pop("seconds")
    return {**summary, "seconds": round(seconds, 3), "parts_s": parts}
