"""Fixtures for all tests."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings

from proofkit.loopback import LoopbackNetwork, claim_loopback

pytest_plugins = ["kraftquorum_devcluster.pytest_plugin", "without"]

# A commit passes or fails alike each time; `make nightly` draws other examples. How long an
# example takes says how busy the machine is, and nothing of what is tested. A test fails by its
# simplest failure: a group of several is no AssertionError.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, report_multiple_bugs=False
)
settings.register_profile("search", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def loop_that_pytest_asyncio_finds() -> Iterator[None]:
    """Before its first test pytest-asyncio asks for the current loop, and never closes the one
    that asyncio then makes; some later test would fail with its ResourceWarning."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()


@pytest.fixture
def network() -> Iterator[LoopbackNetwork]:
    """Loopback addresses that no other test has, of this run nor of another's."""
    with claim_loopback() as claimed:
        yield claimed


@pytest.fixture(scope="session")
def session_network() -> Iterator[LoopbackNetwork]:
    """Likewise, for all of a session."""
    with claim_loopback() as claimed:
        yield claimed
