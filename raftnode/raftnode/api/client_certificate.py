"""What a client's certificate says, which TLS has verified when the connection began."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple


class CertificateNames(NamedTuple):
    """What a certificate says of its owner, and the Unix time at which it ends."""

    uri_names: tuple[str, ...] = ()
    common_names: tuple[str, ...] = ()
    expires_s: float | None = None


NO_CERTIFICATE = CertificateNames()


def names_of(transport: asyncio.BaseTransport | None) -> CertificateNames:
    """Return the names and the end of the certificate of a connection's client.

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
        _unix_time(certificate["notAfter"]),
    )


def chain_of(transport: asyncio.BaseTransport) -> frozenset[str]:
    """Return the certificates by which TLS verified a connection's client, with that of the CA.

    Each is the SHA-256 of its DER form, in lower-case hexadecimal. Empty: no TLS, or the client
    has no certificate.
    """
    if not transport.get_extra_info("peercert"):
        return frozenset()
    ssl_object: Any = transport.get_extra_info("ssl_object")
    if hasattr(ssl_object, "get_verified_chain"):  # from Python 3.13 on
        chain: list[bytes] = ssl_object.get_verified_chain()
    else:
        verified = ssl_object._sslobj.get_verified_chain()  # noqa: SLF001 - public from 3.13 on
        chain = [ssl.PEM_cert_to_DER_cert(part.public_bytes()) for part in verified]
    return frozenset(hashlib.sha256(part).hexdigest() for part in chain)


@lru_cache(256)
def _unix_time(text: str) -> float:
    return float(ssl.cert_time_to_seconds(text))
