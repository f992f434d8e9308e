"""Errors of the operator.

OperatorError
├── SettingsError             a setting has a value that is not allowed
├── KubeError                 a request to the API server failed
│   ├── NotFoundError         404
│   │   └── NoSuchObjectError 404 that names the object: the API server serves its kind
│   ├── ConflictError         409: a precondition (UID, resourceVersion) or create-once failed
│   ├── RefusedError          400, 403, 422: a retry does not help
│   └── KubeUnavailableError  no answer, 429, 5xx: retry later
├── NodeError                 a request to a replica failed
│   ├── NodeUnreachableError  no connection, or no answer in time
│   └── NodeRefusedError      the replica refused; has the API's error name
└── LeaseLostError            another operator may be active: this one must not act

Only `handlers.py` uses `kopf.TemporaryError` and `kopf.PermanentError`.
"""

from __future__ import annotations

from typing import Literal


class OperatorError(Exception):
    """Base of all errors that the operator raises on purpose."""


class SettingsError(OperatorError):
    """A setting has a value that is not allowed; the message names both and what is allowed."""


class KubeError(OperatorError):
    """A request to the API server failed.

    Attributes:
        status: HTTP status, 0 when there was no answer.
        reason: the `reason` of Kubernetes' Status object, e.g. `AlreadyExists`.
        retry_after_s: how long the API server asks to wait before the next request; 0: it does not.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = 0.0


class NotFoundError(KubeError):
    """The object does not exist, or the API server does not serve its kind."""


class NoSuchObjectError(NotFoundError):
    """The API server serves the kind, and has no object of this name."""


class ConflictError(KubeError):
    """The object is not the one that was observed, or exists already."""


class GoneError(KubeError):
    """The API server no longer has the version from which to watch."""


class RefusedError(KubeError):
    """The request is not allowed or not valid; a retry does not help."""


class KubeUnavailableError(KubeError):
    """No answer, too many requests, or an error of the server."""


class NodeError(OperatorError):
    """A request to a replica failed.

    Attributes:
        outcome: `unknown` when the replica may have carried out the request, or still may.
    """

    def __init__(
        self, message: str, *, outcome: Literal["not_done", "unknown"] = "not_done"
    ) -> None:
        super().__init__(message)
        self.outcome: Literal["not_done", "unknown"] = outcome


class NodeUnreachableError(NodeError):
    """No connection, or no answer in time."""


STALE_BASIS = "STALE_BASIS"
"""The error of a voter change that the operator decided on a quorum that has changed since."""


class NodeRefusedError(NodeError):
    """The replica refused the request, or the operator did for a leader that would not.

    Attributes:
        error: the API's stable name, e.g. `STALE_VOTER_RECORD`; or `STALE_BASIS`.
    """

    def __init__(
        self,
        error: str,
        message: str,
        *,
        outcome: Literal["not_done", "unknown"] = "not_done",
    ) -> None:
        super().__init__(f"{error}: {message}", outcome=outcome)
        self.error = error


class LeaseLostError(OperatorError):
    """This operator's Lease expired, perhaps while the process was stopped."""
