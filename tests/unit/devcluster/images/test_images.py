"""The parts around a build that need no engine: hash, secrets, cache, and what is said."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.images import (
    base,
    build,
    build_images,
    build_pipeline,
    engine,
    install,
)
from kraftquorum_devcluster.images.inputs import (
    INPUTS,
    PIPELINE_INPUTS,
    check_tag,
    content_hash,
    source_root,
)
from kraftquorum_devcluster.images.secrets import build_secrets, parse_pip_settings
from kraftquorum_devcluster.progress import LineProgress


class Said:
    def __init__(self):
        self.lines = []

    def print(self, text, **_):
        self.lines.append(text)


@pytest.fixture
def said():
    return Said()


@pytest.fixture
def tree(tmp_path):
    """A source tree with all inputs."""
    for name in PIPELINE_INPUTS:
        path = tmp_path / name
        if name in {"operator", "pipeline", "raftnode"}:
            path.mkdir()
            (path / "a.py").write_text(name)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(name)
    return tmp_path


def test_hash_follows_every_input_and_nothing_else(tree):
    seen = {content_hash(tree, "1"), content_hash(tree, "2")}
    assert len(seen) == 2, "the tag is part of it"
    for name in INPUTS:
        path = tree / name / "a.py" if (tree / name).is_dir() else tree / name
        path.write_text("changed")
        seen.add(content_hash(tree, "1"))
    assert len(seen) == 2 + len(INPUTS)
    (tree / "pipeline" / "a.py").write_text("changed")
    assert content_hash(tree, "1") in seen, "the node is not built again for the pipeline"
    (tree / "raftnode" / "__pycache__").mkdir()
    (tree / "raftnode" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (tree / "docs").mkdir()
    (tree / "docs" / "page.md").write_text("text")
    assert content_hash(tree, "1") in seen


def test_hash_of_the_pipeline_follows_what_only_it_has(tree):
    seen = {content_hash(tree, "1"), content_hash(tree, "1", inputs=PIPELINE_INPUTS)}
    more = [name for name in PIPELINE_INPUTS if name not in INPUTS]
    for name in more:
        path = tree / name / "a.py" if (tree / name).is_dir() else tree / name
        path.write_text("changed")
        seen.add(content_hash(tree, "1", inputs=PIPELINE_INPUTS))
    assert len(seen) == 2 + len(more)


def test_hash_tells_a_files_text_from_the_next_files_name(tree):
    (tree / "raftnode" / "a.py").write_text("")
    (tree / "raftnode" / "b.py").write_text("c")
    before = content_hash(tree)
    (tree / "raftnode" / "b.py").unlink()
    (tree / "raftnode" / "a.py").write_text("raftnode/b.pyc")
    assert content_hash(tree) != before


def test_missing_input_is_named(tree):
    (tree / "LICENSE").unlink()
    with pytest.raises(ImageError, match="LICENSE is missing"):
        content_hash(tree)


@pytest.mark.parametrize("tag", ["", "a b", "-x", "a/b", "x" * 129, "a:b", "ä"])
def test_what_is_no_tag_is_refused_before_anything_is_done(tag, tmp_path):
    with pytest.raises(ImageError, match="letters, digits"):
        build_images(tag, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_tags_are_accepted():
    for tag in ("0.1.0", "dev", "v1_2-rc.3", "0" * 128):
        check_tag(tag)


PIP = """\
:env:.cert='/etc/bundle.pem'
:env:.default-timeout='180'
:env:.find-links='/opt/wheels'
global.index-url='https://one.example/simple'
install.index-url='https://two.example/simple?a=%20b'
global.no-such='x'
freeze.timeout='10'
"""


def test_pip_settings_are_read_by_their_rank():
    found = parse_pip_settings(PIP)
    assert found["index-url"] == "https://two.example/simple?a=%20b"
    assert found["timeout"] == "180"
    assert found["cert"] == "/etc/bundle.pem"


def test_secrets_are_private_and_have_what_the_build_can_use(tmp_path):
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    settings = parse_pip_settings(PIP) | {"cert": str(bundle)}
    secrets = build_secrets(settings, {}, tmp_path)
    assert secrets == {"ca": bundle, "pip": tmp_path / "pip.conf"}
    assert stat.S_IMODE(secrets["pip"].stat().st_mode) == 0o600
    text = secrets["pip"].read_text()
    assert "index-url = https://two.example/simple?a=%20b" in text
    assert "cert = /run/secrets/ca" in text
    assert "find-links" not in text, "a folder of this machine is none of the build's"
    assert "no-such" not in text


def test_certificates_come_from_the_environment_too(tmp_path):
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    environment = {"PIP_CERT": str(tmp_path / "missing"), "SSL_CERT_FILE": str(bundle)}
    assert build_secrets({}, environment, tmp_path)["ca"] == bundle


def test_machine_without_settings_has_no_secrets(tmp_path):
    assert build_secrets({}, {}, tmp_path) == {}
    assert build_secrets({"find-links": "/opt"}, {}, tmp_path) == {}


def finish(cache, tag, images=("node", "operator", "pause-1"), inputs=INPUTS, root=None):
    """Leave in the cache what a finished build of these or of other sources leaves."""
    key = content_hash(source_root(), tag, "", build.pause_source(), inputs=inputs)
    if root is not None:
        key = f"of {root}"
    plan = build._Plan(cache, root or source_root(), tag, key, images)
    for name, image in plan.names.items():
        plan.archive(name).parent.mkdir(parents=True, exist_ok=True)
        plan.archive(name).write_bytes(b"tar")
        note = {"image": image, "id": "sha256:1", "size_bytes": 7, "key": plan.key_of(name)}
        plan.archive(name).with_suffix(".json").write_text(json.dumps(note))
    return plan


@pytest.fixture
def no_engine(monkeypatch):
    """A machine on which nothing answers to `docker`."""
    monkeypatch.setattr(engine, "docker_programs", list)
    monkeypatch.setattr(engine.os, "geteuid", lambda: 1000)


def test_finished_build_is_found_without_an_engine(tmp_path, no_engine):
    finish(tmp_path, "1.0")
    images = build_images("1.0", cache=tmp_path)
    assert images.node == "ghcr.io/kraftquorum/node:1.0"
    assert images.operator == "ghcr.io/kraftquorum/operator:1.0"
    assert images.pause == "kraftquorum.local/pause:1"
    assert [path.name for path in images.archives] == [
        "node-1.0.tar",
        "operator-1.0.tar",
        "pause-1.tar",
    ]
    assert images.sizes[images.node] == 7


def test_a_build_of_another_checkout_leaves_these_images_alone(tmp_path, no_engine):
    finish(tmp_path, "e2e")
    images = build_images("e2e", cache=tmp_path)
    theirs = finish(tmp_path, "e2e", root=Path("/another/checkout"))
    assert build_images("e2e", cache=tmp_path) == images
    assert {theirs.archive("node-e2e"), theirs.archive("operator-e2e")}.isdisjoint(images.archives)


def test_pipeline_is_an_image_of_its_own(tmp_path, no_engine, said):
    finish(tmp_path, "1.0")
    with pytest.raises(ImageError, match="Docker engine"):
        build_pipeline("1.0", cache=tmp_path, progress=LineProgress(said))
    finish(tmp_path, "1.0", ("pipeline",), PIPELINE_INPUTS)
    image = build_pipeline("1.0", cache=tmp_path)
    assert (image.name, image.size) == ("ghcr.io/kraftquorum/pipeline:1.0", 7)
    assert image.archive.name == "pipeline-1.0.tar"


@pytest.mark.parametrize("damage", ["archive", "note", "key", "text"])
def test_build_that_is_not_whole_or_not_of_these_sources_is_done_again(
    tmp_path, no_engine, said, damage
):
    archive = finish(tmp_path, "1.0").archive("operator-1.0")
    note = archive.with_suffix(".json")
    match damage:
        case "archive":
            archive.unlink()
        case "note":
            note.unlink()
        case "key":
            note.write_text(json.dumps(json.loads(note.read_text()) | {"key": "other"}))
        case "text":
            note.write_text("{")
    with pytest.raises(ImageError, match="Docker engine"):
        build_images("1.0", cache=tmp_path, progress=LineProgress(said))


def test_without_engine_and_without_root_it_says_what_to_do(tmp_path, no_engine, said):
    with pytest.raises(ImageError, match=r"needs root: start Docker .* or run this as root"):
        build_images("1.0", cache=tmp_path, progress=LineProgress(said))


def test_without_permission_to_install_it_names_the_command(monkeypatch, said):
    monkeypatch.setattr(install.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(install, "_is_known", lambda name: name == "docker-cli")
    expected = "apt-get install --yes --no-install-recommends docker.io debootstrap docker-cli"
    with pytest.raises(ImageError, match=expected):
        install.install_engine(LineProgress(said), allowed=False)
    assert not said.lines, "nothing was begun"


def test_without_apt_it_says_so(monkeypatch, said):
    monkeypatch.setattr(install.shutil, "which", lambda _: None)
    with pytest.raises(ImageError, match="no apt-get here: install Docker"):
        install.install_engine(LineProgress(said), allowed=True)


def test_base_that_is_named_and_cannot_be_pulled_is_not_replaced(tmp_path, said):
    class Offline:
        def has(self, _):
            return False

        def pull(self, _, __):
            return "no such host"

    with pytest.raises(ImageError, match=r"pull the base corp/debian:13.*no such host"):
        base.ensure_base(Offline(), tmp_path, LineProgress(said), "corp/debian:13")


def test_stand_in_needs_debootstrap_and_root(tmp_path, monkeypatch, said):
    monkeypatch.setattr(base.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ImageError, match="apt-get install debootstrap"):
        base.make_stand_in(tmp_path / "base.tar", LineProgress(said))
    monkeypatch.setattr(base.shutil, "which", lambda *_, **__: "/usr/sbin/debootstrap")
    monkeypatch.setattr(base.os, "geteuid", lambda: 1000)
    with pytest.raises(ImageError, match="needs root"):
        base.make_stand_in(tmp_path / "base.tar", LineProgress(said))


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace of its own needs root")
def test_failing_debootstrap_leaves_nothing_and_says_its_last_words(tmp_path, monkeypatch, said):
    program = tmp_path / "debootstrap"
    program.write_text(
        "#!/bin/sh\nmkdir $4 && echo half > $4/file\necho 'E: no network' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(base.shutil, "which", lambda *_, **__: str(program))
    monkeypatch.setattr(base.os, "geteuid", lambda: 0)
    cache = tmp_path / "cache"
    with pytest.raises(ImageError, match=r"E: no network[\s\S]*KRAFTQUORUM_DEBIAN_MIRROR"):
        base.make_stand_in(cache / "base.tar", LineProgress(said))
    assert not list(cache.iterdir())


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_revision_is_the_commit_or_unknown(tmp_path):
    assert build.revision(tmp_path) == "unknown"
    assert build.revision(source_root()).removesuffix("-dirty").isalnum()
