"""Why a connection was refused, in words: TLS on one side only, a certificate, a name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import aiohttp

from raftnode.client.credential_files import LoadedCredentials
from raftnode.core.types import Endpoint

_EXPIRED = 10
_NOT_YET_VALID = 9
_UNKNOWN_CA = frozenset({2, 18, 19, 20, 21, 27})
_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's numbers of verification errors: `X509_V_ERR_…`."""

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
_NEEDS_CERTIFICATE = frozenset({"TLSV13_ALERT_CERTIFICATE_REQUIRED"})
_REFUSES_CERTIFICATE = frozenset(
    {
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV1_ALERT_ACCESS_DENIED",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    }
)
_TLS_ALERT = "\\x15\\x03"
"""An alert of TLS where HTTP was expected, as aiohttp's message quotes it."""


def describe_tls_failure(
    error: BaseException, endpoint: Endpoint, loaded: LoadedCredentials
) -> str | None:
    """Say what is wrong with TLS and what to do; None: the error is of another kind."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate(cause, endpoint, loaded)
        if isinstance(cause, ssl.SSLError):
            return _handshake(cause, loaded)
    if loaded.tls is None:
        # An alert comes where the answer should be; most nodes just close the connection.
        if any(_TLS_ALERT in str(cause) for cause in (error, error.__cause__)):
            return "it requires TLS; give ca_file or an https:// address"
        if _was_cut(error):
            return (
                "it closed the connection without an answer, as a node that requires TLS does; if "
                "it does, give ca_file or an https:// address"
            )
    elif _was_cut(error):
        return _closed(loaded)
    return None


def is_refused_certificate(error: BaseException) -> bool:
    """Whether the node ended the handshake over this client's certificate, or its absence.

    In TLS 1.3 a client sends its request before it knows. The node verifies the certificate before
    it reads any of the request, so it has done nothing.
    """
    return any(
        isinstance(cause, ssl.SSLError)
        and cause.reason in _NEEDS_CERTIFICATE | _REFUSES_CERTIFICATE
        for cause in _causes(error)
    )


def _was_cut(error: BaseException) -> bool:
    """Whether the node closed a connection that had come about, in the handshake or after it."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return isinstance(error.os_error, ConnectionResetError)
    if isinstance(error, aiohttp.ClientOSError):
        return isinstance(error.__cause__, ConnectionError)
    return isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionResetError))


def _closed(loaded: LoadedCredentials) -> str:
    certificate = loaded.credentials.certificate_file
    reason = (
        "as a node that requires a client certificate does; if it does, give certificate_file and "
        "key_file"
        if certificate is None
        else f"as a node that does not accept a client certificate does; {certificate} was sent"
    )
    return f"it closed the TLS connection without an answer, {reason}"


def _certificate(
    error: ssl.SSLCertVerificationError, endpoint: Endpoint, loaded: LoadedCredentials
) -> str:
    name = loaded.server_name or endpoint.host
    if error.verify_code in _OTHER_NAME:
        return (
            f"its certificate is not for {name}; have that name in the certificate (SAN), or give "
            "server_name"
        )
    if error.verify_code == _EXPIRED:
        return "its certificate, or the CA's, has expired"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate, or the CA's, is not valid yet; check this machine's clock"
    if error.verify_code in _UNKNOWN_CA:
        ca_file = loaded.credentials.ca_file
        trusted = "the system trusts" if ca_file is None else f"{ca_file} has"
        return f"its certificate is of an unknown CA: it is not signed by a CA that {trusted}"
    return f"its certificate is refused: {error.verify_message}"


def _handshake(error: ssl.SSLError, loaded: LoadedCredentials) -> str:
    reason = error.reason or ""
    certificate = loaded.credentials.certificate_file
    if reason in _NO_TLS:
        return "it does not speak TLS at this address; check the port, or ask without ca_file"
    if reason in _NEEDS_CERTIFICATE or (reason in _REFUSES_CERTIFICATE and certificate is None):
        return "it requires a client certificate; give certificate_file and key_file"
    if reason in _REFUSES_CERTIFICATE:
        return f"it refuses the client certificate {certificate}: {_words(reason)}"
    return f"TLS failed: {_words(reason) or error}"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what is behind it, without aiohttp's own.

    Some of those are of ssl's types too, and lack what ssl's have.
    """
    current: BaseException | None = error
    while current is not None:
        if not isinstance(current, aiohttp.ClientError):
            yield current
        current = current.__cause__
