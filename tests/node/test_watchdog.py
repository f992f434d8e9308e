"""A real process whose disk or loop makes no progress says so by its liveness, and ends itself."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import aiohttp
import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.errors import ExitCode

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("S35")]

LIMIT_MS = 6000


async def liveness(node: LocalNode) -> tuple[int, str]:
    url = f"http://{node.api}/healthz/live"
    timeout = aiohttp.ClientTimeout(total=2)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        body = await answer.json()
        return answer.status, body.get("reason") or body.get("message")


async def write_unheard(quorum: LocalQuorum) -> None:
    """Give the disk something to do; what becomes of it does not matter."""
    try:
        await quorum.client.put("any", b"thing", timeout_ms=500)
    except Exception:  # noqa: BLE001
        return


@pytest.mark.quorum_settings(RAFTNODE_STALL_TIMEOUT_MS=str(LIMIT_MS))
async def test_a_sync_that_hangs_is_told_by_liveness_and_then_ends_the_node(quorum: LocalQuorum):
    node = quorum.nodes[0]
    faults = node.make_faulty()
    await quorum.form(1)
    assert (await liveness(node))[0] == 200
    faults.hang("sync")
    await write_unheard(quorum)

    async def told() -> str | None:
        status, reason = await liveness(node)
        return reason if status == 503 else None

    assert "fdatasync of " in await eventually(told, what="liveness to fail")
    assert await asyncio.to_thread(node.wait) == ExitCode.STORAGE_STALLED
    message = json.loads(node.termination_message.read_text())
    assert message["reason"] == "STORAGE_STALLED"
    assert "fdatasync of " in message["message"]
    # It starts again as after a crash, and does not before its disk works.
    node.start()
    assert await asyncio.to_thread(node.wait) == ExitCode.STORAGE_STALLED
    faults.heal()
    node.start()
    await quorum.put("after", b"all")


@pytest.mark.quorum_settings(RAFTNODE_STALL_TIMEOUT_MS=str(LIMIT_MS))
async def test_a_loop_that_does_not_turn_ends_the_node(quorum: LocalQuorum):
    node = quorum.nodes[0]
    faults = node.make_faulty()
    await quorum.form(1)
    faults.hang("loop")
    assert await asyncio.to_thread(node.wait) == ExitCode.LOOP_STALLED
    assert json.loads(node.termination_message.read_text())["reason"] == "LOOP_STALLED"


@pytest.mark.extended
@pytest.mark.quorum_settings(RAFTNODE_STALL_TIMEOUT_MS=str(LIMIT_MS))
async def test_a_process_that_was_stopped_for_longer_than_the_limit_goes_on(quorum: LocalQuorum):
    node = quorum.nodes[0]
    faults = node.make_faulty()
    await quorum.form(1)
    faults.slow("sync", 2000)
    writing = asyncio.get_running_loop().create_task(quorum.put("key", b"value"))
    await asyncio.sleep(0.5)  # in the middle of a sync, most likely
    node.signal(signal.SIGSTOP)
    await asyncio.sleep(2 * LIMIT_MS / 1000)
    began = time.monotonic()
    node.signal(signal.SIGCONT)
    await writing
    await quorum.put("after", b"stop")
    assert node.process is not None
    assert node.process.poll() is None
    print(f"writes again {time.monotonic() - began:.1f} s after SIGCONT")  # noqa: T201
