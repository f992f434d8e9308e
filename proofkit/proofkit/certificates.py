"""Certificate authorities and certificates for tests: names, identities and times as a test wants.

The files have the names that a Secret of type `kubernetes.io/tls` has, one directory for each.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SPIFFE = "spiffe://kraftquorum/cluster"
"""Before `/<cluster id>/node/<node id>` and `/<cluster id>/client/<name>`."""

HOUR = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of a certificate, its key and its CA."""

    certificate: Path
    key: Path
    ca: Path

    def server_context(self, *, clients: Authority | None = None) -> ssl.SSLContext:
        """A server's context; with `clients` it requires a certificate of that CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients.pem.decode())
        return context


class Authority:
    """A certificate authority.

    Attributes:
        pem: its certificate.
    """

    def __init__(
        self,
        name: str = "test CA",
        *,
        valid_for: dt.timedelta = 24 * HOUR,
        above: Authority | None = None,
    ) -> None:
        """Make one that signs itself, or that the CA `above` signs; it may have expired."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._signer = above or self
        self.pem = b""
        self.renew(valid_for)

    def renew(self, valid_for: dt.timedelta = 24 * HOUR) -> None:
        """Make another certificate of the CA, with the previous key."""
        now = dt.datetime.now(dt.UTC)
        usage = x509.KeyUsage(
            digital_signature=True,
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
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._signer._name)  # noqa: SLF001 - of this class
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 24 * HOUR)
            .not_valid_after(now + valid_for)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._signer._key, hashes.SHA256())  # noqa: SLF001 - of this class
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        directory: Path,
        *,
        hosts: Sequence[str] = (),
        uris: Sequence[str] = (),
        common_name: str = "",
        valid_for: dt.timedelta = HOUR,
        valid_from: dt.timedelta = -HOUR,
        also_trusted: Sequence[Authority] = (),
    ) -> CertificateFiles:
        """Sign a certificate and replace the files of a directory.

        Args:
            directory: is made.
            hosts: DNS names and IP addresses.
            uris: identities.
            common_name: of the subject.
            valid_for: from now on; negative: it has expired.
            valid_from: counted from now.
            also_trusted: CAs that stand in `ca.crt` beside this one.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        names: list[x509.GeneralName] = [_general_name(host) for host in hosts]
        names += [x509.UniformResourceIdentifier(uri) for uri in uris]
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(attributes))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + min(valid_from, valid_for - HOUR / 60))
            .not_valid_after(now + valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(names), critical=not attributes
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        directory.mkdir(parents=True, exist_ok=True)
        files = CertificateFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
        replace_file(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        replace_file(
            files.key,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        replace_file(files.ca, b"".join(ca.pem for ca in (self, *also_trusted)))
        return files


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step, as the kubelet does, readable by its owner alone."""
    new = path.with_suffix(f"{path.suffix}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
