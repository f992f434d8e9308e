"""What is in the images, read from the archives as a container runtime reads them."""

import json
import re

import pytest

from kraftquorum_devcluster.images.build import revision
from kraftquorum_devcluster.images.inputs import source_root

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

NODE, OPERATOR, PAUSE = 0, 1, 2
SHELLS = {"sh", "bash", "dash", "busybox", "ash"}
TOOLS = {"apt", "apt-get", "dpkg", "perl", "openssl", "su", "mount", "pip", "pip3", "env"}


@pytest.fixture(scope="module")
def archives(images, read_archive):
    return [read_archive(path) for path in images.archives]


@pytest.fixture(scope="module")
def tag(images):
    return images.node.rpartition(":")[2]


def test_archives_bear_the_names_that_pods_ask_for(archives, tag):
    assert [archive.names for archive in archives] == [
        [f"ghcr.io/kraftquorum/node:{tag}"],
        [f"ghcr.io/kraftquorum/operator:{tag}"],
        ["kraftquorum.local/pause:1"],
    ]


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_user_labels_and_entrypoint(archives, tag, which):
    config = archives[which].config
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == [["raftnode"], ["kraftquorum-operator"]][which]
    assert config["Cmd"] == ["run"]
    assert not config.get("Shell")
    labels = config["Labels"]
    assert labels["org.opencontainers.image.version"] == tag
    assert re.fullmatch(
        r"[0-9a-f]{40}(-dirty)?|unknown", labels["org.opencontainers.image.revision"]
    )
    assert bool(revision(source_root()))
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_nothing_of_ours_is_there_but_what_runs(archives, which):
    """Neither the proof kit nor what develops and shows the product."""
    wanted = {"raftnode", "kraftquorum_operator"} if which == OPERATOR else {"raftnode"}
    assert archives[which].packages_of_this_tree == wanted
    assert not [name for name in archives[which].members if "/raftnode/testing" in name]


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_there_is_no_shell_no_package_manager_and_no_program_but_python_and_ours(archives, which):
    members = archives[which].members
    names = {name.rsplit("/", 1)[-1] for name, one in members.items() if not one.isdir()}
    assert not names & (SHELLS | TOOLS)
    programs = {
        name
        for name, one in members.items()
        if re.match(r"(usr/)?s?bin/|opt/kraftquorum/bin/", name) and not one.isdir()
    }
    own = ["raftnode", "kraftquorum-operator"][which]
    assert {name for name in programs if "python" not in name} == {f"opt/kraftquorum/bin/{own}"}


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_nothing_can_be_written_or_run_with_other_rights(archives, which):
    for name, member in archives[which].members.items():
        if member.isfile():
            assert not member.mode & 0o6000, f"{name} changes the user"
            assert not member.mode & 0o002, f"{name} can be written by all"
            assert member.uid == 0, f"{name} belongs to a user that runs"
    state = archives[which].members["var/lib/raftnode"]
    assert (state.uid, state.gid) == (10001, 10001)


def packages(archive):
    found = set()
    for name in archive.members:
        if match := re.search(r"site-packages/([\w.]+?)(-[\d.]+\w*\.dist-info)?(/|$)", name):
            found.add(match.group(1).lower())
    return found


def test_node_carries_no_kopf_and_no_image_the_development_cluster(archives):
    node, operator = packages(archives[NODE]), packages(archives[OPERATOR])
    assert {"raftnode", "kio"} <= node
    assert not {"kopf", "kubernetes", "kraftquorum_operator"} & node
    assert {"kraftquorum_operator", "kopf", "raftnode"} <= operator
    assert not {"kio", "kraftquorum_devcluster", "pip", "hypothesis", "pytest"} & operator
    assert not {"kraftquorum_devcluster", "pip", "hypothesis", "pytest"} & node


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_every_module_is_compiled_ahead_and_never_checked_against_its_source(archives, which):
    members = archives[which].members
    sources = [
        name
        for name in members
        if name.endswith(".py") and ("site-packages/" in name or name.startswith("usr/lib/"))
    ]
    assert len(sources) > 500
    tag = next(re.search(r"(cpython-\d+)\.pyc$", n) for n in members if n.endswith(".pyc"))[1]
    for name in sources:
        folder, _, module = name.rpartition("/")
        compiled = f"{folder}/__pycache__/{module.removesuffix('.py')}.{tag}.pyc"
        assert compiled in members, compiled
        flags = archives[which].texts.get(compiled, b"\0\0\0\0\1")[4]
        assert flags == 1, f"{compiled}: a hash that is not checked, not a time"


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_no_setting_of_the_machine_that_built_it_is_left(archives, which):
    archive = archives[which]
    assert not [name for name in archive.members if name.endswith(("pip.conf", "sources.list"))]
    history = json.dumps(archive.document.get("history"))
    for text in (history, json.dumps(archive.config)):
        assert "pip.conf" not in text
        assert "/run/secrets" not in text
        assert "https://" not in text


@pytest.mark.parametrize("which", [NODE, OPERATOR])
def test_packages_of_the_base_are_recorded_with_their_licences(archives, which):
    members = archives[which].members
    recorded = {n.rsplit("/", 1)[-1] for n in members if n.startswith("var/lib/dpkg/status.d/")}
    assert {"libc6", "libssl3t64", "ca-certificates"} <= recorded
    assert any(name.startswith("libpython3") for name in recorded)
    assert "usr/share/doc/libc6/copyright" in members


def test_images_are_small(images):
    """The figures in docs/operations/image.md, with a little room."""
    assert images.sizes[images.node] < 120e6
    assert images.sizes[images.operator] < 170e6
    assert images.sizes[images.pause] < 2e6


def test_pause_is_one_static_program(archives):
    pause = archives[PAUSE]
    files = [name for name, one in pause.members.items() if one.isfile()]
    assert files == ["pause"]
    assert pause.config["Entrypoint"] == ["/pause"]
    assert pause.config["User"] == "65535:65535"
