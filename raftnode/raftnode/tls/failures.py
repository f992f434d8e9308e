"""Why a handshake failed: a word for metrics, and a sentence for people."""

from __future__ import annotations

import ssl
from enum import StrEnum

_EXPIRED = 10
_NOT_YET_VALID = 9
_UNKNOWN_CA = frozenset({2, 18, 19, 20, 21, 27})
"""OpenSSL's numbers of verification errors: `X509_V_ERR_…`."""

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
_VERSION = frozenset(
    {
        "UNSUPPORTED_PROTOCOL",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "NO_PROTOCOLS_AVAILABLE",
        "VERSION_TOO_LOW",
    }
)


class Reason(StrEnum):
    """Why a connection did not come about; the value is a metric's label."""

    PLAINTEXT = "plaintext"
    """The other end does not speak TLS."""
    VERSION = "version"
    """There is no version of TLS that both ends accept."""
    NO_CERTIFICATE = "no_certificate"
    """The other end has no certificate."""
    UNKNOWN_CA = "unknown_ca"
    """The other end's certificate is not signed by a CA that this node trusts."""
    EXPIRED = "expired"
    """The other end's certificate, or its CA's, has expired."""
    NOT_YET_VALID = "not_yet_valid"
    """The other end's certificate, or its CA's, is not valid yet."""
    BAD_CERTIFICATE = "bad_certificate"
    """The other end's certificate cannot be used for another reason."""
    WRONG_CLUSTER = "wrong_cluster"
    """The other end's certificate is of another cluster."""
    WRONG_NODE = "wrong_node"
    """The other end's certificate is not of the node that it says it is."""
    REFUSED = "refused"
    """The other end refused this node's certificate, or closed the connection."""
    TIMEOUT = "timeout"
    """The handshake did not end in time."""
    OTHER = "other"


def reason_of_failure(error: BaseException) -> Reason:
    """Name the reason of a handshake's failure."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return Reason.EXPIRED
        if error.verify_code == _NOT_YET_VALID:
            return Reason.NOT_YET_VALID
        return Reason.UNKNOWN_CA if error.verify_code in _UNKNOWN_CA else Reason.BAD_CERTIFICATE
    if isinstance(error, ssl.SSLError):
        return _of_reason(error.reason or "")
    if isinstance(error, TimeoutError) or "taking longer than" in str(error):
        return Reason.TIMEOUT
    return Reason.REFUSED if isinstance(error, (OSError, EOFError)) else Reason.OTHER


def _of_reason(reason: str) -> Reason:
    if reason in _NO_TLS:
        return Reason.PLAINTEXT
    if reason in _VERSION:
        return Reason.VERSION
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return Reason.NO_CERTIFICATE
    return Reason.REFUSED if "ALERT" in reason else Reason.OTHER


def speaks_no_tls(error: BaseException) -> bool:
    """Whether a dialled end answered something else than TLS; aiohttp's error is looked into."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError) and (getattr(cause, "reason", None) or "") in _NO_TLS:
            return True
        cause = getattr(cause, "os_error", None) or cause.__cause__
    return False


def cause_of(error: BaseException) -> BaseException:
    """The error of `ssl` or of the system behind aiohttp's."""
    return getattr(error, "os_error", None) or error.__cause__ or error
