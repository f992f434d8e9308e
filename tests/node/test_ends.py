"""How a process ends: the exit code and the termination message say why, whatever happens."""

import asyncio
import json
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from proofkit.localquorum import API_PORT, LocalNode, LocalQuorum
from raftnode.errors import ExitCode

pytestmark = pytest.mark.timeout(300)


async def end_of(node: LocalNode) -> tuple[int, str]:
    """The exit code, and the message with its reason checked against the code."""
    code = await asyncio.to_thread(node.wait)
    message = json.loads(node.termination_message.read_text())
    assert message["reason"] == ExitCode(code).name
    return code, message["message"]


async def write_until_it_ends(quorum: LocalQuorum, node: LocalNode, size: int) -> int:
    """Write on until the only voter ends; how many writes were acknowledged."""
    kept = 0
    assert node.process is not None
    while node.process.poll() is None and kept < 5000:
        try:
            await quorum.client.put(f"more-{kept}", bytes(size), timeout_ms=30_000)
        except Exception:  # noqa: BLE001 - the last one, whatever it is told, or a slow one
            await asyncio.sleep(0.5)
        else:
            kept += 1
    return kept


def command(*words: str) -> int:
    return subprocess.run(words, check=False, capture_output=True).returncode


def open_files_limits(pid: int) -> tuple[int, int]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("Max open files")]
    soft, hard = (int(word) if word.isdecimal() else 1 << 30 for word in line.split()[3:5])
    return soft, hard


async def test_a_second_signal_does_not_spoil_a_clean_end(quorum):
    await quorum.form(1)
    node = quorum.nodes[0]
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        node.signal(number)
        await asyncio.sleep(0.01)
    assert await end_of(node) == (ExitCode.OK, "stopped on request")


async def test_a_port_that_is_taken_is_named(quorum):
    node = quorum.nodes[0]
    with socket.create_server((node.host, API_PORT)):
        node.start()
        code, message = await end_of(node)
    assert code == ExitCode.USAGE
    assert "api_listen" in message


async def test_a_directory_in_use_is_left_alone(quorum):
    await quorum.form(1)
    first, second = quorum.nodes[0], quorum.nodes[1]
    second.environment["RAFTNODE_LOG_DIR"] = str(first.directory)
    second.start()
    code, message = await end_of(second)
    assert code == ExitCode.STORAGE_LOCKED
    assert str(first.directory) in message
    await quorum.client.put("still", b"served")


async def test_a_fault_of_the_program_is_told_too(quorum, tmp_path):
    """Here: a termination message for an unforeseen error, through a module put in between."""
    node = quorum.nodes[0]
    (tmp_path / "sitecustomize.py").write_text(
        "import raftnode.runtime.writes.applier as module\n"
        "async def run(self):\n"
        "    raise LookupError('unforeseen')\n"
        "module.Applier.run = run\n"
    )
    node.environment["PYTHONPATH"] = str(tmp_path)
    node.start()
    assert await end_of(node) == (ExitCode.UNEXPECTED, "LookupError: unforeseen")


async def test_clients_cannot_use_up_the_descriptors(quorum):
    """A node without descriptors would take its disk for lost and ask to be replaced."""
    await quorum.form(1)
    node = quorum.nodes[0]
    assert node.process is not None
    if not Path("/proc/self/limits").exists():  # noqa: ASYNC240
        pytest.skip("needs /proc to see the limit of another process")
    soft, hard = open_files_limits(node.process.pid)
    assert soft >= min(hard, 16_384)


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
async def test_a_full_disk_ends_the_node_and_more_room_brings_it_back(tmp_path, network):
    directory = tmp_path / "node-0"
    directory.mkdir()
    if command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)):
        pytest.skip("may not mount")
    try:
        settings = {"RAFTNODE_DISK_RESERVE_BYTES": "0"}
        async with LocalQuorum(tmp_path, 1, network, settings) as quorum:
            await quorum.form(1)
            [node] = quorum.nodes
            kept = await write_until_it_ends(quorum, node, 500_000)
            code, message = await end_of(node)
            assert code == ExitCode.STORAGE_FULL
            assert "No space left" in message
            assert kept > 5
            assert not command("mount", "-o", "remount,size=64m", str(directory))
            node.start()
            await quorum.leader()
            for number in range(kept):
                assert await quorum.client.get(f"more-{number}") is not None
            await quorum.client.put("after", b"all")
            node.kill()
    finally:
        command("umount", "-l", str(directory))


@pytest.mark.extended
async def test_a_long_pause_ends_nothing(quorum):
    """Connections die meanwhile, at both ends and in the middle of frames."""
    await quorum.form(3)
    for _ in range(2):
        leader = await quorum.leader()
        leader.signal(signal.SIGSTOP)
        await asyncio.sleep(4)
        leader.signal(signal.SIGCONT)
        # It may take a write before it hears of its successor: unknown is honest.
        await quorum.put("after", b"pause")
    await asyncio.sleep(1)
    for node in quorum.nodes[:3]:
        assert node.process is not None
        assert node.process.poll() is None
