"""The mark `without` (tools/without.py): a test that does not miss its rule fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"

TESTS = """\
import asyncio

import pytest

from raftnode.core.config import CoreConfig
from proofkit.playbook import Playbook

HALF = ("core.config:CoreConfig.leader_timeout_ms", "* 3 // 2", "// 2")


@pytest.mark.without(*HALF)
def test_misses_it():
    assert CoreConfig().leader_timeout_ms == 3000


@pytest.mark.asyncio
@pytest.mark.without(*HALF)
async def test_waits_and_misses_it():
    await asyncio.sleep(0)
    assert CoreConfig().leader_timeout_ms == 3000


@pytest.mark.without(*HALF)
def test_does_not_miss_it():
    assert CoreConfig().leader_timeout_ms


@pytest.mark.without(HALF[0], "* 4", "")
def test_takes_out_what_is_not_there():
    assert CoreConfig().leader_timeout_ms == 3000


@pytest.mark.without(*HALF)
def test_is_broken():
    raise KeyError(CoreConfig().leader_timeout_ms)


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.without(*HALF)
@pytest.mark.without(HALF[0], "3", "5")
def test_is_run_with_all_of_its_own_parameters(times):
    assert CoreConfig().leader_timeout_ms * times == 3000 * times


@pytest.mark.without(*HALF)
def test_expects_an_error():
    with pytest.raises(ZeroDivisionError):
        assert 1 / (CoreConfig().leader_timeout_ms < 3000)


@pytest.mark.without(*HALF)
def test_says_that_it_failed():
    if CoreConfig().leader_timeout_ms < 3000:
        pytest.fail("too soon")


@pytest.mark.without(HALF[0], "* 3", "* 4", HALF[0], "// 2", "// 1")
def test_misses_all_texts_of_a_function_together():
    assert CoreConfig().leader_timeout_ms != 8000


@pytest.mark.without(
    "core.replication.fetcher:_is_idle", " and replica.log.durable_end >= replica.log.end", ""
)
def test_cannot_be_set_up():
    assert Playbook.formed("1", "2")


@pytest.mark.without("core.replica:Replica.persist", "state.epoch", "-1")
def test_ends_in_an_assertion_of_the_core():
    assert Playbook.formed("1", "2")
"""


def test_what_becomes_of_tests_that_are_run_without(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(TESTS)
    run = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", "--rootdir=."]
    run += ["-p", "without"]
    done = subprocess.run(
        run,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = {
        line.removeprefix("FAILED test_it.py::").partition(" - ")[0]
        for line in done.stdout.splitlines()
        if line.startswith("FAILED ")
    }
    without = "[without-CoreConfig.leader_timeout_ms]"
    assert failed == {
        f"test_does_not_miss_it{without}",
        f"test_takes_out_what_is_not_there{without}",
        "test_is_broken",
        f"test_is_broken{without}",
        "test_cannot_be_set_up[without-_is_idle]",
        "test_ends_in_an_assertion_of_the_core[without-Replica.persist]",
    }, done.stdout
    assert "6 failed, 20 passed" in done.stdout
    assert "no test misses" in done.stdout
    for place in ("proofkit/playbook/book.py", "Replica.persist"):
        assert f"{place} fails, and no test" in done.stdout
