"""The path from a certificate to a CA: when its time is over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from raftnode.tls.certificates import Certificate


def accepted_until(chain: Sequence[Certificate], trusted: Sequence[Certificate]) -> dt.datetime:
    """When the other end begins to refuse a certificate for its time or that of a CA above it.

    Several CAs may have signed it, such as a CA and its renewal with the same key: the path that
    ends last counts. Without any of them, the paths within the chain alone count.

    Args:
        chain: the certificate, then those between it and its CA, in any order, as OpenSSL takes
            them.
        trusted: the CAs that may be its own; those of clients may be others.
    """
    reached = _reached(chain)
    ends = [
        min(end, ca.not_after)
        for certificate, end in reached.items()
        for ca in trusted
        if _is_below(certificate, ca)
    ]
    tops = [end for certificate, end in reached.items() if _is_top(certificate, chain)]
    # CAs that signed each other have no top.
    return max(ends or tops or reached.values())


def _reached(chain: Sequence[Certificate]) -> dict[Certificate, dt.datetime]:
    """The certificates on paths from the first, each with the end of the path that ends last."""
    reached = {chain[0]: chain[0].not_after}
    waiting = [chain[0]]
    while waiting:
        certificate = waiting.pop()
        for above in chain:
            end = min(reached[certificate], above.not_after)
            is_later = above not in reached or end > reached[above]
            if is_later and _is_below(certificate, above):
                reached[above] = end
                waiting.append(above)
    return reached


def _is_top(certificate: Certificate, chain: Sequence[Certificate]) -> bool:
    """Whether the chain has no other CA above it; a renewal of the same CA is no other."""
    return not any(
        above.authority != certificate.authority and _is_below(certificate, above)
        for above in chain
    )


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
