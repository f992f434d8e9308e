"""Makes CAs and signs certificates. Keys are ECDSA P-256, as in Kubernetes' own certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(minutes=5)
"""For machines whose clock is behind."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Without the key."""
        return "Pair(…)"


@dataclass(frozen=True, slots=True)
class LeafNames:
    """What a certificate is for.

    Attributes:
        common_name: for people.
        uris: the identity.
        hosts: DNS names and IP addresses.
    """

    common_name: str
    uris: frozenset[str]
    hosts: frozenset[str] = frozenset()


def make_authority(name: str, lifetime_s: int, now_s: float) -> Pair:
    """Make a CA.

    Args:
        name: for people.
        lifetime_s: from now on.
        now_s: the wall clock.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(key, lifetime_s, now_s)
        .subject_name(subject)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def issue_leaf(authority: Pair, leaf: LeafNames, lifetime_s: int, now_s: float) -> Pair:
    """Sign a certificate for both sides of a connection; it never outlives its CA.

    Args:
        authority: the CA, with its key.
        leaf: what it is for.
        lifetime_s: from now on.
        now_s: the wall clock.
    """
    ca = x509.load_pem_x509_certificate(authority.certificate)
    ca_key = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - `make_authority` made it
    key = ec.generate_private_key(ec.SECP256R1())
    left_s = int(ca.not_valid_after_utc.timestamp() - now_s)
    sans = [x509.UniformResourceIdentifier(uri) for uri in sorted(leaf.uris)]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(key, min(lifetime_s, left_s), now_s)
        .subject_name(_name(leaf.common_name))
        .issuer_name(ca.subject)
        .add_extension(x509.SubjectAlternativeName([*sans, *_hosts(leaf.hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _builder(
    key: ec.EllipticCurvePrivateKey, lifetime_s: int, now_s: float
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(int(now_s), UTC)
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(seconds=max(1, lifetime_s)))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _hosts(hosts: Iterable[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in sorted(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)
