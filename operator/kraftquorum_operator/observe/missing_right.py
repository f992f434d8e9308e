"""What a refused request for a Secret says about the operator's role."""

from __future__ import annotations

from http import HTTPStatus

from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.rights import SECRETS


def is_right_missing(error: KubeError) -> bool:
    """Whether the operator's role does not allow the request."""
    return error.status == HTTPStatus.FORBIDDEN


def why_unreadable(error: KubeError, namespace: str) -> str:
    """Why a Secret cannot be read, and which right to grant if that is missing."""
    if not is_right_missing(error):
        return str(error)
    verbs = ", ".join(SECRETS.verbs)
    return f"{error}; grant the operator's role {verbs} on {SECRETS} in namespace {namespace}"
