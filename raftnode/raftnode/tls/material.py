"""Certificate, key and CA of a listener: from their files, checked, and as TLS contexts."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from raftnode.errors import ConfigurationError
from raftnode.small_files import read_small_file
from raftnode.tls.certificates import Certificate, read_certificates
from raftnode.tls.names import NodeName, node_names
from raftnode.tls.paths import accepted_until
from raftnode.tls.self_check import shake_hands

PEM_BYTES_MAX = 1 << 20

ListenerName = Literal["peer", "api"]
Mode = Literal["disabled", "permissive", "required"]
ClientCertificates = Literal["none", "optional", "required"]


class TlsError(ConfigurationError):
    """Files that a listener cannot use; the message names the setting, the file and what to do."""


@dataclass(frozen=True, slots=True)
class TlsRules:
    """What the files of a listener must be.

    Attributes:
        listener: whose; its name begins the names of its settings.
        mode: whether the listener also accepts plain connections.
        certificate_file: PEM, the certificate first, then those between it and the CA.
        key_file: PEM, without a password.
        ca_file: PEM, the CAs of the other end; None: no certificate is asked for.
        client_certificates: whether a client must have a certificate.
        min_version: the lowest version of TLS.
        node_id: of this node.
        cluster_id: of this node; None: it has none yet.
    """

    listener: ListenerName
    mode: Mode
    certificate_file: Path
    key_file: Path
    ca_file: Path | None
    client_certificates: ClientCertificates
    min_version: Literal["1.2", "1.3"]
    node_id: int
    cluster_id: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        ca = () if self.ca_file is None else (self.ca_file,)
        return (self.certificate_file, self.key_file, *ca)

    def setting(self, file: Literal["certificate", "key", "ca"]) -> str:
        """The setting of a file and its value, for messages."""
        path = {"certificate": self.certificate_file, "key": self.key_file, "ca": self.ca_file}
        return f"{self.listener}_tls_{file}_file {path[file]}"


@dataclass(frozen=True, slots=True)
class Material:
    """What new connections of a listener use.

    Attributes:
        certificate: this node's.
        chain: the certificates between it and the CA.
        trusted: the CAs of the other end.
        names: the names of this node in the certificate.
        accepted_until: when other ends begin to refuse the certificate: it or a CA above it ends.
        server: for accepted connections.
        client: for connections to peers.
    """

    certificate: Certificate
    chain: tuple[Certificate, ...]
    trusted: tuple[Certificate, ...]
    names: tuple[NodeName, ...]
    accepted_until: dt.datetime
    server: ssl.SSLContext
    client: ssl.SSLContext

    def seconds_left(self, now: dt.datetime) -> float:
        """How long other ends still accept this node's certificate."""
        return (self.accepted_until - now).total_seconds()

    @property
    def lifetime_s(self) -> float:
        """From the begin to the end of its validity."""
        return (self.certificate.not_after - self.certificate.not_before).total_seconds()

    @property
    def clusters(self) -> frozenset[str]:
        """The clusters that this node's certificate names."""
        return frozenset(name.cluster_id for name in self.names)

    def is_like(self, other: Material) -> bool:
        """Whether both have the same certificates and the same CAs."""
        return (self.certificate, self.chain, self.trusted) == (
            other.certificate,
            other.chain,
            other.trusted,
        )


