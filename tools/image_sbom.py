"""Write the list of contents (SBOM) of an image's archive, and check that it is complete.

    image_sbom.py ARCHIVE... --into build/sbom

Syft writes it in the format CycloneDX. Then this reads the archive itself: each Python package and
each Debian package in it must be in the list with its version, and each jar by its path. A list
that lacks one is refused, since a scanner would not look for what it does not know.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

DIST_INFO = re.compile(r"site-packages/[^/]+\.dist-info/METADATA$")
DPKG = re.compile(r"^(\./)?var/lib/dpkg/status\.d/[^/]+$")
PURL = re.compile(r"pkg:(pypi|deb)/(?:[^/]+/)?([^/@]+)@([^?]+)")


@dataclass(slots=True)
class Contents:
    """What an image has.

    Attributes:
        packages: `(ecosystem, name, version)` of Python and Debian packages.
        jars: paths of Java's archives.
    """

    packages: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    jars: set[str] = field(default_factory=set[str])


def contents_of(archive: Path) -> Contents:
    """Read an archive in the form of `docker save`, layer by layer."""
    contents = Contents()
    with tarfile.open(archive) as outer:
        manifest = outer.extractfile("manifest.json")
        assert manifest is not None
        for layer in json.load(manifest)[0]["Layers"]:
            data = outer.extractfile(layer)
            assert data is not None
            with tarfile.open(fileobj=data) as inner:
                _read_layer(inner, contents)
    return contents


def _read_layer(layer: tarfile.TarFile, contents: Contents) -> None:
    for member in layer:
        if not member.isfile():
            continue
        python, debian = DIST_INFO.search(member.name), DPKG.match(member.name)
        if python or debian:
            stream = layer.extractfile(member) or io.BytesIO()
            name_key = "Name" if python else "Package"
            header = BytesHeaderParser().parsebytes(stream.read())
            if header[name_key] and header["Version"]:
                kind = "pypi" if python else "deb"
                contents.packages.add(_package(kind, header[name_key], header["Version"]))
        elif member.name.endswith(".jar"):
            contents.jars.add("/" + member.name.removeprefix("./").lstrip("/"))


def _package(kind: str, name: str, version: str) -> tuple[str, str, str]:
    plain = re.sub(r"[-_.]+", "-", name).lower() if kind == "pypi" else name
    return kind, plain, version


def listed_in(document: dict[str, Any]) -> Contents:
    """What a list has."""
    listed = Contents()
    for component in document.get("components", []):
        match = PURL.match(component.get("purl", ""))
        if match is not None:
            kind, name, version = match.groups()
            listed.packages.add(_package(kind, unquote(name), unquote(version)))
        for entry in component.get("properties", []):
            if entry["name"].endswith(":path") and entry["value"].endswith(".jar"):
                listed.jars.add(entry["value"])
    return listed


def missing_from(document: dict[str, Any], contents: Contents) -> Iterator[str]:
    """What an image has and its list has not."""
    listed = listed_in(document)
    for kind, name, version in sorted(contents.packages - listed.packages):
        yield f"{kind} package {name} {version}"
    for path in sorted(contents.jars - listed.jars):
        yield f"jar {path}"


def write(archive: Path, into: Path) -> tuple[Path, dict[str, Any]]:
    """Have Syft write the list of an archive.

    Raises:
        subprocess.CalledProcessError: Syft failed.
    """
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{archive.name.removesuffix('.tar')}.cdx.json"
    program = Path(sys.executable).with_name("syft")
    subprocess.run(
        [
            program,
            "scan",
            f"docker-archive:{archive}",
            "--quiet",
            f"--source-name={archive.name.removesuffix('.tar')}",
            f"--output=cyclonedx-json={path}",
        ],
        env={**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false"},
        check=True,
    )
    return path, json.loads(path.read_text(encoding="utf-8"))


def report(archives: Iterable[Path], into: Path) -> int:
    """Write and check the list of each archive; 1 if one is not complete."""
    code = 0
    for archive in archives:
        contents = contents_of(archive)
        path, document = write(archive, into)
        missing = list(missing_from(document, contents))
        for line in missing:
            sys.stdout.write(f"MISSING in {path}: {line}\n")
        kinds = [kind for kind, _, _ in contents.packages]
        sys.stdout.write(
            f"{path}: {len(document['components'])} components; {kinds.count('pypi')} Python and "
            f"{kinds.count('deb')} Debian packages and {len(contents.jars)} jars of the image, "
            f"{len(missing)} missing\n"
        )
        if missing or not contents.packages:
            code = 1
    return code


def main(arguments: Sequence[str]) -> int:
    """Write the lists; see the module."""
    parser = argparse.ArgumentParser(description="Write the list of contents of images.")
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("build/sbom"))
    given = parser.parse_args(arguments)
    return report(given.archives, given.into)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
