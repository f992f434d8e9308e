"""Children end with the block that started them, and tools with their time or their caller."""

import asyncio
import os
import sys
import time

import pytest

from kraftquorum_bench.processes import Children, ToolError, run_tool
from proofkit.localquorum import eventually

SLEEP = [sys.executable, "-c", "import time; print('began', flush=True); time.sleep(600)"]


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_children_end_with_the_block_also_after_an_error(tmp_path):
    children = Children(tmp_path)

    def interrupted():
        with children:
            pids.append(children.start("sleeper", SLEEP).pid)
            assert lives(pids[0])
            raise KeyboardInterrupt

    pids = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not lives(pids[0])
    assert children.running == {}


def test_a_killed_child_can_be_started_again_and_its_output_stays(tmp_path):
    with Children(tmp_path) as children:
        children.start("printer", [sys.executable, "-c", "print('one')"]).wait()
        with pytest.raises(ValueError, match="printer runs already"):
            children.start("printer", SLEEP)
        children.kill("printer")
        children.kill("printer")
        children.start("printer", [sys.executable, "-c", "print('two')"]).wait()
        assert children.last_lines("printer") == "one\ntwo\n"
        assert children.last_lines("another") == ""


def test_a_child_that_ended_by_itself_is_an_error_with_its_words(tmp_path):
    with Children(tmp_path) as children:
        children.start("server", [sys.executable, "-c", "raise SystemExit('no port')"]).wait()
        with pytest.raises(ToolError, match="server exited with code 1: no port"):
            children.check_running()


@pytest.mark.without(
    "kraftquorum_bench.processes:Children.eventually", "self.check_running()", "pass"
)
async def test_waiting_ends_at_once_when_a_server_has_ended(tmp_path):
    async def look():
        raise OSError("refused")

    with Children(tmp_path) as children:
        children.start("server", [sys.executable, "-c", "raise SystemExit(3)"]).wait()
        began = time.monotonic()
        with pytest.raises(ToolError, match="exited with code 3"):
            await children.eventually(look, 8, "a leader")
        assert time.monotonic() - began < 6


async def test_waiting_says_what_it_saw_last(tmp_path):
    looks = iter([OSError("refused"), None])

    async def look():
        problem = next(looks, None)
        if problem:
            raise problem

    with (
        Children(tmp_path) as children,
        pytest.raises(ToolError, match=r"a leader: not within.*refused"),
    ):
        await children.eventually(look, 0.1, "a leader")


async def test_a_tool_gives_what_it_printed(tmp_path):
    command = [sys.executable, "-c", "print(input())"]
    assert await run_tool(command, timeout_s=60, cwd=tmp_path, stdin=b"said\n") == "said\n"


async def test_a_tool_that_fails_is_named_with_its_words(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('no endpoint')"]
    with pytest.raises(ToolError, match="exited with code 1: no endpoint"):
        await run_tool(command, timeout_s=60, cwd=tmp_path)


async def test_a_slow_tool_is_killed(tmp_path):
    program = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(ToolError, match="did not end within"):
        await run_tool([sys.executable, "-c", program], timeout_s=2, cwd=tmp_path)
    text = (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""
    assert not text or not lives(int(text))


async def test_a_tool_ends_with_its_caller(tmp_path):
    program = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    task = asyncio.get_running_loop().create_task(
        run_tool([sys.executable, "-c", program], timeout_s=600, cwd=tmp_path)
    )

    async def started():
        return int((tmp_path / "pid").read_text())

    pid = await eventually(started, what="the tool to start")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(pid)
