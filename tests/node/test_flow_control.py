"""A leader whose voters do not keep up refuses writes; clients wait, and nothing is written twice."""

import asyncio
import functools
import signal
from collections import Counter

import aiohttp
import pytest

from proofkit.localquorum import LocalQuorum

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]

LIMIT = 2048
SETTINGS = {
    "RAFTNODE_MAX_UNCOMMITTED_BYTES": str(LIMIT),
    "RAFTNODE_MAX_BATCH_BYTES": "1024",
    "RAFTNODE_RECORD_MAX_BYTES": "1024",
    "RAFTNODE_FETCH_TIMEOUT_MS": "20000",  # it leads on while the others stand still
}


@pytest.mark.quorum_settings(**SETTINGS)
async def test_writes_beyond_the_limit_are_refused_and_done_once_when_voters_catch_up(
    quorum: LocalQuorum,
):
    await quorum.form(3)
    leader = await quorum.leader()
    others = [node for node in quorum.nodes[:3] if node is not leader]
    for node in others:
        node.signal(signal.SIGSTOP)
    async with aiohttp.ClientSession(f"http://{leader.api}") as session:

        async def gauge() -> int:
            async with session.get("/metrics") as response:
                text = await response.text()
            [line] = [one for one in text.splitlines() if one.startswith("raftnode_uncommitted_b")]
            return int(float(line.split()[1]))

        put = functools.partial(quorum.client.put, timeout_ms=60_000)
        async with asyncio.TaskGroup() as group:
            try:
                for number in range(8):
                    group.create_task(put(f"key-{number}", b"x" * 700))
                async with asyncio.timeout(25):
                    while await gauge() == 0:  # noqa: ASYNC110 - another process's number
                        await asyncio.sleep(0.05)
                    await asyncio.sleep(0.5)
                async with session.put("/v1/kv/refused", data=b"y" * 900) as response:
                    said = await response.json()
                    assert (response.status, said["error"]) == (429, "TOO_MUCH_UNCOMMITTED")
                    assert said["outcome"] == "not_done"
                assert 0 < await gauge() <= LIMIT
            finally:
                for node in others:
                    node.signal(signal.SIGCONT)
        async with session.get("/v1/log", params={"max_bytes": 1 << 20}) as response:
            records = (await response.json())["records"]
    written = Counter(record["key"] for record in records if record.get("key") is not None)
    assert len(written) == 8
    assert set(written.values()) == {1}
