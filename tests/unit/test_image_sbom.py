"""A list of contents lacks nothing that its image has, or it is refused."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import image_sbom

LIST = {
    "components": [
        {"name": "PyYAML", "purl": "pkg:pypi/pyyaml@6.0.3"},
        {
            "name": "libstdc++6",
            "purl": "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19%2Bdeb13u1?arch=amd64",
        },
        {
            "name": "spark-core",
            "purl": "pkg:maven/org.apache.spark/spark-core@4.3.0",
            "properties": [{"name": "syft:location:0:path", "value": "/opt/jars/spark-core.jar"}],
        },
        {"name": "debian", "type": "operating-system"},
    ]
}


def layer(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two layers, in the form of `docker save`."""
    packages = "opt/kraftquorum/lib/python3.13/site-packages"
    layers = {
        "a/layer.tar": layer(
            {
                "var/lib/dpkg/status.d/libstdc++6": (
                    b"Package: libstdc++6\nVersion: 14.2.0-19+deb13u1\nDescription: x\n y\n"
                ),
                "usr/share/doc/libstdc++6/copyright": b"Package: other\nVersion: 1\n",
            }
        ),
        "b/layer.tar": layer(
            {
                f"{packages}/PyYAML-6.0.3.dist-info/METADATA": (
                    b"Metadata-Version: 2.4\nName: PyYAML\nVersion: 6.0.3\n\nText\n"
                ),
                "opt/jars/spark-core.jar": b"jar",
            }
        ),
    }
    path = tmp_path / "image.tar"
    manifest = json.dumps([{"Layers": list(layers)}]).encode()
    path.write_bytes(layer({"manifest.json": manifest, **layers}))
    return path


def test_every_package_and_jar_of_the_archive_is_looked_for(archive: Path) -> None:
    contents = image_sbom.contents_of(archive)
    assert contents.packages == {
        ("pypi", "pyyaml", "6.0.3"),
        ("deb", "libstdc++6", "14.2.0-19+deb13u1"),
    }
    assert contents.jars == {"/opt/jars/spark-core.jar"}
    assert list(image_sbom.missing_from(LIST, contents)) == []


@pytest.mark.parametrize(
    ("number", "missing"),
    [
        (0, "pypi package pyyaml 6.0.3"),
        (1, "deb package libstdc++6 14.2.0-19+deb13u1"),
        (2, "jar /opt/jars/spark-core.jar"),
    ],
)
def test_a_list_without_one_of_them_is_not_complete(
    archive: Path,
    number: int,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    less: dict[str, Any] = {
        "components": [c for n, c in enumerate(LIST["components"]) if n != number]
    }
    contents = image_sbom.contents_of(archive)
    assert list(image_sbom.missing_from(less, contents)) == [missing]
    monkeypatch.setattr(image_sbom, "write", lambda *_: (Path("list.json"), less))
    assert image_sbom.report([archive], tmp_path) == 1
    assert f"MISSING in list.json: {missing}" in capsys.readouterr().out
    monkeypatch.setattr(image_sbom, "write", lambda *_: (Path("list.json"), LIST))
    assert image_sbom.report([archive], tmp_path) == 0


def test_another_version_is_not_the_same_package(archive: Path) -> None:
    contents = image_sbom.contents_of(archive)
    text = json.dumps(LIST).replace("6.0.3", "6.0.2")
    missing = list(image_sbom.missing_from(json.loads(text), contents))
    assert missing == ["pypi package pyyaml 6.0.3"]
