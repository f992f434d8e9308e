"""A node starts without the command line's libraries, and takes the same arguments as with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftnode.errors import ExitCode
from raftnode.plain_start import plain_options
from raftnode.settings import NodeSettings

PLAIN = "plain_start:plain_options"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What `raftnode run` says, with a list of some modules behind it on stderr."""
    code = (
        "import sys\nfrom raftnode.cli import main\n"
        "try:\n main()\nfinally:\n"
        " print([name for name in ('typer', 'pygments') if sys.modules.get(name)], file=sys.stderr)\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAFTNODE_")}
    return subprocess.run(
        [sys.executable, "-c", code, "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean,
    )


def test_every_setting_is_an_option_in_both_spellings():
    for name in ("config", *NodeSettings.model_fields):
        option = f"--{name.replace('_', '-')}"
        assert plain_options([option, "a=b"]) == {name: "a=b"}
        assert plain_options([f"{option}=-1"]) == {name: "-1"}
        assert plain_options([f"{option}="]) == {name: ""}
    assert plain_options([]) == {}
    assert plain_options(["--node-id", "1", "--node-id", "2"]) == {"node_id": "2"}


@pytest.mark.without(
    PLAIN, "if option not in options:", "if not options.setdefault(option, option):"
)
@pytest.mark.without(PLAIN, 'value.startswith("-")', 'value.startswith("--help")')
def test_whatever_else_is_left_to_the_command_line():
    for arguments in (
        ["--help"],
        ["-h"],
        ["--node-id"],
        ["--node-id", "--log-dir", "/data"],
        ["--nodeid", "1"],
        ["--nodeid=1"],
        ["1"],
        ["--", "1"],
    ):
        assert plain_options(arguments) is None


def test_wrong_settings_are_reported_alike_with_and_without_the_command_line(tmp_path: Path):
    wrong = ("--node-id", "-x", "--log-dir", str(tmp_path))
    full, plain = _run(*wrong), _run("--node-id=-x", *wrong[2:])
    assert full.returncode == plain.returncode == ExitCode.USAGE
    assert full.stderr.splitlines()[0] == plain.stderr.splitlines()[0]
    assert plain.stderr.startswith("raftnode: node_id: ")
    assert full.stderr.splitlines()[-1] == "['typer']"
    assert plain.stderr.splitlines()[-1] == "[]"


def test_a_properties_file_is_read_without_the_command_line(tmp_path: Path):
    file = tmp_path / "node.properties"
    file.write_text(f"node.id=1\nlog.dir={tmp_path / 'gone'}\n")
    done = _run("--config", str(file))
    assert done.returncode not in {0, 1}
    assert "gone" in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_help_is_the_command_lines():
    shown = _run("--help")
    assert shown.returncode == 0
    assert "--node-id" in shown.stdout
