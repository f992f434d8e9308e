"""Errors of the client.

ClientError
├── NotDoneError              it is certain that the request was not carried out
│   ├── RefusedError          a node refused it, by a name of the API's table
│   └── UnavailableError      no node could be asked, or none could serve it, until the deadline
├── OutcomeUnknownError       a write was sent and it is not known whether it was done
├── CredentialsError          a file of the client's credentials cannot be used
└── UnexpectedAnswerError     a read's answer is not what the API promises
"""

from __future__ import annotations

from raftnode.api.model import ApiError
from raftnode.core.types import Endpoint


class ClientError(Exception):
    """Base of all errors that the client raises."""


class NotDoneError(ClientError):
    """The request was certainly not carried out; repeating it is safe."""


class RefusedError(NotDoneError):
    """A node refused the request, and asking again would not help.

    Attributes:
        error: the stable name, as in the API reference.
        answer: the whole answer.
        status: its HTTP status.
        endpoint: the node that answered.
    """

    def __init__(self, answer: ApiError, *, status: int, endpoint: Endpoint) -> None:
        super().__init__(f"{answer.error}: {answer.message} (from {endpoint})")
        self.error = answer.error
        self.answer = answer
        self.status = status
        self.endpoint = endpoint


class UnavailableError(NotDoneError):
    """No node could serve the request until the deadline.

    Attributes:
        attempts: the last answer or error of each endpoint, in the order of the first requests.
    """

    def __init__(self, what: str, attempts: dict[Endpoint, str]) -> None:
        said = "; ".join(f"{endpoint}: {reason}" for endpoint, reason in attempts.items())
        super().__init__(f"{what}: no node could serve it in time ({said or 'none was asked'})")
        self.attempts = attempts


class OutcomeUnknownError(ClientError):
    """A write was sent but not answered, or answered with an unknown outcome.

    It may have been done, may still be done, or never. Check before you repeat it.

    Attributes:
        endpoint: the node that it was sent to.
        answer: the node's answer, if there was one.
    """

    def __init__(
        self, what: str, reason: str, *, endpoint: Endpoint, answer: ApiError | None = None
    ) -> None:
        super().__init__(f"{what}: sent to {endpoint}, outcome unknown: {reason}")
        self.endpoint = endpoint
        self.answer = answer


class CredentialsError(ClientError):
    """A file of the client's credentials cannot be used; nothing was sent.

    The message names the file and never has anything of its content.
    """


class UnexpectedAnswerError(ClientError):
    """A read was answered with something that the API does not promise."""
