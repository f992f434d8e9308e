"""Programs in Go, the control plane's and others: found in the cache, or built into it.

One build at a time (a file lock); each program appears in one step, whole; an
interrupted build goes on where it was, by Go's own build cache.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Generator
from pathlib import Path

from .commands import run_streaming
from .errors import BuildError, CompileError, DiskSpaceError, DownloadError
from .files import remove_tree, write_atomically
from .paths import binaries_dir, cache_root
from .progress import BuildProgress, make_progress
from .toolchain import find_go, install_go
from .versions import CONTROL_PLANE, ProgramSet

_NO_SPACE = "no space left on device"


def missing_programs(wanted: ProgramSet = CONTROL_PLANE) -> list[str]:
    """Programs that are not in the cache."""
    directory = binaries_dir(wanted)
    return [name for name in wanted.programs if not os.access(directory / name, os.X_OK)]


def ensure_binaries(
    progress: BuildProgress | None = None, wanted: ProgramSet = CONTROL_PLANE
) -> Path:
    """Return the directory of the programs, building what is missing.

    Takes milliseconds if all is there; the control plane five to ten minutes on two cores if
    not.

    Raises:
        BuildError: Or one of its kinds, naming the step that failed and the other ways.
    """
    if not missing_programs(wanted):
        return binaries_dir(wanted)
    with progress or make_progress() as shown, _build_lock(shown):
        if missing_programs(wanted):
            try:
                _Build(shown, wanted).run()
            except OSError as error:
                raise DiskSpaceError("write to the cache", f"{error}") from error
    return binaries_dir(wanted)


@contextlib.contextmanager
def _build_lock(progress: BuildProgress) -> Generator[None]:
    directory = cache_root() / "devcluster"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "build.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise BuildError("open the cache", f"{error}. KRAFTQUORUM_CACHE names another.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("another build is under way, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Build:
    def __init__(self, progress: BuildProgress, wanted: ProgramSet) -> None:
        root = cache_root() / "devcluster"
        self._progress = progress
        self._wanted = wanted
        self._toolchain_dir = root / "toolchain"
        self._go_dir = root / wanted.name
        self._partial = root / "bin.partial"
        self._names = missing_programs(wanted)
        self._packages = [wanted.programs[name] for name in self._names]

    def run(self) -> None:
        self._progress.note(
            f"building {self._wanted.title}; Ctrl-C is safe, the next run goes on from there"
        )
        self._check_space()
        go = find_go(self._toolchain_dir, self._wanted.go_version_min) or install_go(
            self._toolchain_dir, self._progress
        )
        module = self._write_module()
        env = self._environment()
        packages = self._download(go, module, env)
        self._compile(go, module, env, packages)
        self._publish()
        remove_tree(self._go_dir)
        self._progress.note(f"built {', '.join(self._names)}")

    def _check_space(self) -> None:
        resuming = (self._go_dir / "build").is_dir()
        needed = self._wanted.free_gib_resume if resuming else self._wanted.free_gib_first
        free = shutil.disk_usage(cache_root()).free / 2**30
        if free < needed:
            raise DiskSpaceError(
                "check free disk space",
                f"{cache_root()} has {free:.1f} GiB free, the build needs "
                f"{needed:.0f} GiB. KRAFTQUORUM_CACHE names another place.",
            )

    def _write_module(self) -> Path:
        module = self._go_dir / "module"
        module.mkdir(parents=True, exist_ok=True)
        for name in ("go.mod", "go.sum", *self._wanted.sources):
            (module / name).parent.mkdir(exist_ok=True)
            write_atomically(module / name, self._wanted.module_file(name), 0o644)
        return module

    def _environment(self) -> dict[str, str]:
        """Go's caches under ours, unless the caller has set them (a CI cache)."""
        own = {
            "GOCACHE": self._go_dir / "build",
            "GOMODCACHE": self._go_dir / "mod",
            "GOPATH": self._go_dir / "path",
            "GOTMPDIR": self._go_dir / "tmp",
        }
        self._go_dir.joinpath("tmp").mkdir(parents=True, exist_ok=True)
        fixed = {
            "GOFLAGS": "-modcacherw -buildvcs=false",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "CGO_ENABLED": "0",
        }
        return {**{key: str(path) for key, path in own.items()}, **os.environ, **fixed}

    def _download(self, go: Path, module: Path, env: dict[str, str]) -> int:
        """Fetch the modules; returns how many packages are to be compiled."""
        self._progress.step(f"downloading Go modules (about {self._wanted.megabytes} MB)")

        def on_line(line: str) -> None:
            if line.startswith("go: downloading"):
                self._progress.advance()

        listing = ["list", "-deps", "-f", "{{.Stale}} {{.ImportPath}}", *self._flags()]
        code, lines = run_streaming(
            [str(go), *listing, *self._packages], cwd=module, env=env, on_line=on_line
        )
        if code != 0:
            raise self._error(DownloadError, "download Go modules", lines)
        return sum(line.startswith("true ") for line in lines)

    def _compile(self, go: Path, module: Path, env: dict[str, str], packages: int) -> None:
        remove_tree(self._partial)
        self._partial.mkdir(parents=True)
        self._progress.step("compiling", packages or None)
        code, lines = run_streaming(
            [
                *[str(go), "build", "-v", *self._flags()],
                *["-o", f"{self._partial}/", *self._packages],
            ],
            cwd=module,
            env=env,
            on_line=lambda _: self._progress.advance(),
        )
        if code != 0:
            remove_tree(self._partial)
            raise self._error(CompileError, "compile", lines)

    def _flags(self) -> list[str]:
        return ["-mod=readonly", "-trimpath", "-ldflags", self._wanted.linker_flags]

    @staticmethod
    def _error(kind: type[BuildError], step: str, lines: list[str]) -> BuildError:
        if any(_NO_SPACE in line for line in lines):
            return DiskSpaceError(step, "the disk is full; KRAFTQUORUM_CACHE names another place")
        said = [line for line in lines if not line.startswith(("go: downloading", "true", "false"))]
        return kind(step, "\n".join(said[-8:]) or "Go gave no reason")

    def _publish(self) -> None:
        directory = binaries_dir(self._wanted)
        directory.mkdir(parents=True, exist_ok=True)
        for name in self._names:
            package = self._wanted.programs[name]
            linked = self._wanted.link_names.get(package, package.rsplit("/", 1)[-1])
            built = self._partial / linked
            built.rename(directory / name)
        remove_tree(self._partial)
