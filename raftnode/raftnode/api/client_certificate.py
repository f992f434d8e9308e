"""The names in a client's certificate, which TLS has verified."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple


class CertificateNames(NamedTuple):
    """What a certificate says of its owner."""

    uri_names: tuple[str, ...] = ()
    common_names: tuple[str, ...] = ()


NO_CERTIFICATE = CertificateNames()


def names_of(transport: asyncio.BaseTransport | None) -> CertificateNames:
    """Return the URI names and common names in the certificate of a connection's client.

    Empty: no TLS, or no certificate. Python gives the fields of a certificate only if its chain
    was verified.
    """
    certificate: Any = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return NO_CERTIFICATE
    alternatives: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())
    parts: Iterable[Iterable[tuple[str, str]]] = certificate.get("subject", ())
    return CertificateNames(
        tuple(name for kind, name in alternatives if kind == "URI"),
        tuple(name for part in parts for kind, name in part if kind == "commonName"),
    )
