"""The operator's process as the command starts it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "nowhere",
    "clusters": [{"name": "nowhere", "cluster": {"server": "http://127.0.0.1:9"}}],
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "reader"}}],
    "users": [{"name": "reader", "user": {"token": "unused"}}],
}


@pytest.mark.parametrize("allowed", [True, False])
def test_the_operator_forbids_core_dumps_or_says_that_it_cannot(
    tmp_path: Path, allowed: bool
) -> None:
    """A dump would have the key of each CA, and the tokens of all quorums."""
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(KUBECONFIG))
    code = f"""
import resource, sys
from kraftquorum_operator.cli import main

if not {allowed}:
    def refuse(*_): raise ValueError("not allowed to raise maximum limit")
    resource.setrlimit = refuse
main()
"""
    command = [
        sys.executable,
        "-c",
        code,
        "run",
        "--kubeconfig",
        str(config),
        "--metrics-port",
        "0",
    ]
    environment = os.environ | {"KRAFTQUORUM_LOG_FORMAT": "json", "KRAFTQUORUM_PAGE_PORT": "0"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as operator:
        try:
            assert operator.stderr is not None
            lines = []
            for line in operator.stderr:
                lines.append(json.loads(line))
                if lines[-1]["event"] == "startup_delayed":
                    break
            limits = resource.prlimit(operator.pid, resource.RLIMIT_CORE)
        finally:
            operator.kill()
    warned = [line for line in lines if line["event"] == "core_dumps_allowed"]
    if allowed:
        assert (limits, warned) == ((1, 1), [])
    else:
        assert warned[0]["problem"].startswith("not allowed to raise maximum limit; the limit is ")
