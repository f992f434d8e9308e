"""The scan by a real Grype, with a database that the test makes and serves."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import sqlite3
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import image_sbom
import scan_images
from kraftquorum_devcluster.binaries import ensure_binaries
from kraftquorum_devcluster.versions import SCAN_TOOLS

pytestmark = pytest.mark.scan

MODEL, REVISION, ADDITION = 6, 1, 9
"""The version of the database's schema that this Grype writes."""
NOW = datetime.now(UTC).replace(microsecond=0)

# Id, severity, provider, ecosystem, package, the versions that have it, the fix.
VULNERABILITIES = (
    ("CVE-2026-1", "high", "debian", "deb", "openssl", "< 3.5.5-1", "3.5.5-1"),
    ("CVE-2026-2", "medium", "debian", "deb", "openssl", "< 3.5.5-1", "3.5.5-1"),
    ("CVE-2026-3", "critical", "debian", "deb", "openssl", ">= 0", None),
    ("GHSA-aaaa-bbbb-cccc", "critical", "github", "python", "pyyaml", "< 6.0.4", "6.0.4"),
    ("GHSA-dddd-eeee-ffff", "high", "github", "java-archive", "a.b:jar", "< 1.3", "1.3"),
)
FORMATS = {"deb": "dpkg", "python": "python", "java-archive": "maven"}
"""How the versions of a kind of packages are compared."""


@pytest.fixture(scope="session")
def program() -> Path:
    return ensure_binaries(wanted=SCAN_TOOLS) / "grype"


