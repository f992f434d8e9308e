"""A quorum of Apache Kafka controllers on this machine, for comparisons with a quorum of ours.

What lives here: formatting, starting and killing controllers, and asking one for its
description. What must not: any expectation of what they answer. Needs Java and Kafka's jars.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from proofkit.kafkacontroller import PORT, Controller, write_settings

START_S = 240.0
"""For a start of all controllers; a busy machine takes a minute."""

Command = Callable[..., list[str]]
"""Makes the command line of a class of Kafka's, from its name and arguments."""


@dataclass(slots=True)
class KafkaQuorum:
    """Controllers 0 to n-1, each with a directory and an address of its own.

    Attributes:
        root: where the directories are.
        hosts: the controllers' addresses.
        command: makes command lines of Kafka's programs.
        cluster_id: of all of them.
        directory_ids: of those that vote from the beginning; the others observe.
        more: further settings of all controllers. Without the interval of 0 a controller writes a
            record every half second, and no two answers can be compared.
    """

    root: Path
    hosts: Sequence[str]
    command: Command
    cluster_id: str
    directory_ids: Sequence[str]
    more: str = "metadata.max.idle.interval.ms=0\n"
    controllers: list[Controller] = field(default_factory=list[Controller])
    processes: dict[int, subprocess.Popen[bytes]] = field(
        default_factory=dict[int, subprocess.Popen[bytes]]
    )

    def format(self) -> None:
        """Write all settings and format all directories."""
        voters = [
            f"{number}@{self.hosts[number]}:{PORT}:{directory_id}"
            for number, directory_id in enumerate(self.directory_ids)
        ]
        for number, host in enumerate(self.hosts):
            home = self.root / f"controller-{number}"
            home.mkdir()
            settings = write_settings(
                home,
                host,
                self.more,
                node_id=number,
                bootstrap=self.hosts[: len(voters)],
            )
            votes = number < len(voters)
            initial = ["--initial-controllers", ",".join(voters)]
            which = initial if votes else ["--no-initial-controllers"]
            self._format(settings, *which)
            run = self.command("kafka.Kafka", str(settings))
            self.controllers.append(Controller(run, home, host, self.cluster_id))

    def _format(self, settings: Path, *which: str) -> None:
        arguments = ("format", "-t", self.cluster_id, "-c", str(settings), *which)
        done = subprocess.run(
            self.command("kafka.tools.StorageTool", *arguments),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def replace_disk(self, number: int) -> None:
        """End one controller and give it an empty directory with a new id; it does not start."""
        self.kill(number)
        home = self.controllers[number].root
        shutil.rmtree(home / "data")
        self._format(home / "controller.properties", "--no-initial-controllers")

    def start(self, number: int) -> None:
        """Start one controller, without waiting for it."""
        controller = self.controllers[number]
        output = controller.root / "controller.out"
        with output.open("ab") as out:
            self.processes[number] = subprocess.Popen(
                controller.command, stdout=out, stderr=subprocess.STDOUT
            )

    def kill(self, number: int) -> None:
        """End one controller at once."""
        process = self.processes.pop(number, None)
        if process is not None:
            process.kill()
            process.wait()

    def describe(self, number: int) -> Any:
        """The answer of one controller to DescribeQuorum."""
        controller = self.controllers[number]
        with ExitStack() as stack:
            connection = socket.create_connection((controller.host, PORT), 20)
            controller.connection = stack.enter_context(connection)
            return controller.describe()

    def leader(self) -> int:
        """Wait for a leader that describes itself; return its number."""
        return int(self.until(lambda answer: answer.leader_id >= 0).leader_id)

    def until(self, is_so: Callable[[Any], bool]) -> Any:
        """Wait until a leader's description is as wanted twice in a row; return it."""
        deadline, last, before = time.monotonic() + START_S, None, None
        while time.monotonic() < deadline:
            for number, process in list(self.processes.items()):
                assert process.poll() is None, self._output(number)
                try:
                    last = self.describe(number)
                except OSError:
                    continue
                if last.error_code == 0 and last.leader_id == number:
                    place = (last.leader_epoch, last.high_watermark, is_so(last))
                    if place == before and is_so(last):
                        return last
                    before = place
            time.sleep(1)
        raise AssertionError(f"not in time; last: {last}")

    def _output(self, number: int) -> str:
        return (self.controllers[number].root / "controller.out").read_text()[-2000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in list(self.processes):
            if error is not None:
                error.add_note(f"--- controller {number}:\n{self._output(number)}")
            self.kill(number)
