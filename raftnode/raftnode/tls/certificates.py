"""Reads certificates from PEM, as far as a node checks and shows them."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says.

    Attributes:
        sha256: its fingerprint, in lower-case hexadecimal.
        serial: its serial number, in lower-case hexadecimal.
        not_before: from when on it is valid.
        not_after: until when it is valid.
        uri_names: its subject alternative names of type URI.
        dns_names: those of type DNS.
        ip_addresses: those of type IP address.
        common_name: of its subject; empty: it has none.
        is_ca: whether it may sign certificates.
        authority: SHA-256 of its subject and its key, in lower-case hexadecimal. A CA that is
            renewed with its key has the same: what it signed before stays valid.
        der: the certificate itself.
    """

    sha256: str
    serial: str
    not_before: dt.datetime
    not_after: dt.datetime
    uri_names: tuple[str, ...]
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...]
    common_name: str
    is_ca: bool
    authority: str
    der: bytes = field(repr=False)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Read all certificates of a file.

    Raises:
        ValueError: there is none, or one is malformed.
    """
    from cryptography import x509  # noqa: PLC0415 - only for TLS, and large

    try:
        return tuple(map(_read, x509.load_pem_x509_certificates(pem)))
    except (
        TypeError,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        # Not ValueErrors, though they are about the certificate's content.
        raise ValueError(str(error)) from None


def _read(certificate: x509.Certificate) -> Certificate:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    try:
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        limits = None
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        sha256=certificate.fingerprint(hashes.SHA256()).hex(),
        serial=f"{certificate.serial_number:x}",
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        uri_names=tuple(names.get_values_for_type(x509.UniformResourceIdentifier) if names else ()),
        dns_names=tuple(names.get_values_for_type(x509.DNSName) if names else ()),
        ip_addresses=tuple(
            str(address) for address in (names.get_values_for_type(x509.IPAddress) if names else ())
        ),
        common_name=str(common[0].value) if common else "",
        is_ca=limits is not None and limits.ca,
        authority=_authority(certificate),
        der=certificate.public_bytes(serialization.Encoding.DER),
    )


def authorities_of(chain: Iterable[bytes]) -> frozenset[str]:
    """The field `authority` of each certificate of a chain; all in DER form."""
    return frozenset(map(_authority_of_der, chain))


def _authority_of_der(data: bytes) -> str:
    from cryptography import x509  # noqa: PLC0415

    try:
        return _authority(x509.load_der_x509_certificate(data))
    except (ValueError, TypeError, x509.InvalidVersion):
        # OpenSSL has accepted it. It is no CA of the node, whose files would have been refused.
        return hashlib.sha256(data).hexdigest()


def _authority(certificate: x509.Certificate) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415

    try:
        key = certificate.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    except (UnsupportedAlgorithm, ValueError):
        # OpenSSL may know a key that Python does not.
        key = certificate.fingerprint(hashes.SHA256())
    return hashlib.sha256(certificate.subject.public_bytes() + key).hexdigest()
