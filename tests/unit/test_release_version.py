"""A release has one version."""

from pathlib import Path

import release_version

ROOT = Path(__file__).resolve().parents[2]


def test_the_files_agree_with_a_tag_of_their_version(capsys):
    version = release_version.versions(ROOT)["pyproject.toml, version"]
    assert release_version.main(ROOT, f"v{version}") == 0
    assert capsys.readouterr().out == f"{version}\n"


def test_a_tag_of_another_version_is_refused_with_each_file(capsys):
    assert release_version.main(ROOT, "v9.9.9") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("but the tag is v9.9.9") == 3
