"""The cluster's own certificate authority and the certificates it signs."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .paths import private_dir

_LIFETIME = dt.timedelta(days=365)
_BACKDATE = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Pki:
    """Files that the control plane is started with.

    Attributes:
        ca: Certificate authority.
        server: For every listener on this cluster's loopback addresses.
        kubelet_client: By which the API server proves itself to the node.
        service_account_key: Signs service-account tokens.
    """

    ca: KeyPair
    server: KeyPair
    kubelet_client: KeyPair
    service_account_key: Path


def create_pki(directory: Path, addresses: Sequence[str]) -> Pki:
    """Create all keys and certificates in ``directory``.

    Args:
        directory: Created for the owner only.
        addresses: Names and IP addresses of the server certificate.
    """
    private_dir(directory)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kraftquorum-devcluster")])
    ca_certificate = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA256())
    )

    def issue(name: str, *, organization: str, names: Sequence[str]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (
            _builder(subject, ca_name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False
            )
        return _write(directory, name, builder.sign(ca_key, hashes.SHA256()), key)

    service_account_key = directory / "service-account.key"
    _write_key(service_account_key, rsa.generate_private_key(65537, 2048))
    return Pki(
        ca=_write(directory, "ca", ca_certificate, ca_key),
        server=issue("server", organization="kraftquorum", names=addresses),
        kubelet_client=issue("apiserver", organization="system:masters", names=()),
        service_account_key=service_account_key,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(
    directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> KeyPair:
    pair = KeyPair(directory / f"{name}.crt", directory / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
