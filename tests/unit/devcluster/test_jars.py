"""Jars that Maven fetches: whole and checked, or not kept."""

import hashlib
import os
from pathlib import Path

import pytest

from kraftquorum_devcluster.jars import JarsError, JarSet

POM = "<project><dependency><version>9.8.7</version></dependency></project>"
MAVEN = """#!/bin/sh
for argument; do case $argument in -DoutputDirectory=*) out=${{argument#*=}};; esac; done
mkdir -p "$out"
printf '%s' '{content}' > "$out/a.jar"
echo said by maven
exit {code}
"""


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """Install a Maven that makes one jar; returns what installs another."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "java").write_text("#!/bin/sh\n")
    (programs / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("KRAFTQUORUM_CACHE", str(tmp_path / "cache"))

    def install(content: str = "jar", code: int = 0) -> Path:
        program = programs / "mvn"
        program.write_text(MAVEN.format(content=content, code=code))
        program.chmod(0o755)
        return program

    install()
    return install


@pytest.fixture
def jars(tmp_path):
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "pom.xml").write_text(POM)
    digest = hashlib.sha256(b"jar").hexdigest()
    (folder / "jars.sha256").write_text(f"{digest}  a.jar\n")
    return JarSet(folder)


def left(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").iterdir())


def test_jars_are_fetched_once_and_kept_by_their_pins(maven, jars, tmp_path):
    directory = jars.ensure()
    assert directory.name.startswith("thing-9.8.7-")
    assert (directory / "a.jar").read_text() == "jar"
    assert left(tmp_path) == [directory.name]
    maven("broken", code=1)
    assert jars.ensure() == directory


@pytest.mark.without("kraftquorum_devcluster.jars:JarSet._keep", "if wrong:", "if False:")
def test_a_jar_that_is_not_the_pinned_one_is_not_kept(maven, jars, tmp_path):
    maven("another")
    with pytest.raises(JarsError, match=r"names: a\.jar; nothing was kept"):
        jars.ensure()
    assert left(tmp_path) == []


def test_a_kept_jar_that_changed_is_fetched_again(maven, jars):
    (jars.ensure() / "a.jar").write_text("rotten")
    assert (jars.ensure() / "a.jar").read_text() == "jar"


def test_pins_are_written_after_the_pom_changed(maven, jars):
    maven("newer")
    directory = jars.pin()
    assert (directory / "a.jar").read_text() == "newer"
    assert jars.ensure() == directory


def test_mavens_words_are_in_the_error(maven, jars):
    maven(code=1)
    with pytest.raises(JarsError, match="could not fetch the jars: said by maven"):
        jars.ensure()


def test_a_missing_program_is_named(maven, jars, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsError, match="java is missing: on Debian, apt-get install"):
        jars.ensure()


def test_a_pom_without_a_version_is_named(jars):
    (jars.folder / "pom.xml").write_text("<project/>")
    with pytest.raises(JarsError, match="has no dependency with a version"):
        _ = jars.version
