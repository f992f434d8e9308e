"""Kafka's error codes, as far as a controller answers with them here."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's name and number of an error."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    SASL_AUTHENTICATION_FAILED = 58
    INCONSISTENT_CLUSTER_ID = 104
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127


REFUSALS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
"""What an authorizer answers with."""


def error_name(code: int) -> str:
    """Kafka's name of an error, as far as it is known."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return "an error that this version does not know"
