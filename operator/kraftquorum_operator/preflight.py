"""Before anything is watched: is there an API server, and does it know our resource?

Whatever is missing is told in one line, again only when it changes or after a
while, and waited for. kopf would end the operator, or wait without a word.
"""

from __future__ import annotations

import asyncio

import structlog

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import KubeError, KubeUnavailableError, NotFoundError

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

RETRY_S = 2.0
REPEAT = 30
"""The same line is written again after so many attempts: once a minute."""


def explain(error: KubeError) -> str:
    """What a person can do about it."""
    if isinstance(error, NotFoundError):
        return (
            f"the API server does not know {names.PLURAL}.{names.GROUP}: apply the CRD, "
            "e.g. kraftquorum-operator crds print | kubectl apply -f -"
        )
    if error.status in {401, 403}:
        return f"the API server refuses this operator; check its token and roles: {error}"
    if isinstance(error, KubeUnavailableError) and error.status == 0:
        return f"the API server cannot be reached: {error}"
    return f"the API server does not answer as it should: {error}"


async def await_api(kube: KubeClient, retry_s: float = RETRY_S) -> None:
    """Return once the API server serves our resource."""
    told, attempts = "", 0
    while True:
        try:
            await kube.probe()
        except KubeError as error:
            why = explain(error)
            if why != told or attempts % REPEAT == 0:
                log.warning("waiting for the API server", why=why)
            told, attempts = why, attempts + 1
            await asyncio.sleep(retry_s)
        else:
            if told:
                log.info("the API server is there")
            return
