"""Errors of the operator.

OperatorError
├── SettingsError             settings that cannot work
├── KubeError                 the API server's answer, or none
│   ├── NotFoundError         404
│   ├── ConflictError         409: a precondition (UID, resourceVersion) or create-once failed
│   ├── RefusedError          400, 403, 422: asking again will not help
│   └── KubeUnavailableError  no answer, 429, 5xx: ask again later
├── NodeError                 a replica's answer, or none
│   ├── NodeUnreachableError  no connection, or no answer in time
│   └── NodeRefusedError      the replica said no; carries the API's error name
└── LeaseLostError            another operator may be active: nothing more may be done

`kopf.TemporaryError` and `kopf.PermanentError` stand in `handlers.py` only.
"""

from __future__ import annotations

from typing import Literal


class OperatorError(Exception):
    """Base of all errors that the operator raises on purpose."""


class SettingsError(OperatorError):
    """Settings that cannot work; the message names the setting and what is allowed."""


class KubeError(OperatorError):
    """The API server did not do what was asked.

    Attributes:
        status: HTTP status, 0 when there was no answer.
        reason: the `reason` of Kubernetes' Status object, e.g. `AlreadyExists`.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFoundError(KubeError):
    """The object is not there."""


class ConflictError(KubeError):
    """The object is not the one that was observed, or exists already."""


class RefusedError(KubeError):
    """The request is not allowed or not valid; repeating it changes nothing."""


class KubeUnavailableError(KubeError):
    """No answer, too many requests, or a fault of the server."""


class NodeError(OperatorError):
    """A replica did not do what was asked.

    Attributes:
        outcome: `unknown` when the request may have been carried out or still may be.
    """

    def __init__(
        self, message: str, *, outcome: Literal["not_done", "unknown"] = "not_done"
    ) -> None:
        super().__init__(message)
        self.outcome: Literal["not_done", "unknown"] = outcome


class NodeUnreachableError(NodeError):
    """No connection, or no answer in time."""


class NodeRefusedError(NodeError):
    """The replica answered that it will not.

    Attributes:
        error: the API's stable name, e.g. `STALE_VOTER_RECORD`.
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
    """This operator's Lease ran out, perhaps while it was stopped."""
