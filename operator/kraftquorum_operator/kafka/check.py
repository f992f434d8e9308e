"""One check of the controllers of a KafkaQuorum: its Secret and pods, then the controllers.

It reads objects of Kubernetes and asks controllers; it writes nothing to either.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.errors import RefusedError, SettingsError
from kraftquorum_operator.kafka.advice import Limits
from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription
from kraftquorum_operator.kafka.controller_addresses import controller_addresses, selector_of
from kraftquorum_operator.kafka.credentials import security_of
from kraftquorum_operator.kafka.facts import View
from kraftquorum_operator.kafka.judgement import Judgement, judge
from kraftquorum_operator.kafka.query import Target, query, same_epoch_and_voters
from kraftquorum_operator.kafka.security import Security
from kraftquorum_operator.kafka.status import Obstacle
from kraftquorum_operator.model.kafka_spec import KafkaQuorumSpec
from kraftquorum_operator.model.objects import Body, Owner

CONFIRM_S = 5.0
"""How long to wait for a majority. Controllers write a record every half second."""

CHECK_TIMEOUTS = 6
"""A check may take as long as so many requests that are not answered."""


@dataclass(slots=True)
class Check:
    """Checks the controllers of one resource.

    Attributes:
        kube: reads the Secret and the pods.
        timeout_s: of each connection and each request.
    """

    kube: KubeReader
    timeout_s: float
    _known: tuple[str, Security] | None = field(default=None, repr=False)
    """The credentials of a version of a Secret, so that they are not parsed each time."""
    _furthest: QuorumDescription | None = field(default=None, repr=False)
    """What a majority confirmed under one leader, with the furthest log end of each voter."""

    async def run(self, owner: Owner, resource: Body) -> Judgement | Obstacle:
        """Check once, in bounded time.

        Raises:
            KubeError: the API server did not answer.
        """
        try:
            spec = KafkaQuorumSpec.model_validate(resource.get("spec") or {})
        except ValueError as error:
            return Obstacle("SpecInvalid", f"spec is not what this operator reads: {error}"[:1000])
        try:
            security = await self._security(owner.namespace, spec.credentials_secret)
            pods = await self._pods(owner.namespace, spec)
        except RefusedError as error:
            return Obstacle("KubernetesRefused", f"the API server refuses a request: {error}")
        if isinstance(security, Obstacle):
            return security
        try:
            controllers = controller_addresses(spec, pods)
        except SettingsError as error:
            return Obstacle("AddressesInvalid", str(error))
        target = Target(
            controllers.addresses, controllers.node_ids, security, self.timeout_s, CONFIRM_S
        )
        limit_s = CHECK_TIMEOUTS * self.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                view = await query(target)
        except TimeoutError:
            return Obstacle(
                "TooSlow", f"the controllers did not answer all requests within {limit_s:g} s"
            )
        view = self._compared(replace(view, failures={**view.failures, **controllers.absent}))
        limits = Limits(grace_ms=spec.grace_seconds * 1000)
        return judge(view, controllers.wanted, spec.cluster_id, limits)

    def _compared(self, view: View) -> View:
        """Compare with the checks before, while the same leader answers.

        A voter whose directory was emptied under its old id fetches its log again, and is behind
        where it was until it has done so.
        """
        last, quorum, earlier = self._furthest, view.quorum, view.earlier
        if not view.confirmed or quorum is None or earlier is None:
            return view
        if last is None or not same_epoch_and_voters(last, quorum):
            self._furthest = quorum
            return view
        self._furthest = _furthest(quorum, last)
        return replace(view, earlier=_furthest(earlier, last))

    async def _pods(self, namespace: str, spec: KafkaQuorumSpec) -> list[Body]:
        selector = selector_of(spec)
        return await self.kube.list("Pod", namespace, selector) if selector else []

    async def _security(self, namespace: str, name: str | None) -> Security | Obstacle:
        if name is None:
            return Security()
        secret = await self.kube.get("Secret", namespace, name)
        if secret is None:
            text = f"spec.credentialsSecret names Secret {name}, which is not there"
            return Obstacle("SecretMissing", text)
        version = f"{secret['metadata']['uid']}/{secret['metadata']['resourceVersion']}"
        if self._known is None or self._known[0] != version:
            try:
                # System CAs take some tens of milliseconds, in which no quorum waits.
                self._known = (version, await asyncio.to_thread(security_of, secret))
            except SettingsError as error:
                return Obstacle("CredentialsInvalid", str(error))
        return self._known[1]


def _furthest(description: QuorumDescription, last: QuorumDescription) -> QuorumDescription:
    """A description with the further log end of each voter; both have the same voters."""
    ends = {row.key: row.log_end_offset for row in last.voters}
    rows = tuple(
        replace(row, log_end_offset=max(row.log_end_offset, ends[row.key]))
        for row in description.voters
    )
    return replace(description, voters=rows)
