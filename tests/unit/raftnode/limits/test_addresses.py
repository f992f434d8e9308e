"""The address that a connection counts for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftnode.limits.addresses import address_of


class Transport(asyncio.BaseTransport):
    def __init__(self, peer_name: object) -> None:
        super().__init__({"peername": peer_name})


@pytest.mark.parametrize(
    ("peer_name", "address"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3::4", 5, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::1", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        (None, ""),
        ("a socket's file", ""),
    ],
)
def test_a_subnet_counts_as_one_address(peer_name: Any, address: str) -> None:
    assert address_of(Transport(peer_name)) == address


def test_a_connection_that_has_ended_has_no_address() -> None:
    assert address_of(None) == ""
