"""Two runs of the tests on one machine, say of two checkouts, know nothing of each other."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

pytestmark = pytest.mark.timeout(300)
_SECOND = "KRAFTQUORUM_SECOND_RUN"


async def test_a_second_run_of_the_same_test_has_a_quorum_of_its_own(quorum, request):
    """The second run is this test again, while the first one's quorum serves."""
    await quorum.form(2)
    assert await quorum.client.get("of") is None, "this quorum is another run's"
    await quorum.put("of", b"this run")
    if _SECOND in os.environ:
        assert all(node.process.poll() is None for node in quorum.nodes[:2])
        return
    second = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        request.node.nodeid,
        cwd=request.config.rootpath,
        env=os.environ | {_SECOND: "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await second.communicate()
    assert second.returncode == 0, said.decode()
    await quorum.put("after", b"the second run")
