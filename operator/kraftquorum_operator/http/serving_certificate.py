"""The certificate that the operator serves its metrics with: from files, or made by itself.

Files are read again every `CHECK_S`, so that a renewed Secret is used without a restart. Files that
cannot be used leave the last good certificate in place. A certificate of the operator's own has no
authority: a reader trusts it only by not checking it, and the token still decides who may read.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.model.certificate_files import CertificateFiles

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

CHECK_S = 30.0
LIFETIME_S = 7 * 86_400.0
"""Of a certificate of the operator's own; it makes the next one when half of it is over."""
BACKDATED = timedelta(minutes=5)
"""For readers whose clock is behind."""


class ServingCertificate:
    """A context for a TLS server, whose certificate is kept up to date.

    Call `check` every `CHECK_S`, or run `keep`.
    """

    def __init__(
        self,
        name: str,
        files: CertificateFiles | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Load or make the first certificate.

        Args:
            name: of this operator, for a certificate of its own.
            files: None: the operator makes certificates of its own.
            clock: the wall clock.

        Raises:
            SettingsError: the files cannot be used.
        """
        self._name = name
        self._files = files
        self._clock = clock
        self._pem = b""
        self._next_s = 0.0
        self.context = _new_context()
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                "KRAFTQUORUM_METRICS_CERTIFICATE_FILE and KRAFTQUORUM_METRICS_KEY_FILE: "
                f"{_explain(error)}"
            ) from error

    def check(self) -> None:
        """Take a changed certificate from the files, or make a new one when it is time."""
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            log.warning("certificate_not_reloaded", why=_explain(error))

    async def keep(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            await asyncio.to_thread(self.check)

    def _load(self) -> None:
        if self._files is not None:
            pem = self._files.certificate.read_bytes() + b"\n" + self._files.key.read_bytes()
            if pem == self._pem:
                return
        else:
            if self._clock() < self._next_s:
                return
            pem = _self_signed(self._name, datetime.fromtimestamp(self._clock(), UTC))
        # A context that is in use must not be left with half of a pair.
        for context in (_new_context(), self.context):
            with _loadable(pem) as path:
                context.load_cert_chain(path)
        if self._pem:
            log.info("certificate_reloaded", what="metrics")
        self._pem = pem
        self._next_s = self._clock() + LIFETIME_S / 2


def _explain(error: OSError | ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"they hold no certificate with its key: {error.reason or error}"
    return str(error)


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@contextmanager
def _loadable(pem: bytes) -> Generator[str]:
    """A path to read the certificate and its key from, on no disk where the system allows that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        path, in_memory = f"/proc/self/fd/{descriptor}", True
    else:
        descriptor, path = tempfile.mkstemp()
        in_memory = False
    try:
        os.write(descriptor, pem)
        yield path
    finally:
        os.close(descriptor)
        if not in_memory:
            Path(path).unlink()


def _self_signed(name: str, now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(seconds=LIFETIME_S))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name[:64])]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + private
