"""Collects the files that a Python program needs at run time into an empty root directory.

Runs while the image is built, on a Debian base with Python installed, by that Python and
with nothing else than the standard library:

    python3 collect_runtime.py collect /rootfs
    python3 collect_runtime.py check /rootfs /opt/program
    python3 collect_runtime.py programs /rootfs /more chmod ls

The result has the interpreter, the standard library, the shared libraries that they load,
the certificates of the web, a user, and no shell, no package manager and no other program.
Each Debian package that a file was taken from leaves its copyright file and its record in
`/var/lib/dpkg/status.d`, where image scanners look for it. `check` ends with an error if a
compiled module of the program needs a library that is not there. `programs` collects some of
Debian's programs into a directory of their own, with what they need beyond the first root.
"""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

UID = 10_001
"""User and group of the programs; the operator's StatefulSet names the same."""

STATE_DIRS = ("var/lib/raftnode",)
"""Where volumes are mounted: owned by the user, for engines that copy this into a new volume."""

DROPPED_MODULES = frozenset(
    {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo", "venv"}
)
"""Packages of the standard library that no program here imports."""

DROPPED_EXTENSIONS = ("_curses", "_dbm", "_gdbm", "_sqlite3", "_test", "_tkinter", "readline")
"""Compiled modules likewise, which would bring large libraries along."""

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_LINKS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")


def collect(root: Path) -> None:
    """Fill `root`, which must be empty or missing."""
    major, minor, *_ = platform.python_version_tuple()
    python = f"python{major}.{minor}"
    root.mkdir(parents=True, exist_ok=True)
    _make_links(root)
    packages = {"python3-minimal", f"{python}-minimal", f"lib{python}-minimal"}
    packages |= {
        "base-files",
        "ca-certificates",
        f"lib{python}-stdlib",
        "libc6",
        "libgcc-s1",
        "libstdc++6",
    }
    files = {path for name in packages - {"ca-certificates"} for path in _files_of(name)}
    kept = sorted(path for path in files if _is_wanted(path, python))
    for path in kept:
        _copy(path, root)
    libraries = _libraries(path for path in kept if not path.is_symlink())
    for path in libraries:
        _copy(path, root)
    packages |= {owner for path in libraries if (owner := _owner(path))}
    _copy(CERTIFICATES, root)
    for name in sorted(packages):
        _record(name, root)
    _write_accounts(root)
    _compile(root / "usr/lib" / python, root)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _files_of(package: str) -> list[Path]:
    paths = [Path(line) for line in _output("dpkg-query", "--listfiles", package).splitlines()]
    return [path for path in paths if path.is_symlink() or path.is_file()]


def _is_wanted(path: Path, python: str) -> bool:
    text = str(path)
    library = f"/usr/lib/{python}/"
    if text in {"/usr/lib/os-release", "/etc/os-release", "/etc/debian_version"}:
        return True
    if text.startswith(library):
        first = text.removeprefix(library).split("/")[0]
        is_extension = f"{library}lib-dynload/" in text
        return first not in DROPPED_MODULES and not (
            is_extension and path.name.startswith(DROPPED_EXTENSIONS)
        )
    if text.startswith("/usr/bin/"):
        return path.name in {"python3", python}
    # The site's customisation is a configuration file that the library links to.
    return text.startswith(f"/etc/{python}/") or _is_library(path)


def _is_library(path: Path) -> bool:
    """A shared library that programs link to; not a plug-in that converts character sets."""
    in_library_path = path.parent.resolve().parent == Path("/usr/lib")
    return ".so" in path.name and (in_library_path or path.parent == Path("/lib64"))


def check(root: Path, program: Path) -> None:
    """End with an error unless `root` has all libraries that the program's modules load."""
    missing = {
        f"{path}: {library}"
        for path in program.rglob("*.so")
        for library in _libraries([path])
        if program not in library.parents
        if not (root / library.resolve().relative_to("/")).exists()
    }
    if missing:
        sys.exit("\n".join(["not collected:", *sorted(missing)]))


def programs(root: Path, more: Path, *names: Path) -> None:
    """Fill `more` with programs of /usr/bin and what they load that `root` does not have."""
    more.mkdir(parents=True, exist_ok=True)
    _make_links(more)
    wanted = [Path("/usr/bin") / name for name in names]
    libraries = _libraries(wanted)
    for path in [*wanted, *libraries]:
        if not (root / path.resolve().relative_to("/")).exists():
            _copy(path, more)
            if (owner := _owner(path)) and not (root / "var/lib/dpkg/status.d" / owner).exists():
                _record(owner, more)


def _libraries(files: Iterable[Path]) -> list[Path]:
    """All shared libraries that the programs and libraries among the files load."""
    libraries: set[Path] = set()
    for path in files:
        if path.suffix == ".py" or not _is_elf(path):
            continue
        for line in _output("ldd", str(path)).splitlines():
            if "not found" in line:
                sys.exit(f"{path}: {line.strip()}")
            words = [word for word in line.split() if word.startswith("/")]
            libraries |= {Path(word) for word in words}
    return sorted(libraries)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _make_links(root: Path) -> None:
    """Make the top directories that are links, as the base has them: /lib to /usr/lib."""
    for name in _LINKS:
        link = Path("/") / name
        if link.is_symlink():
            (root / name).symlink_to(link.readlink())
            (root / link.readlink()).mkdir(parents=True, exist_ok=True)


def _copy(path: Path, root: Path) -> None:
    """Copy a file or a link, the link's target too."""
    path = path.parent.resolve() / path.name
    target = root / path.relative_to("/")
    if target.is_symlink() or target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target, follow_symlinks=False)
    if path.is_symlink() and (aim := path.parent / path.readlink()).exists():
        _copy(aim, root)


def _owner(path: Path) -> str | None:
    """The package that a library belongs to, under any of the paths that lead to it."""
    real = path.resolve()
    for candidate in (real, Path("/usr") / path.relative_to("/"), path):
        done = subprocess.run(
            ["dpkg-query", "--search", str(candidate)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return None


def _record(package: str, root: Path) -> None:
    """Keep a package's licence and its record."""
    notice = Path("/usr/share/doc") / package / "copyright"
    if notice.exists():
        _copy(notice, root)
    status = root / "var/lib/dpkg/status.d" / package
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(_output("dpkg-query", "--status", package), encoding="utf-8")


def _write_accounts(root: Path) -> None:
    """The user, how names are looked up, and the directories that must exist."""
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    lines = {
        "passwd": (
            "root:x:0:0:root:/:/nonexistent\n"
            f"kraftquorum:x:{UID}:{UID}:kraftquorum:/nonexistent:/nonexistent\n"
        ),
        "group": f"root:x:0:\nkraftquorum:x:{UID}:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
    for name, text in lines.items():
        (etc / name).write_text(text, encoding="utf-8")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    for name in STATE_DIRS:
        directory = root / name
        directory.mkdir(parents=True)
        shutil.chown(directory, UID, UID)


def _compile(library: Path, root: Path) -> None:
    """Compile the standard library ahead: the root file system is read-only at run time."""
    for directory in list(library.rglob("__pycache__")):
        shutil.rmtree(directory)
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0"]
    command += ["--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/", str(library)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {"collect": collect, "check": check, "programs": programs}[command](*map(Path, paths))
