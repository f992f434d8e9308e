"""The tutorial, as it stands: every command that does not need kind."""

import os
import re
import subprocess
import time
from pathlib import Path

from kraftquorum_devcluster.binaries import ensure_binaries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "kind.md"
KIND = "<!-- only with kind -->"


def commands():
    """The blocks of commands, without those for kind."""
    blocks = re.findall(rf"({KIND}\n)?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [text for only, text in blocks if not only]


def test_tutorial(case, tmp_path):
    """The tutorial, command by command"""
    assert len(commands()) >= 6
    config = tmp_path / "kubeconfig"
    config.write_text(case.e2e_cluster.kubeconfig.read_text())
    environment = {
        **os.environ,
        "KUBECONFIG": str(config),
        "PATH": f"{ensure_binaries()}:{os.environ['PATH']}",
    }
    began = time.monotonic()
    script = "set -euxo pipefail\n" + "\n".join(commands())
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )
    finally:
        place = ("--namespace", "tutorial", "--ignore-not-found")
        if case.e2e_cluster.api.one("namespaces", "tutorial") is not None:
            case.e2e_cluster.kubectl("delete", "krq", "demo", *place, "--timeout=60s")
            case.e2e_cluster.kubectl("delete", "namespace", "tutorial", "--wait=false")
    case.figures.seconds = round(time.monotonic() - began, 1)
    case.figures.until = "its end"
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    said = done.stdout
    assert said.count("hello, world") >= 4, said
    assert re.search(r"AddVoter .*2-", said), said
    assert "Traceback" not in said + done.stderr
