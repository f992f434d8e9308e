"""Addresses of a run of tests: two runs never have the same, and an orphan keeps its own."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys

import pytest

from proofkit.loopback import LoopbackNetwork, NoNetworkError, claim_loopback

ANOTHER_RUN = """
import sys
from proofkit.loopback import claim_loopback
with claim_loopback() as network:
    print(network.prefix, flush=True)
    sys.stdin.read()
"""


def test_two_runs_side_by_side_have_different_addresses(network: LoopbackNetwork):
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", ANOTHER_RUN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        found = {network.prefix}
        for run in runs:
            assert run.stdout is not None
            found.add(run.stdout.readline().strip())
        assert "" not in found
        assert len(found) == 3
    finally:
        for run in runs:
            run.communicate("", timeout=60)


def test_an_address_is_claimed_until_nothing_holds_it(network: LoopbackNetwork):
    with claim_loopback() as other:
        with pytest.raises(NoNetworkError, match="is free"):
            claim_loopback([network.prefix, other.prefix])
        prefix = other.prefix
    with claim_loopback([prefix]) as again:
        assert again.host(7) == f"{prefix}.7"


def test_an_orphan_that_listens_keeps_its_network():
    with contextlib.ExitStack() as stack:
        mine = stack.enter_context(claim_loopback())
        orphan = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[mine.claim.fileno()])
        stack.callback(orphan.communicate)
        mine.release()
        with pytest.raises(NoNetworkError):
            claim_loopback([mine.prefix])


def test_a_machine_without_such_addresses_says_so_at_once():
    with pytest.raises(NoNetworkError, match="Cannot assign requested address"):
        claim_loopback(["192.0.2", "192.0.2"])


def test_no_address_of_a_network_is_one_that_connections_leave_from(network: LoopbackNetwork):
    """A port of 127.0.0.1 that is free now may be a client's when a test binds it again."""
    with (
        socket.create_server((network.host(1), 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        assert client.getsockname()[0] != network.host(1)
