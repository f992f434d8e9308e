"""The address that a connection counts for."""

from __future__ import annotations

import asyncio
from ipaddress import IPv6Address, IPv6Network, ip_address

_SUBNET_BITS = 64
"""A host may take any address of its IPv6 subnet, so the subnet counts as one address."""


def address_of(transport: asyncio.BaseTransport | None) -> str:
    """Return the IPv4 address or the IPv6 subnet that a connection came from.

    A listener for both families shows IPv4 addresses in IPv6 form: they are the same address. A
    link-local address has a scope, which does not count.
    """
    peer_name = transport.get_extra_info("peername") if transport is not None else None
    if not isinstance(peer_name, tuple):
        return ""
    host = str(peer_name[0]).partition("%")[0]  # pyright: ignore[reportUnknownArgumentType]
    if ":" not in host:
        return host
    address = ip_address(host)
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _SUBNET_BITS), strict=False))
