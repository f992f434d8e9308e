"""The image with Spark: what is in it, and that it works without a shell, read-only."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from proofkit.replicadirs import batches_in, flip, quorum_history, segments, write_quorum

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

SHELLS = ("sh", "bash", "dash", "busybox", "perl", "apt-get", "pip")


@pytest.fixture(scope="module")
def pipeline(docker, pipeline_image):
    docker.engine.ask("load", "--quiet", "--input", str(pipeline_image.archive), timeout_s=900)
    return pipeline_image


@pytest.fixture
def run(docker, pipeline, tmp_path):
    """Run a command of it as the manifests do: nothing to write to but /tmp and the output."""
    output, source = tmp_path / "output", tmp_path / "replicas"
    output.mkdir()
    output.chmod(0o777)

    def command(*arguments, code=0):
        options = (
            *["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"],
            *[
                "--network=none",
                "--hostname=localhost",
                "--tmpfs=/tmp:mode=1777,exec",
                f"--volume={source}:/replicas:ro",
            ],
            f"--volume={output}:/output",
        )
        done = subprocess.run(
            [str(docker.engine.program), "run", "--rm", *options, pipeline.name, *arguments],
            env=docker.engine.env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return command


@pytest.fixture
def replicas(tmp_path):
    paths = write_quorum(tmp_path / "replicas", quorum_history())
    for path in [tmp_path, *(tmp_path / "replicas").rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return paths


def test_it_is_labelled_small_enough_and_has_neither_shell_nor_root(docker, pipeline):
    config = json.loads(docker.ask("inspect", "--format", "{{json .Config}}", pipeline.name))
    assert config["User"] == "10001:10001"
    assert config["Labels"]["org.opencontainers.image.title"] == "kraftquorum pipeline"
    assert config["Entrypoint"] == ["python3", "-m", "kraftquorum_pipeline.launch"]
    assert pipeline.size < 1.1e9, "docs/operations/image.md, with a little room"
    script = (
        "import shutil, sys; from pathlib import Path;"
        f"print([name for name in {SHELLS!r} if shutil.which(name)]);"
        "print(sorted(p.name for p in Path('/usr/bin').iterdir()));"
        "print([str(p) for p in Path('/').rglob('*') if not str(p).startswith(('/proc', '/sys'))"
        " and not p.is_symlink() and p.is_file() and p.stat().st_mode & 0o6002])"
    )
    python = ["run", "--rm", "--entrypoint", "python3", pipeline.name, "-c", script]
    shells, programs, rights = docker.engine.ask(*python, timeout_s=120).splitlines()
    assert shells == "[]"
    assert re.fullmatch(r"\['chmod', 'ls', 'python3', 'python3\.\d+', 'readlink'\]", programs)
    assert rights == "[]", "nothing changes the user or can be written by all"


def test_nothing_of_this_tree_is_there_but_what_runs(pipeline_image, read_archive):
    """Neither the proof kit nor what develops, shows, measures and tests the product."""
    archive = read_archive(pipeline_image.archive)
    assert archive.packages_of_this_tree == {"raftnode", "kraftquorum_pipeline"}


def test_export_and_audit_run_on_its_own_spark(run, replicas):
    said = run("export", "--path=/replicas", "--output=/output/log", "--json")
    told = json.loads(said.splitlines()[-1])
    assert told["start"] == 0
    assert told["end"] == told["log_end"] == sum(told["rows"].values())
    assert "nothing new" in run("export", "--path=/replicas", "--output=/output/log")
    assert "The replicas agree." in run("audit", "/replicas")
    page = run("report", "/output/log", "--output=/output/report.html")
    assert page.splitlines()[-1] == "/output/report.html"


def test_damage_is_found_by_its_code(run, replicas):
    segment = segments(replicas[1])[2]
    flip(segment, batches_in(segment)[3][0] + 70)
    assert "THE REPLICAS DO NOT AGREE" in run("audit", "/replicas", code=8)


def test_without_arguments_it_shows_the_commands(run, replicas):
    said = run()
    for command in ("export", "history", "audit", "report", "compact"):
        assert command in said