def write_database(program: Path, directory: Path, built: datetime) -> Path:
    """A database with these vulnerabilities. Grype itself adds the tables to an empty one."""
    directory.mkdir(parents=True)
    path = directory / "empty.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE db_metadata (build_timestamp datetime NOT NULL, "
            "model integer NOT NULL, revision integer NOT NULL, addition integer NOT NULL)"
        )
        row = (built.isoformat(sep=" "), MODEL, REVISION, ADDITION)
        database.execute("INSERT INTO db_metadata VALUES (?, ?, ?, ?)", row)
    database.close()
    done = subprocess.run(
        [program, "db", "import", path],
        env={
            **os.environ,
            "GRYPE_DB_CACHE_DIR": str(directory / "cache"),
            "GRYPE_CHECK_FOR_APP_UPDATE": "false",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    whole = directory / "cache" / str(MODEL) / "vulnerability.db"
    with sqlite3.connect(whole) as database:
        _insert(database)
    database.close()
    return whole


def _insert(database: sqlite3.Connection) -> None:
    def insert(table: str, **values: object) -> int:
        marks = ", ".join("?" * len(values))
        statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
        row = database.execute(statement, tuple(values.values())).lastrowid
        assert row is not None
        return row

    def blob(value: dict[str, Any]) -> int:
        return insert("blobs", value=json.dumps(value))

    for provider in ("debian", "github"):
        insert("providers", id=provider, version="1", processor="test", input_digest="xxh64:0")
    parts = {"release_id": "debian", "major_version": "13", "minor_version": "", "channel": ""}
    release = insert(
        "operating_systems", name="debian", label_version="", codename="trixie", **parts
    )
    packages: dict[str, int] = {}
    for name, severity, provider, ecosystem, package, constraint, fix in VULNERABILITIES:
        severities = [{"scheme": "CHMLN", "value": severity, "rank": 1}]
        vulnerability = insert(
            "vulnerability_handles",
            name=name,
            status="active",
            provider_id=provider,
            blob_id=blob({"id": name, "severities": severities}),
        )
        if package not in packages:
            packages[package] = insert("packages", ecosystem=ecosystem, name=package)
        state = {"version": fix, "state": "fixed"} if fix else {"state": "not-fixed"}
        affected = {
            "version": {"type": FORMATS[ecosystem], "constraint": constraint},
            "fix": state,
        }
        insert(
            "affected_package_handles",
            vulnerability_id=vulnerability,
            operating_system_id=release if ecosystem == "deb" else None,
            package_id=packages[package],
            blob_id=blob({"ranges": [affected]}),
        )


class Server:
    """The publisher of the database."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory
        (directory / "site").mkdir()
        handler = functools.partial(_Quiet, directory=str(directory / "site"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/latest.json"

    def publish(self, built: datetime) -> None:
        """Serve a database of that time."""
        name = f"{built:%Y%m%d%H%M%S}"
        path = write_database(self._program, self._directory / name, built)
        archive = self._directory / "site" / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(path, "vulnerability.db")
        latest = {
            "status": "active",
            "schemaVersion": f"v{MODEL}.{REVISION}.{ADDITION}",
            "built": f"{built:%Y-%m-%dT%H:%M:%SZ}",
            "path": archive.name,
            "checksum": f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}",
        }
        (self._directory / "site" / "latest.json").write_text(json.dumps(latest))

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def server(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = Server(program, tmp_path)
    monkeypatch.setenv("GRYPE_DB_UPDATE_URL", running.url)
    monkeypatch.setenv("GRYPE_DB_CACHE_DIR", str(tmp_path / "cache"))
    yield running
    running.stop()


@pytest.fixture
def published(server: Server) -> Server:
    server.publish(NOW - timedelta(hours=1))
    return server


@pytest.fixture
def grype(program: Path, tmp_path: Path) -> scan_images.Grype:
    """With the rules of this repository, to which a test may add."""
    rules = tmp_path / "grype.yaml"
    rules.write_text(scan_images.RULES.read_text())
    return scan_images.Grype(program, rules)


def contents(directory: Path, openssl: str, pyyaml: str, jar: str) -> Path:
    """The list that Syft writes of an image with these three packages."""
    files = {
        "usr/lib/os-release": b"ID=debian\nVERSION_ID=13\nVERSION_CODENAME=trixie\n",
        "var/lib/dpkg/status.d/libssl3t64": (
            "Package: libssl3t64\nStatus: install ok installed\nSource: openssl\n"
            f"Architecture: amd64\nVersion: {openssl}\nDescription: TLS\n"
        ).encode(),
        f"opt/lib/python3.13/site-packages/pyyaml-{pyyaml}.dist-info/METADATA": (
            f"Metadata-Version: 2.4\nName: PyYAML\nVersion: {pyyaml}\n\n".encode()
        ),
        f"opt/jars/jar-{jar}.jar": _jar(f"groupId=a.b\nartifactId=jar\nversion={jar}\n"),
    }
    layer = _tar(files)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
            },
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [], "Layers": ["layer.tar"]}]
    archive = directory / "node-dev.tar"
    archive.write_bytes(
        _tar(
            {
                "manifest.json": json.dumps(manifest).encode(),
                "config.json": config,
                "layer.tar": layer,
            }
        )
    )
    assert image_sbom.report([archive], directory) == 0
    return directory / "node-dev.cdx.json"


def _tar(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    directories = {str(parent): None for name in files for parent in Path(name).parents[-2::-1]}
    with tarfile.open(fileobj=data, mode="w") as tar:
        # Syft finds no Debian package without its directory.
        for name in directories:
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def _jar(properties: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        archive.writestr("META-INF/maven/a.b/jar/pom.properties", properties)
    return data.getvalue()


def test_the_list_names_the_release_and_its_packages(tmp_path: Path) -> None:
    document = json.loads(contents(tmp_path, "3.5.4-1", "6.0.3", "1.2").read_text())
    assert scan_images.debian_of(document) == ("trixie", {("libssl3t64", "3.5.4-1")})


def test_severe_vulnerabilities_with_a_fix_are_found_in_every_kind_of_package(
    grype: scan_images.Grype, published: Server, tmp_path: Path
) -> None:
    result = scan_images.vulnerable(grype, [contents(tmp_path, "3.5.4-1", "6.0.3", "1.2")])
    assert set(result.faults) == {
        "VULNERABLE libssl3t64 3.5.4-1: CVE-2026-1 (High); fixed in 3.5.5-1 (node-dev.cdx.json)",
        (
            "VULNERABLE pyyaml 6.0.3: GHSA-aaaa-bbbb-cccc (Critical); fixed in 6.0.4 "
            "(node-dev.cdx.json)"
        ),
        "VULNERABLE jar 1.2: GHSA-dddd-eeee-ffff (High); fixed in 1.3 (node-dev.cdx.json)",
    }
    assert result.notes == (
        (
            "node-dev.cdx.json: vulnerabilities: 3 severe with a fix, 1 other with a fix, "
            "1 without a fix, 0 excepted"
        ),
    )


def test_what_is_fixed_or_has_no_fix_does_not_fail_the_scan(
    grype: scan_images.Grype, published: Server, tmp_path: Path
) -> None:
    result = scan_images.vulnerable(grype, [contents(tmp_path, "3.5.5-1", "6.0.4", "1.3")])
    assert result.faults == ()
    assert "0 severe with a fix, 0 other with a fix, 1 without a fix" in result.notes[0]


def test_an_exception_with_a_reason_is_left_out(
    grype: scan_images.Grype, published: Server, tmp_path: Path
) -> None:
    path = contents(tmp_path, "3.5.4-1", "6.0.4", "1.3")
    assert len(scan_images.vulnerable(grype, [path]).faults) == 1
    rule = '- {vulnerability: CVE-2026-1, reason: "nothing calls it"}'
    grype.rules.write_text(grype.rules.read_text().replace("ignore: []", f"ignore:\n{rule}"))
    result = scan_images.vulnerable(grype, [path])
    assert result.faults == ()
    assert result.notes[0].endswith("1 excepted")


def test_the_database_of_an_earlier_download_serves_for_five_days(
    grype: scan_images.Grype, server: Server, tmp_path: Path
) -> None:
    path = contents(tmp_path, "3.5.4-1", "6.0.3", "1.2")
    server.publish(NOW - timedelta(days=4))
    assert len(scan_images.vulnerable(grype, [path]).faults) == 3
    server.stop()
    result = scan_images.vulnerable(grype, [path])
    assert len(result.faults) == 3
    assert result.notes[0].startswith("Grype used the database of an earlier download: ")


@pytest.mark.parametrize(
    ("age", "said"),
    [(None, "unable to"), (timedelta(days=6), "max allowed age")],
    ids=["none", "old"],
)
def test_no_database_or_an_old_one_is_no_pass(
    grype: scan_images.Grype, server: Server, tmp_path: Path, age: timedelta | None, said: str
) -> None:
    if age is not None:
        server.publish(NOW - age)
    with pytest.raises(scan_images.NoDatabaseError, match=said):
        scan_images.vulnerable(grype, [contents(tmp_path, "3.5.4-1", "6.0.3", "1.2")])
