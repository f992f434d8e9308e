"""Reads the files of a client's credentials, and reads them again when they have changed.

A file that cannot be used replaces nothing: the client goes on with what it read last, logs the
reason once, and looks again. So files may be replaced one after the other, in any order.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from yarl import URL

from raftnode.api.media import HEADER_CLUSTER_ID
from raftnode.client.credentials import NO_CREDENTIALS, Credentials
from raftnode.client.errors import CredentialsError
from raftnode.core.types import Endpoint
from raftnode.followed_files import FollowedFiles, Refused

PartT = TypeVar("PartT")

CHECK_S = 1.0
"""The least time between two looks at the files, unless a node refuses what was read."""

TOKEN_BYTES_MAX = 8_000
"""The longest token: a node reads header lines of 8 KiB."""

PEM_BYTES_MAX = 1 << 20

_TOKEN = re.compile(rb"[\x21-\x7e]+")
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"

_logger = logging.getLogger("raftnode.client")
"""The standard library's: the client runs in programs of others, and these are no node's events."""


class SecretHeaders(dict[str, str]):
    """Headers of a request; only their names are ever shown."""

    def __repr__(self) -> str:
        return f"<headers {', '.join(self) or 'none'}>"


@dataclass(frozen=True, slots=True)
class LoadedCredentials:
    """What connections and requests carry at a moment.

    Attributes:
        credentials: the files that it comes from.
        version: grows with each change, so that two can be told apart without comparing secrets.
        tls: of new connections; None: they are plain.
        headers: of each request, and of the request that opens a session.
    """

    credentials: Credentials = NO_CREDENTIALS
    version: int = 0
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=SecretHeaders, repr=False)

    def url(self, endpoint: Endpoint, path: str) -> URL:
        """The address of a node's resource; `path` is percent-encoded."""
        scheme = "http" if self.tls is None else "https"
        return URL(f"{scheme}://{endpoint}{path}", encoded=True)

    @property
    def ssl(self) -> ssl.SSLContext | bool:
        """The argument `ssl` of aiohttp."""
        return True if self.tls is None else self.tls

    @property
    def server_name(self) -> str | None:
        """The argument `server_hostname` of aiohttp."""
        return self.credentials.server_name


PLAIN = LoadedCredentials()


