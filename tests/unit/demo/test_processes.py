"""The operator's process, played by small programs."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kraftquorum_demo.errors import DeadlineError, OperatorEndedError
from kraftquorum_demo.processes import OperatorProcess
from kraftquorum_devcluster.network import free_port
from kraftquorum_devcluster.processes import owned_pids
from kraftquorum_devcluster.processnode.context import NodeSettings

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

PAUSES = NodeSettings(backoff_reset_s=3600)
"""However long a busy machine takes to end a program, it counts as ended at once."""


class Played(OperatorProcess):
    """An operator whose program is given."""

    def __init__(self, tmp_path: Path, host: str, *command: str) -> None:
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


async def test_it_is_started_once_it_is_active_and_stopped(tmp_path, network):
    operator = Played(tmp_path, network.host(1), _ACTIVE_SERVER, "{host}", "{port}", "1")
    try:
        await operator.start(100)
    finally:
        await operator.stop()
    with pytest.raises(OperatorEndedError, match=r"was ended by SIGTERM; see .*operator\.log"):
        await operator.watch()


async def test_one_that_ends_at_once_is_told_with_its_exit_code(tmp_path, network):
    operator = Played(tmp_path, network.host(1), "raise SystemExit(3)")
    with pytest.raises(OperatorEndedError, match=r"exit code 3; see .*operator\.log"):
        await operator.start(100)


async def test_one_on_standby_is_not_active_in_time(tmp_path, network):
    operator = Played(tmp_path, network.host(1), _ACTIVE_SERVER, "{host}", "{port}", "0")
    try:
        with pytest.raises(DeadlineError, match="the operator is active"):
            await operator.start(1.5)
    finally:
        await operator.stop()


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(100):
        while not check():  # noqa: ASYNC110 - another process's state
            await asyncio.sleep(0.02)


@asynccontextmanager
async def kept_running(operator: OperatorProcess) -> AsyncIterator[list[str]]:
    """What is said while the operator is kept running."""
    said: list[str] = []
    try:
        await operator.start(100)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(operator.keep_running(said.append, PAUSES))
            yield said
            keeping.cancel()
    finally:
        await operator.stop()


def pid_of(tmp_path: Path) -> int:
    [pid] = owned_pids(str(tmp_path))
    return pid


async def test_a_killed_operator_is_restarted_and_the_demo_reports_it(tmp_path, network):
    operator = Played(tmp_path, network.host(1), _ACTIVE_SERVER, "{host}", "{port}", "1")
    async with kept_running(operator) as said:
        first = pid_of(tmp_path)
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(said) == 2)
        assert pid_of(tmp_path) != first
        os.kill(pid_of(tmp_path), signal.SIGTERM)
        await until(lambda: len(said) == 4)
    assert said[0].startswith("the operator was ended by SIGKILL after ")
    assert said[0].endswith("; it is restarted at once (restart 1)")
    assert said[1].startswith("the operator is active again, ")
    assert said[2].startswith("the operator was ended by SIGTERM after ")
    assert "(restart 2)" in said[2]
    assert operator.restarts == 2
    assert owned_pids(str(tmp_path)) == []


_ONCE = f"""
import pathlib, sys
mark = pathlib.Path(sys.argv[4])
if mark.exists():
    raise SystemExit(3)
mark.touch()
{_ACTIVE_SERVER}"""


async def test_one_that_ends_at_once_each_time_is_restarted_with_growing_pauses(tmp_path, network):
    mark = str(tmp_path / "mark")
    operator = Played(tmp_path, network.host(1), _ONCE, "{host}", "{port}", "1", mark)
    async with kept_running(operator) as said:
        os.kill(pid_of(tmp_path), signal.SIGKILL)
        await until(lambda: len(said) >= 4)
    pauses = [text.partition("; ")[2] for text in said[:4]]
    assert pauses == [
        "it is restarted at once (restart 1)",
        "it is restarted after a pause of 0.2 s (restart 2)",
        "it is restarted after a pause of 0.4 s (restart 3)",
        "it is restarted after a pause of 0.8 s (restart 4)",
    ]
    assert all("ended with exit code 3" in text for text in said[1:4])
    assert owned_pids(str(tmp_path)) == []


async def test_one_that_is_killed_before_it_is_active_is_restarted_again(tmp_path, network):
    operator = Played(tmp_path, network.host(1), _ACTIVE_SERVER, "{host}", "{port}", "1")
    async with kept_running(operator) as said:
        operator._played = (_ACTIVE_SERVER, "{host}", "{port}", "0")  # on standby for ever
        for restarts in (1, 2):
            before = pid_of(tmp_path)
            os.kill(before, signal.SIGKILL)
            await until(lambda: len(said) == restarts)  # noqa: B023 - awaited here
            await until(lambda: owned_pids(str(tmp_path)) not in ([], [before]))  # noqa: B023
    assert ["SIGKILL" in text for text in said] == [True, True]
    assert owned_pids(str(tmp_path)) == []
