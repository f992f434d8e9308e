"""The operator's process, played by small programs."""

import os
import sys
from pathlib import Path

import pytest

from kraftquorum_devcluster.demo.errors import DeadlineError, OperatorEndedError
from kraftquorum_devcluster.demo.processes import OperatorProcess
from kraftquorum_devcluster.network import free_port

_ACTIVE_SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"kraftquorum_operator_active %s\\n" % sys.argv[3].encode())
    def log_message(self, *_): pass
http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


class Played(OperatorProcess):
    """An operator whose program is given."""

    def __init__(self, tmp_path: Path, *command: str) -> None:
        # An address of this process, so that nobody takes the port before the program has it.
        host = f"127.75.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        self.port = free_port(host, 19180)
        super().__init__(
            tmp_path / "kubeconfig",
            tmp_path / "operator.log",
            str(tmp_path),
            (host, self.port),
        )
        self._host, self._played = host, command

    @property
    def command(self) -> list[str]:
        return [
            sys.executable,
            "-c",
            *(part.format(host=self._host, port=self.port) for part in self._played),
        ]


def test_the_command_is_what_a_user_would_type(tmp_path):
    operator = OperatorProcess(tmp_path / "kubeconfig", tmp_path / "log", "me", ("127.0.0.1", 9180))
    program, *arguments = operator.command
    assert Path(program).name == "kraftquorum-operator"
    assert arguments == [
        "run",
        "--kubeconfig",
        str(tmp_path / "kubeconfig"),
        "--metrics-port",
        "9180",
    ]
    assert operator.metrics_url == "http://127.0.0.1:9180/metrics"


async def test_it_is_started_once_it_is_active_and_stopped(tmp_path):
    operator = Played(tmp_path, _ACTIVE_SERVER, "{host}", "{port}", "1")
    try:
        await operator.start(100)
    finally:
        await operator.stop()
    with pytest.raises(OperatorEndedError, match="exit code -15"):
        await operator.watch()


async def test_one_that_ends_at_once_is_told_with_its_exit_code(tmp_path):
    operator = Played(tmp_path, "raise SystemExit(3)")
    with pytest.raises(OperatorEndedError, match=r"exit code 3; see .*operator\.log"):
        await operator.start(100)


async def test_one_on_standby_is_not_active_in_time(tmp_path):
    operator = Played(tmp_path, _ACTIVE_SERVER, "{host}", "{port}", "0")
    try:
        with pytest.raises(DeadlineError, match="the operator is active"):
            await operator.start(1.5)
    finally:
        await operator.stop()