class CredentialFiles:
    """The files of one `Credentials`, as they are now.

    Args:
        credentials: which files.
        cluster_id: of the quorum that is meant; requests carry it. None: any.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        credentials: Credentials,
        cluster_id: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credentials = credentials
        self._cluster_id = cluster_id
        self._clock = clock
        tls_files = (credentials.ca_file, credentials.certificate_file, credentials.key_file)
        self._tls = _Part(tls_files, self._read_tls)
        self._token = _Part((credentials.token_file,), self._read_token)
        self._loaded: LoadedCredentials | None = None
        self._look_at_s = 0.0

    @classmethod
    def of(cls, credentials: Credentials, cluster_id: str | None) -> CredentialFiles:
        """The one for these files in this process, so that many clients read them once."""
        key = (credentials, cluster_id)
        files = _shared.get(key)
        if files is None:
            files = _shared[key] = cls(credentials, cluster_id)
        return files

    def current(self) -> LoadedCredentials:
        """Return what to present now; looks at the files once in `CHECK_S` at most.

        Raises:
            CredentialsError: the first time, if a file cannot be used.
        """
        if self._loaded is not None and self._clock() < self._look_at_s:
            return self._loaded
        return self.refresh()

    def refresh(self) -> LoadedCredentials:
        """Look at the files now.

        Raises:
            CredentialsError: the first time, if a file cannot be used.
        """
        self._look_at_s = self._clock() + CHECK_S
        changed = [part.look() for part in (self._tls, self._token)]
        if self._loaded is None or any(changed):
            version = 0 if self._loaded is None else self._loaded.version + 1
            self._loaded = LoadedCredentials(
                self._credentials, version, self._tls.value, self._headers()
            )
        return self._loaded

    def _headers(self) -> SecretHeaders:
        headers = SecretHeaders()
        if self._token.value is not None:
            headers["Authorization"] = f"Bearer {self._token.value}"
        if self._cluster_id is not None:
            headers[HEADER_CLUSTER_ID] = self._cluster_id
        return headers

    def _read_tls(self) -> ssl.SSLContext | None:
        return make_context(self._credentials) if self._credentials.uses_tls else None

    def _read_token(self) -> str | None:
        path = self._credentials.token_file
        return None if path is None else read_token(path)


_shared: weakref.WeakValueDictionary[tuple[Credentials, str | None], CredentialFiles] = (
    weakref.WeakValueDictionary()
)


class _Part(Generic[PartT]):
    """Some files, and what was last read from them.

    A change is taken at once: a node has refused what was read, and the next look may be the last.
    """

    def __init__(self, paths: tuple[Path | None, ...], read: Callable[[], PartT | None]) -> None:
        self._paths = tuple(path for path in paths if path is not None)
        self._read = read
        self._files: FollowedFiles[PartT | None] | None = None
        self._problem = ""
        self.value: PartT | None = None

    def look(self) -> bool:
        """Read the files again if they have changed; return whether the value did.

        Raises:
            CredentialsError: they cannot be used, and there is no earlier value.
        """
        if self._files is None:
            self._files = FollowedFiles(
                self._paths, self._read, CredentialsError, settled=False, retry_looks=1
            )
            self.value = self._files.first
            return True
        look = self._files.look()
        if look is None:
            return False
        if isinstance(look, Refused):
            if look.problem != self._problem:
                self._problem = look.problem
                _logger.warning("%s; the client keeps what it read before", look.problem)
            return False
        self._problem = ""
        changed = look.value != self.value
        self.value = look.value
        return changed


def make_context(credentials: Credentials) -> ssl.SSLContext:
    """Make the TLS context of new connections: TLS 1.3, or 1.2 if the node has no more.

    Raises:
        CredentialsError: a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A CA file may hold the CA that signs the certificates, without the root above it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if credentials.system_ca:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    ca_file, certificate_file = credentials.ca_file, credentials.certificate_file
    if ca_file is not None:
        pem = _read_pem("ca_file", ca_file)
        try:
            context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
        except ssl.SSLError as error:
            raise CredentialsError(f"ca_file {ca_file}: {_reason(error)}") from None
    if certificate_file is not None:
        _load_certificate(context, certificate_file, credentials.key_file)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    named = f"certificate_file {certificate}" + (f", key_file {key}" if key else "")
    _read_pem("certificate_file", certificate)

    def refuse_password() -> str:
        raise CredentialsError(f"{named}: the key has a password; give a key without one")

    try:
        if key is not None:
            _read("key_file", key, PEM_BYTES_MAX)
        context.load_cert_chain(certificate, key, password=refuse_password)
    except ssl.SSLError as error:
        reason = _reason(error)
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = "the key does not belong to the certificate"
        raise CredentialsError(f"{named}: {reason}") from None
    except OSError as error:
        raise CredentialsError(f"{named}: {error.strerror or error}") from None


def read_token(path: Path) -> str:
    """Read a token from its file; the error never has anything of it.

    Raises:
        CredentialsError: the file cannot be read, or holds no token.
    """
    return parse_token(f"token_file {path}", _read("token_file", path, TOKEN_BYTES_MAX + 2))


def parse_token(name: str, data: bytes) -> str:
    """Take a token from the content of a file; the error never has anything of it.

    Args:
        name: of the file, for the error.
        data: its content, or `TOKEN_BYTES_MAX` and two bytes of it.

    Raises:
        CredentialsError: it is no token.
    """
    token = data.strip()
    if not token:
        raise CredentialsError(f"{name}: the file is empty; expected a token")
    if len(token) > TOKEN_BYTES_MAX:
        raise CredentialsError(f"{name}: longer than {TOKEN_BYTES_MAX} bytes, the longest token")
    if not _TOKEN.fullmatch(token):
        raise CredentialsError(
            f"{name}: not a token; expected one line of visible ASCII without spaces"
        )
    return token.decode("ascii")


def _read_pem(name: str, path: Path) -> bytes:
    pem = _read(name, path, PEM_BYTES_MAX)
    if _CERTIFICATE not in pem:
        raise CredentialsError(f"{name} {path}: it has no PEM certificate")
    return pem


def _read(name: str, path: Path, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(bytes_max)
    except OSError as error:
        raise CredentialsError(f"{name} {path}: {error.strerror or error}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")
