"""The path from a certificate to a CA: when its time is over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from raftnode.tls.certificates import Certificate


def accepted_until(chain: Sequence[Certificate], trusted: Sequence[Certificate]) -> dt.datetime:
    """When the other end begins to refuse a certificate for its time or that of a CA above it.

    Several CAs may have signed it, such as a CA and its renewal with the same key: the one that
    ends last counts. Without any of them, the certificates of the chain alone count.

    Args:
        chain: the certificate, then those between it and its CA.
        trusted: the CAs that may be its own; those of clients may be others.
    """
    end, ends = chain[0].not_after, list[dt.datetime]()
    for at, certificate in enumerate(chain):
        end = min(end, certificate.not_after)
        ends += [min(end, ca.not_after) for ca in trusted if _is_below(certificate, ca)]
        if not any(_is_below(certificate, above) for above in chain[at + 1 : at + 2]):
            break
    return max(ends, default=end)


def _is_below(certificate: Certificate, ca: Certificate) -> bool:
    """Whether a CA is the certificate itself, or has signed it."""
    from cryptography import x509  # noqa: PLC0415 - only for TLS, and large
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415

    if certificate.sha256 == ca.sha256:
        return True
    try:
        x509.load_der_x509_certificate(certificate.der).verify_directly_issued_by(
            x509.load_der_x509_certificate(ca.der)
        )
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True
