"""A Docker engine for a build: the one that runs, or a private one until the build is done.

The private engine changes nothing outside its directories: no bridge, no
firewall rules, no listener but a socket of its own. It dies with this process,
and `engine` takes away what it mounted. Its layers stay in the cache.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kraftquorum_devcluster.commands import run_streaming
from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.progress import BuildProgress

from .install import install_engine
from .private import private_engine

_PLACES = ("/usr/bin/docker", "/usr/local/bin/docker")
_ASK_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to a Docker engine that answers.

    Attributes:
        program: The `docker` that speaks to it and can build with BuildKit.
        env: The environment for it.
        private: Whether it is ours alone and without a network of its own.
    """

    program: Path
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    private: bool = False

    def ask(self, *arguments: str, timeout_s: float = _ASK_TIMEOUT_S) -> str:
        """Run a command and return what it prints.

        Raises:
            ImageError: It failed, or took longer.
        """
        code, out, errors = self._run(arguments, timeout_s)
        if code != 0:
            raise ImageError(f"docker {arguments[0]}", errors)
        return out

    def has(self, image: str) -> bool:
        """Whether the engine has an image."""
        return self._run(["image", "inspect", image], _ASK_TIMEOUT_S)[0] == 0

    def pull(self, image: str, timeout_s: float) -> str | None:
        """Pull an image; returns what went wrong, None if nothing."""
        code, _, errors = self._run(["pull", "--quiet", image], timeout_s)
        return None if code == 0 else errors.splitlines()[-1] if errors else "no reason given"

    def import_root(self, archive: Path | bytes, name: str, *changes: str) -> None:
        """Make an image of one layer from a tar archive.

        Raises:
            ImageError: The engine refused it.
        """
        options = [word for change in changes for word in ("--change", change)]
        command = [str(self.program), "import", *options, "-", name]
        if isinstance(archive, bytes):
            done = subprocess.run(
                command, input=archive, capture_output=True, env=self.env, check=False
            )
        else:
            with archive.open("rb") as file:
                done = subprocess.run(
                    command, stdin=file, capture_output=True, env=self.env, check=False
                )
        if done.returncode != 0:
            raise ImageError(f"import {name}", done.stderr.decode(errors="replace").strip())

    def build(self, arguments: Sequence[str], progress: BuildProgress) -> None:
        """Run `docker build` with BuildKit.

        Raises:
            ImageError: It failed; what it said last is in the message.
        """

        def on_line(line: str) -> None:
            if line.endswith(" DONE") or " DONE " in line:
                progress.advance()

        network = ["--network=host"] if self.private else []
        code, lines = run_streaming(
            [str(self.program), "build", "--progress=plain", *network, *arguments],
            cwd=Path("/"),
            env={**self.env, "DOCKER_BUILDKIT": "1"},
            on_line=on_line,
        )
        if code != 0:
            said = [line for line in lines if line.strip()]
            raise ImageError("docker build", "\n".join(said[-12:]))

    def _run(self, arguments: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
        try:
            done = subprocess.run(
                [str(self.program), *arguments],
                capture_output=True,
                text=True,
                env=self.env,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, "", f"no answer within {timeout_s:g} s"
        return done.returncode, done.stdout.strip(), done.stderr.strip()


@contextlib.contextmanager
def engine(cache: Path, progress: BuildProgress, *, install: bool) -> Generator[Engine]:
    """An engine for as long as the block runs.

    Args:
        cache: The cache's root; a private engine keeps its layers there.
        progress: Is called with what is done.
        install: Whether missing Debian packages may be installed.

    Raises:
        ImageError: There is none, and none can be started; what to do is in the message.
    """
    if (running := running_engine()) is not None:
        yield running
        return
    if os.geteuid() != 0:
        raise ImageError(
            "find a Docker engine",
            "none answers, and starting one needs root: start Docker (see `docker info`), set "
            "DOCKER_HOST to one that runs, or run this as root",
        )
    if missing_packages_hint() is not None:
        install_engine(progress, allowed=install)
        if (running := running_engine()) is not None:  # the package starts its service
            yield running
            return
    program = build_capable_program()
    if program is None:
        raise ImageError("find a Docker engine", _NO_BUILDKIT)
    with private_engine(cache, progress) as address:
        yield Engine(program, {**os.environ, "DOCKER_HOST": address}, private=True)


_NO_BUILDKIT = (
    "`docker` is there, but it cannot build with BuildKit; on Debian: apt-get install docker-buildx"
)


def missing_packages_hint() -> str | None:
    """What a private engine lacks on this machine, None if nothing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in ("dockerd", "debootstrap") if not shutil.which(name, path=path)]
    if build_capable_program() is None:
        missing.append("docker")
    return ", ".join(missing) or None


def running_engine() -> Engine | None:
    """The engine that answers in this environment.

    Raises:
        ImageError: One answers, but no `docker` here can build with BuildKit.
    """
    for program in docker_programs():
        candidate = Engine(program)
        try:
            candidate.ask("version", "--format", "{{.Server.Version}}")
        except ImageError:
            continue
        capable = build_capable_program()
        if capable is None:
            raise ImageError("find a Docker engine", _NO_BUILDKIT)
        return Engine(capable)
    return None


def docker_programs() -> list[Path]:
    """Every `docker` of this machine, the one on PATH first."""
    on_path = shutil.which("docker")
    names = [*([on_path] if on_path else []), *_PLACES]
    return [Path(name) for name in dict.fromkeys(names) if os.access(name, os.X_OK)]


def build_capable_program() -> Path | None:
    """The first `docker` that builds with BuildKit: by its plug-in, or old enough to need none."""
    for program in docker_programs():
        candidate = Engine(program)
        with contextlib.suppress(ImageError):
            candidate.ask("buildx", "version")
            return program
        with contextlib.suppress(ImageError, ValueError):
            # Up to 22 it is built in, from 23 on a plug-in. `--version` asks no engine.
            version = candidate.ask("--version").removeprefix("Docker version ")
            if int(version.split(".")[0]) in range(19, 23):
                return program
    return None
