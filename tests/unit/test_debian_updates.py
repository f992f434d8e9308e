"""Old Debian packages are found by a real apt, in an archive that the test makes."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import debian_updates

if shutil.which("apt-get") is None:
    pytest.skip("apt-get is missing: this is not a Debian", allow_module_level=True)

OFFERED = {
    "libc6": {"2.41-12", "2.41-12+deb13u5"},
    "libstdc++6": {"14.2.0-19"},
    "zlib1g": {"1:1.3.dfsg-3"},
}


@pytest.fixture
def archive() -> Iterator[Path]:
    """A directory that apt's own user can read."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def sources(archive: Path) -> str:
    """An archive with these packages, as a release and its fixes."""
    machine = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    index = f"main/binary-{machine}/Packages"
    for suite, chosen in (("trixie", min), ("trixie-security", max)):
        packages = "\n".join(
            f"Package: {name}\nVersion: {chosen(versions)}\nArchitecture: {machine}\n"
            f"Filename: pool/{name}.deb\nSize: 1\nSHA256: {'0' * 64}\n"
            for name, versions in OFFERED.items()
        ).encode()
        release = (
            f"Suite: {suite}\nCodename: {suite}\nArchitectures: {machine}\nComponents: main\n"
            f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} {index}\n"
        )
        directory = archive / "dists" / suite
        (directory / index).parent.mkdir(parents=True)
        (directory / index).write_bytes(packages)
        (directory / "Release").write_text(release)
    source = f"deb [trusted=yes] file:{archive}"
    return f"{source} trixie main\n{source} trixie-security main\n"


def test_apt_reads_the_versions_of_every_archive(sources: str) -> None:
    versions = debian_updates.offered([*OFFERED, "absent"], sources)
    assert versions == OFFERED


def test_an_archive_that_does_not_answer_is_not_taken_for_an_empty_one(
    sources: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself apt ends with 0, and goes on with the lists that it has."""
    (tmp_path / "apt.conf").write_text('Acquire::Retries "0";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/debian"
        with pytest.raises(debian_updates.NoListsError, match=r"apt-get failed: E: .*127\.0\.0\.1"):
            debian_updates.offered(["libc6"], f"{sources}deb [trusted=yes] {url} trixie main\n")


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (("libc6", "2.41-12+deb13u5"), []),
        (("libc6", "2.41-12"), ["libc6 2.41-12: the release has 2.41-12+deb13u5"]),
        # Newer by Debian's order, not by that of the letters.
        (("libc6", "2.9-1"), ["libc6 2.9-1: the release has 2.41-12+deb13u5"]),
        (("libc6", "2.41-13"), []),
        (("zlib1g", "2.0-1"), ["zlib1g 2.0-1: the release has 1:1.3.dfsg-3"]),
        (("absent", "1.0"), ["absent 1.0: the release does not have this package"]),
    ],
)
def test_a_package_is_old_if_its_release_has_a_newer_version(
    package: debian_updates.Package, said: list[str]
) -> None:
    assert list(debian_updates.outdated([package], OFFERED)) == said


def test_a_machine_without_debians_keys_or_apt_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(debian_updates, "KEYRING", tmp_path / "keyring.gpg")
    with pytest.raises(debian_updates.NoListsError, match="apt-get install debian-archive-keyring"):
        debian_updates.sources_of("trixie")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian_updates.NoListsError, match="there is no apt-get"):
        debian_updates.offered(["libc6"], "")


def test_the_archives_are_the_release_its_updates_and_its_fixes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(debian_updates, "KEYRING", keyring)
    monkeypatch.setenv("KRAFTQUORUM_DEBIAN_MIRROR", "http://mirror.example/debian")
    assert debian_updates.sources_of("trixie").splitlines() == [
        f"deb [signed-by={keyring}] http://mirror.example/debian trixie main",
        f"deb [signed-by={keyring}] http://mirror.example/debian trixie-updates main",
        f"deb [signed-by={keyring}] http://deb.debian.org/debian-security trixie-security main",
    ]
