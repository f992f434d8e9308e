"""Errors of the connection to Kafka's controllers.

KafkaError
├── KafkaDecodeError           an answer is not the message that it should be
├── KafkaUnreachableError      no connection, no answer in time, or the connection was closed
├── KafkaTlsError              the TLS handshake failed
├── KafkaAuthenticationError   the credentials or the mechanism were refused
├── KafkaAccessError           an ACL is missing; has the permission's name
├── KafkaVersionError          the controller does not speak a version that is needed
└── KafkaAnswerError           any other error code; has the code and its name
"""

from __future__ import annotations

from kraftquorum_operator.errors import OperatorError


class KafkaError(OperatorError):
    """Base of the errors of this package."""


class KafkaDecodeError(KafkaError):
    """An answer is not the message that it should be.

    Attributes:
        message: the Kafka message and its version, such as `DescribeQuorum v2`.
        field: the field, such as `voters[].replica_id`.
    """

    def __init__(self, message: str, field: str, problem: str) -> None:
        super().__init__(f"answer of {message}, field {field}: {problem}")
        self.message = message
        self.field = field


class KafkaUnreachableError(KafkaError):
    """No connection, no answer in time, or the controller closed the connection."""


class KafkaTlsError(KafkaError):
    """The TLS handshake failed: a certificate, a name, or a listener without TLS."""


class KafkaAuthenticationError(KafkaError):
    """The controller refused the credentials or the mechanism."""


class KafkaAccessError(KafkaError):
    """An ACL is missing.

    Attributes:
        permission: what is missing, such as `Describe on Cluster`.
    """

    def __init__(self, message: str, permission: str) -> None:
        super().__init__(
            f"{message} was refused: the principal needs the permission {permission}; "
            "grant it with kafka-acls"
        )
        self.permission = permission


class KafkaVersionError(KafkaError):
    """The controller does not speak a version that is needed."""


class KafkaAnswerError(KafkaError):
    """The controller answered with another error.

    Attributes:
        code: Kafka's number.
        name: Kafka's name for it.
    """

    def __init__(self, message: str, code: int, name: str, detail: str | None) -> None:
        said = f": {detail}" if detail else ""
        super().__init__(f"{message} was answered with {name} ({code}){said}")
        self.code = code
        self.name = name
