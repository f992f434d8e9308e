"""Find the Debian packages that their release has in a newer version, by apt's signed lists.

An image has the packages that were the newest when it, or its base, was built: each fix since then
is a newer version in the release's archives. apt reads them into a directory of its own, so the
release need not be the machine's.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
SECURITY_MIRROR = "http://deb.debian.org/debian-security"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
UPDATE_TIMEOUT_S = 300

Package = tuple[str, str]
"""Name and version."""


class NoListsError(Exception):
    """Debian's lists of packages cannot be read on this machine."""


def sources_of(codename: str) -> str:
    """The archives of a release, in the form of a sources.list.

    Raises:
        NoListsError: The machine has no keys to check them with.
    """
    if not KEYRING.is_file():
        raise NoListsError(f"there is no {KEYRING}: apt-get install debian-archive-keyring")
    mirror = os.environ.get("KRAFTQUORUM_DEBIAN_MIRROR", MIRROR)
    archives = (
        (mirror, codename),
        (mirror, f"{codename}-updates"),
        (SECURITY_MIRROR, f"{codename}-security"),
    )
    return "".join(f"deb [signed-by={KEYRING}] {url} {suite} main\n" for url, suite in archives)


def offered(names: Iterable[str], sources: str) -> dict[str, set[str]]:
    """The versions that archives have of packages; nothing for a package that they lack.

    Raises:
        NoListsError: There is no apt, or an archive does not answer.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        root.chmod(0o755)  # apt downloads as a user of its own
        for name in ("lists/partial", "cache"):
            (root / name).mkdir(parents=True)
        (root / "sources.list").write_text(sources, encoding="utf-8")
        _apt(root, "apt-get", "update", "--error-on=any")
        listing = _apt(root, "apt-cache", "madison", *names)
    versions: dict[str, set[str]] = defaultdict(set)
    for line in listing.splitlines():
        name, version, _ = (part.strip() for part in line.split("|"))
        versions[name].add(version)
    return dict(versions)


def _apt(root: Path, program: str, *arguments: str) -> str:
    settings = {
        "Dir::Etc::SourceList": root / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": root / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": root / "cache",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    try:
        done = subprocess.run(
            [program, *options, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=UPDATE_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise NoListsError(f"there is no {program}") from None
    except subprocess.TimeoutExpired:
        raise NoListsError(f"{program} took longer than {UPDATE_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
        raise NoListsError(f"{program} failed: {(said or ['it gave no reason'])[0]}")
    return done.stdout


def outdated(packages: Iterable[Package], versions: Mapping[str, set[str]]) -> Iterator[str]:
    """A sentence for each package that is not the newest one of `versions`, or not in them."""
    for name, version in sorted(packages):
        newest = version
        for other in versions.get(name, ()):
            if _is_newer(other, newest):
                newest = other
        if newest != version:
            yield f"{name} {version}: the release has {newest}"
        elif name not in versions:
            yield f"{name} {version}: the release does not have this package"


def _is_newer(version: str, than: str) -> bool:
    command = ["dpkg", "--compare-versions", version, "gt", than]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