def load_material(rules: TlsRules) -> Material:
    """Read and check the files; blocks.

    Raises:
        TlsError: a file cannot be used; nothing was changed.
    """
    certificate, *chain = _read_pem(rules, "certificate")
    trusted = _read_pem(rules, "ca") if rules.ca_file is not None else ()
    _check_times(rules.setting("certificate"), certificate)
    names = _own_names(rules, certificate)
    server, client = _contexts(rules, trusted)
    if rules.listener == "peer":
        try:
            shake_hands(server, client)
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or reason_of(error)
            raise TlsError(
                f"{rules.setting('certificate')}: peers that trust {rules.setting('ca')} would "
                f"refuse it: {reason}; use a certificate of that CA for servers and clients, or "
                "add its CA to the file"
            ) from None
    until = accepted_until((certificate, *chain), trusted)
    return Material(certificate, tuple(chain), trusted, names, until, server, client)


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason, in words."""
    return (error.reason or str(error)).lower().replace("_", " ")


def _read_pem(rules: TlsRules, file: Literal["certificate", "ca"]) -> tuple[Certificate, ...]:
    path, setting = getattr(rules, f"{file}_file"), rules.setting(file)
    pem = _read(setting, path)
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise TlsError(f"{setting}: it has no PEM certificate; expected BEGIN CERTIFICATE")
    try:
        return read_certificates(pem)
    except ValueError as error:
        raise TlsError(f"{setting}: a certificate is malformed: {error}") from None


def _read(setting: str, path: Path) -> bytes:
    try:
        return read_small_file(path, PEM_BYTES_MAX)
    except OSError as error:
        raise TlsError(
            f"{setting}: cannot be read: {error.strerror or error}; give a file that this "
            "node may read"
        ) from None


def _check_times(setting: str, certificate: Certificate) -> None:
    now = dt.datetime.now(dt.UTC)
    if now > certificate.not_after:
        raise TlsError(
            f"{setting}: the certificate has expired at {certificate.not_after:%Y-%m-%dT%H:%MZ}; "
            "replace it"
        )
    if now < certificate.not_before:
        raise TlsError(
            f"{setting}: the certificate is not valid before "
            f"{certificate.not_before:%Y-%m-%dT%H:%MZ}; replace it, or check this machine's clock"
        )


def _own_names(rules: TlsRules, certificate: Certificate) -> tuple[NodeName, ...]:
    """The names of this node in its certificate.

    Peers need one. Clients look at the host, so the API's certificate may have none; what it has
    must be this node's, since another node's key is then here.
    """
    names = node_names(certificate.uri_names)
    own = tuple(
        name
        for name in names
        if name.node_id == rules.node_id and rules.cluster_id in (None, name.cluster_id)
    )
    if own or (rules.listener == "api" and not names):
        return own
    expected = NodeName(rules.cluster_id or "<cluster id>", rules.node_id)
    wanted = str(expected) if rules.cluster_id else str(expected).replace("%3Ccluster%20id%3E", "…")
    has = ", ".join(map(str, names)) or "no name of a node"
    raise TlsError(
        f"{rules.setting('certificate')}: it names {has}; this node needs the URI {wanted} among "
        "the subject alternative names"
    )


def _contexts(
    rules: TlsRules, trusted: tuple[Certificate, ...]
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Peers are known by their URI: an address is only advice.
    client.check_hostname = False
    # Each connection is verified with the CAs of its time: none is resumed or renegotiated.
    server.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    server.num_tickets = 0
    for context in (server, client):
        context.minimum_version = (
            ssl.TLSVersion.TLSv1_2 if rules.min_version == "1.2" else ssl.TLSVersion.TLSv1_3
        )
        context.set_alpn_protocols(["http/1.1"])
        # A CA file may hold the CA that signs the certificates, without the root above it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_chain(context, rules)
        if rules.ca_file is not None and trusted:
            _load_ca(context, rules)
    if rules.ca_file is not None and rules.client_certificates != "none":
        required = rules.client_certificates == "required"
        server.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return server, client


def _load_ca(context: ssl.SSLContext, rules: TlsRules) -> None:
    try:
        context.load_verify_locations(cafile=rules.ca_file)
    except (ssl.SSLError, OSError) as error:
        reason = reason_of(error) if isinstance(error, ssl.SSLError) else error.strerror
        raise TlsError(f"{rules.setting('ca')}: {reason}") from None


def _load_chain(context: ssl.SSLContext, rules: TlsRules) -> None:
    named = f"{rules.setting('certificate')}, {rules.setting('key')}"
    _read(rules.setting("key"), rules.key_file)

    def refuse_password() -> str:
        raise TlsError(f"{rules.setting('key')}: the key has a password; give a key without one")

    try:
        context.load_cert_chain(rules.certificate_file, rules.key_file, password=refuse_password)
    except ssl.SSLError as error:
        reason = f"cannot be used: {reason_of(error)}"
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = "the key does not belong to the certificate; give the two that belong together"
        raise TlsError(f"{named}: {reason}") from None
    except OSError as error:
        raise TlsError(f"{named}: cannot be read: {error.strerror or error}") from None
