"""Checks before the watches: the API server serves our resource, and the roles are complete.

The operator waits for what is missing. It logs that in one line, and logs the line
again when it changes or after a while. kopf would exit, or wait without a log line.

It does not wait for a right that only some quorums need (`Right.limits`): it logs what is missing
and what that limits, and the conditions of those quorums name the right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import (
    KubeError,
    KubeUnavailableError,
    NotFoundError,
    RefusedError,
)
from kraftquorum_operator.rights import KAFKA_ADVICE, LEASE, WATCHED, Right
from kraftquorum_operator.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger("kraftquorum_operator")

RETRY_S = 2.0
FOLLOWED = replace(WATCHED[0], verbs=("list", "watch"))
"""Without this right in a namespace, the operator does not know its quorums."""

REPEAT = 30
"""The same line is logged again after this many attempts: once a minute."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Which of the configured namespaces the operator can watch.

    Attributes:
        watched: in the configured order.
        missing: the rights that it requires and lacks in them, as `missing_rights` writes them.
    """

    watched: tuple[str, ...]
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def explain(error: KubeError) -> str:
    """The error and what to do about it."""
    if isinstance(error, NotFoundError):
        return (
            f"the API server does not know {names.PLURAL}.{names.GROUP}: apply the CRD, "
            "e.g. kraftquorum-operator crds print | kubectl apply -f -"
        )
    if error.status in {401, 403}:
        return f"the API server refuses this operator; check its token and roles: {error}"
    if isinstance(error, KubeUnavailableError) and error.status == 0:
        return f"the operator cannot reach the API server: {error}"
    return f"the API server answered with an error: {error}"


async def await_api(kube: KubeClient, retry_s: float = RETRY_S) -> None:
    """Return once the API server serves our resource."""

    async def check() -> str:
        try:
            await kube.probe()
        except KubeError as error:
            return explain(error)
        return ""

    await _await("the API server", check, retry_s)


async def await_rights(kube: KubeClient, settings: Settings, retry_s: float = RETRY_S) -> None:
    """Return once the roles allow what `rights.py` requires in at least one of the namespaces.

    A namespace that was deleted with its roles does not delay the others: see
    `watchable_namespaces`. An operator with half of its rights would stop in the middle of a
    replacement. If the API server refuses the check, the operator starts without it.
    """

    async def check() -> str:
        try:
            missing = await missing_rights(kube, settings)
            if missing and settings.namespaces and not await _missing_lease(kube, settings):
                able = await watchable_namespaces(kube, settings)
                missing = [] if able.watched else missing
        except RefusedError as error:
            log.warning("rights_check_refused", why=str(error))
            return ""
        except KubeError as error:
            return explain(error)
        return f"the operator's roles do not allow: {'; '.join(missing)}" if missing else ""

    await _await("rights", check, retry_s)
    with suppress(KubeError):  # the operator runs without the check, and conditions name the right
        await _report_limits(kube, settings)


async def report_kafka_crd(kube: KubeClient) -> None:
    """Log it if the API server does not serve KafkaQuorums; all else goes on."""
    try:
        await kube.probe(names.KAFKA_PLURAL)
    except NotFoundError:
        why = (
            f"the API server does not know {names.KAFKA_PLURAL}.{names.GROUP}: apply the CRD, "
            "e.g. kraftquorum-operator crds print --kafka-advice | kubectl apply -f -"
        )
        log.warning("kafka_advice_delayed", why=why)
    except KubeError as error:
        log.warning("kafka_advice_delayed", why=explain(error))


async def missing_rights(kube: KubeClient, settings: Settings) -> list[str]:
    """The missing rights that the operator requires, as `verb,verb resource in namespace x`.

    Raises:
        KubeError: the API server did not answer.
    """
    missing = await _missing_lease(kube, settings)
    for namespace in settings.namespaces or (None,):
        missing += await _missing_in(kube, namespace)
    return missing


async def watchable_namespaces(
    kube: KubeClient, settings: Settings, watched: Iterable[str] = ()
) -> Namespaces:
    """The configured namespaces in which the operator can work.

    The roles of a deleted namespace are gone. A watch on it would end the watches of all others
    again and again. So the operator begins to watch a namespace once it has all rights that it
    requires there. It goes on while it can follow the resources, so that their conditions name a
    right that was taken away. Returns all namespaces if the API server refuses the check.

    Args:
        kube: asks for the rights.
        settings: have the namespaces.
        watched: those that the operator watches now.

    Raises:
        KubeError: the API server did not answer.
    """
    before = frozenset(watched)
    missing: dict[str, tuple[str, ...]] = {}
    chosen: list[str] = []
    try:
        for place in settings.namespaces:
            lacking = tuple(await _missing_in(kube, place))
            if lacking and (place not in before or await _missing_of(kube, [FOLLOWED], place)):
                continue
            chosen.append(place)
            if lacking:
                missing[place] = lacking
    except RefusedError:
        return Namespaces(settings.namespaces)
    return Namespaces(tuple(chosen), missing)


async def _missing_lease(kube: KubeClient, settings: Settings) -> list[str]:
    create, keep = LEASE
    answers = [
        await _missing(kube, create, settings.lease_place, None),
        await _missing(kube, keep, settings.lease_place, settings.lease_name),
    ]
    return [text for text in answers if text]


async def _report_limits(kube: KubeClient, settings: Settings) -> None:
    """Log each right that only some quorums need and that the roles do not allow."""
    kafka = KAFKA_ADVICE if settings.kafka_advice else ()
    for right in (right for right in (*WATCHED, *kafka) if right.limits):
        places: tuple[str | None, ...] = settings.namespaces or (None,)
        missing = {place: await _missing_of(kube, [right], place) for place in places}
        if any(missing.values()) and settings.namespaces:
            able = await watchable_namespaces(kube, settings)
            missing = {place: missing[place] for place in able.watched}
        if texts := [text for lacking in missing.values() for text in lacking]:
            log.warning("rights_limited", missing="; ".join(texts), limits=right.limits)


async def _missing_in(kube: KubeClient, namespace: str | None) -> list[str]:
    return await _missing_of(kube, [right for right in WATCHED if not right.limits], namespace)


async def _missing_of(
    kube: KubeClient, rights: Iterable[Right], namespace: str | None
) -> list[str]:
    answers = [await _missing(kube, right, namespace, None) for right in rights]
    return [text for text in answers if text]


async def _missing(
    kube: KubeClient, right: Right, namespace: str | None, name: str | None
) -> str | None:
    allowed = await asyncio.gather(
        *(
            kube.may(verb, right.group, right.resource, namespace=namespace, name=name)
            for verb in right.verbs
        )
    )
    lacking = [verb for verb, may in zip(right.verbs, allowed, strict=True) if not may]
    if not lacking:
        return None
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    return f"{','.join(lacking)} {right} {where}"


async def _await(what: str, check: Callable[[], Awaitable[str]], retry_s: float) -> None:
    """Check until nothing is missing; log changes, and the same result every `REPEAT` checks."""
    logged, attempts = "", 0
    while why := await check():
        if why != logged or attempts % REPEAT == 0:
            log.warning("startup_delayed", what=what, why=why)
        logged, attempts = why, attempts + 1
        await asyncio.sleep(retry_s)
    if logged:
        log.info("startup_continued", what=what)
