"""What a client's certificate says, which TLS has verified when the connection began."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from raftnode.tls.certificates import authorities_of


class CertificateNames(NamedTuple):
    """What a certificate says of its owner, and the Unix time at which it ends."""

    uri_names: tuple[str, ...] = ()
    common_names: tuple[str, ...] = ()
    expires_s: float | None = None


NO_CERTIFICATE = CertificateNames()


class ClientCertificate(NamedTuple):
    """A client's certificate, as TLS verified it when the connection began.

    Attributes:
        verified_by: the field `Certificate.authority` of it, of those between it and the CA, and
            of the CA.
        expires_s: the Unix time at which it ends.
    """

    verified_by: frozenset[str]
    expires_s: float


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


def certificate_of(transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Return the certificate of a connection's client; None: no TLS, or it has none."""
    certificate: Any = transport.get_extra_info("peercert")
    if not certificate:
        return None
    ssl_object: Any = transport.get_extra_info("ssl_object")
    if hasattr(ssl_object, "get_verified_chain"):  # from Python 3.13 on
        chain: list[bytes] = ssl_object.get_verified_chain()
    else:
        verified = ssl_object._sslobj.get_verified_chain()  # noqa: SLF001 - public from 3.13 on
        chain = [ssl.PEM_cert_to_DER_cert(part.public_bytes()) for part in verified]
    return ClientCertificate(authorities_of(chain), _unix_time(certificate["notAfter"]))


@lru_cache(256)
def _unix_time(text: str) -> float:
    return float(ssl.cert_time_to_seconds(text))
