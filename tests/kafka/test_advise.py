"""`kraftquorum-operator kafka advise` on real controllers of Apache Kafka."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kraftquorum_operator.cli import app
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.exit_codes import AdviseExitCode
from kraftquorum_operator.kafka.look import Target, look
from kraftquorum_operator.kafka.security import Security
from proofkit.kafkacontroller import PORT, write_settings
from proofkit.kafkaquorum import START_S, KafkaQuorum
from proofkit.loopback import LoopbackNetwork
from raftnode.commands.storage import random_id

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

FIRST_HOST = 31
TLS_PORT = 9094
STORAGE = "kafka.tools.StorageTool"


def advise(*words: str) -> tuple[AdviseExitCode, str]:
    """Run the command; returns its exit code and all that it printed."""
    done = CliRunner().invoke(app, ["kafka", "advise", "--timeout-s", "60", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return AdviseExitCode(done.exit_code), done.output


def until(code: AdviseExitCode, text: str, *words: str) -> str:
    """Repeat the command until it ends so and prints the text; returns what it printed."""
    deadline, last = time.monotonic() + START_S, (AdviseExitCode.UNREACHABLE, "")
    while time.monotonic() < deadline:
        last = advise(*words)
        if last[0] is code and text in last[1]:
            return last[1]
        time.sleep(0.5)
    raise AssertionError(f"not in time; last: {last}")


def addresses(quorum: KafkaQuorum) -> str:
    return ",".join(f"{host}:{PORT}" for host in quorum.hosts)


@pytest.fixture(scope="module")
def quorum(
    kafka: Any, tmp_path_factory: pytest.TempPathFactory, session_network: LoopbackNetwork
) -> Iterator[KafkaQuorum]:
    hosts = [session_network.host(FIRST_HOST + number) for number in range(3)]
    directory_ids = [random_id() for _ in hosts]
    root = tmp_path_factory.mktemp("kafka-advise")
    with KafkaQuorum(root, hosts, kafka.command, random_id(), directory_ids, more="") as started:
        started.format()
        for number in range(3):
            started.start(number)
        yield started


def test_three_controllers_one_killed_and_its_directory_formatted_again(
    quorum: KafkaQuorum, kafka: Any
) -> None:
    where = ("--bootstrap", addresses(quorum))
    entries = [f"{number}@{host}:{PORT}" for number, host in enumerate(quorum.hosts)]
    exact = ",".join(f"{e}:{d}" for e, d in zip(entries, quorum.directory_ids, strict=True))
    printed = until(AdviseExitCode.SAFE, "nothing to do", *where, "--id-map", exact)
    assert "safe: 1 of 3 voters may be lost or replaced now" in printed
    assert f"cluster {quorum.cluster_id}" in printed
    assert "note:" not in printed

    code, printed = advise(*where, "--cluster-id", "other")
    assert code is AdviseExitCode.OTHER_CLUSTER
    assert f"belongs to cluster {quorum.cluster_id}" in printed

    swapped = f"1@{quorum.hosts[0]}:{PORT},0@{quorum.hosts[1]}:{PORT},{entries[2]}"
    code, printed = advise(*where, "--id-map", swapped)
    assert code is AdviseExitCode.ID_MAP_MISMATCH, printed

    view = asyncio.run(
        look(Target([Address(h, PORT) for h in quorum.hosts], {}, Security(), 60, 60))
    )
    dead = next(n for n in range(3) if n != view.confirmed_quorum.leader_id)
    quorum.kill(dead)
    printed = until(AdviseExitCode.AT_RISK, f"voter {dead}-{quorum.directory_ids[dead]}", *where)
    assert "cannot be reached" in printed

    shutil.rmtree(quorum.controllers[dead].root / "data")
    settings = str(quorum.controllers[dead].root / "controller.properties")
    arguments = ("-t", quorum.cluster_id, "-c", settings, "--no-initial-controllers")
    kafka.run(STORAGE, "format", *arguments)
    quorum.start(dead)
    old = f"{dead}-{quorum.directory_ids[dead]}"
    printed = until(AdviseExitCode.AT_RISK, "would replace a voter", *where, "--grace-s", "1")
    assert f"remove voter {old}, then add {dead}-" in printed


@contextmanager
def controller(kafka: Any, settings: Path, *format_arguments: str) -> Generator[None]:
    """A controller with these settings, formatted and started."""
    kafka.run(STORAGE, "format", "-t", random_id(), "-c", str(settings), *format_arguments)
    output = settings.parent / "controller.out"
    with output.open("wb") as out:
        command = kafka.command("kafka.Kafka", str(settings))
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield
    except AssertionError as error:
        error.add_note(output.read_text()[-2000:])
        raise
    finally:
        process.kill()
        process.wait()


def without_line(settings: Path, name: str, *more: str) -> Path:
    """The same file without a setting, and with others."""
    lines = [line for line in settings.read_text().splitlines() if not line.startswith(name)]
    settings.write_text("\n".join([*lines, *more, ""]))
    return settings


def static(root: Path, host: str) -> Path:
    voters = f"controller.quorum.voters=7@{host}:{PORT}"
    return without_line(write_settings(root, host), "controller.quorum.bootstrap", voters)


def combined(root: Path, host: str) -> Path:
    listener = f"BROKER://{host}:{TLS_PORT}"
    settings = without_line(
        without_line(write_settings(root, host), "process.roles"),
        "advertised.listeners",
        "process.roles=broker,controller",
        "inter.broker.listener.name=BROKER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT",
    )
    return without_line(settings, "listeners", f"listeners=CONTROLLER://{host}:{PORT},{listener}")


def without_records(root: Path, host: str) -> Path:
    return write_settings(root, host, "metadata.max.idle.interval.ms=0\n")


@pytest.mark.parametrize(
    ("make", "format_arguments", "code", "text"),
    [
        (static, (), AdviseExitCode.STATIC_QUORUM, "kraft.version is 0"),
        (combined, ("-s",), AdviseExitCode.COMBINED_MODE, "process.roles=broker,controller"),
        (
            without_records,
            ("-s",),
            AdviseExitCode.UNCONFIRMED,
            "metadata.max.idle.interval.ms is 0",
        ),
    ],
)
def test_a_quorum_that_cannot_be_judged(
    make: Callable[[Path, str], Path],
    format_arguments: tuple[str, ...],
    code: AdviseExitCode,
    text: str,
    kafka: Any,
    tmp_path: Path,
    network: LoopbackNetwork,
) -> None:
    host = network.host(1)
    with controller(kafka, make(tmp_path, host), *format_arguments):
        until(code, text, "--bootstrap", f"{host}:{PORT}", "--confirm-s", "2")
