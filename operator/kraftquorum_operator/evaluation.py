"""One evaluation of a quorum: observe, compare, judge and decide.

An evaluation of what the watches delivered only confirms the last one of the API server's answers.
If it finds anything else, the operator asks the API server before it reports or acts: a cache that
is behind delays an action and never causes one.
"""

from __future__ import annotations

import copy
import random
import time
from dataclasses import dataclass, field, replace
from typing import cast

from kraftquorum_operator.clients.cache import Cache, KubeReader
from kraftquorum_operator.clients.kept_reads import KeepingReader, KeptReads
from kraftquorum_operator.clients.nodes import NodeApi
from kraftquorum_operator.judge.trust import Judged, judge
from kraftquorum_operator.memory.image_turn import ImageTurn
from kraftquorum_operator.memory.persistent_troubles import PersistentTroubles
from kraftquorum_operator.memory.refused_requests import Refusals
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.observe.deletion import ObservedDeletion, needs_finalizer
from kraftquorum_operator.observe.quorum import Silence
from kraftquorum_operator.observe.read import Observed, observe
from kraftquorum_operator.plan.actions import Decision, Done, Wait
from kraftquorum_operator.plan.compare import Desired, compare
from kraftquorum_operator.plan.decide import decide
from kraftquorum_operator.resources.finalizer import finalizer_change
from kraftquorum_operator.settings import Settings

RESYNC_S = 1800.0
"""How often a quorum at rest is read from the API server and not from the watches, give or take a
fifth."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was observed, compared and judged, and the decision on it."""

    observed: Observed
    desired: Desired
    observation: Judged
    decision: Decision


@dataclass(frozen=True, slots=True)
class Finding:
    """What an evaluation found that leaves nothing to do now.

    Attributes:
        guard: what the quorum waits for; None: nothing is left to do.
        generation: of the resource.
        annotations: of the resource.
    """

    guard: str | None
    generation: int
    annotations: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class EvaluationMemory:
    """State between two evaluations of a quorum. Losing it costs time or an event only."""

    silence: Silence = field(default_factory=Silence)
    refusals: Refusals = field(default_factory=Refusals)
    lasting: PersistentTroubles = field(default_factory=PersistentTroubles)
    kept: KeptReads = field(default_factory=KeptReads)
    finding: Finding | None = None
    """Of the last evaluation by the API server; None: something was to be done, or none yet."""
    resync_s: float = 0.0
    """When the quorum is next read from the API server at the latest, on the monotonic clock."""

    def distrust(self) -> None:
        """Have the next evaluation read all of it from the API server."""
        self.finding = None
        self.kept.clear()


@dataclass(slots=True)
class Evaluator:
    """Evaluates quorums.

    Attributes:
        kube: reads from the API server.
        nodes: asks the replicas.
        settings: of the operator.
        image_turn: which quorum changes to another default image now.
        cache: what the watches have delivered; None: all is read from the API server.
    """

    kube: KubeReader
    nodes: NodeApi
    settings: Settings
    image_turn: ImageTurn
    cache: Cache | None = None

    def wrote(self, body: Body) -> None:
        """Keep what the API server answered to a write of the operator."""
        if self.cache is not None:
            self.cache.wrote(body)

    async def evaluate(
        self, namespace: str, name: str, uid: str, memory: EvaluationMemory, now_ms: int
    ) -> Evaluation | ObservedDeletion | None:
        """Evaluate once; twice, if the watches show anything else than the last time.

        Args:
            namespace: of the resource.
            name: of the resource.
            uid: of the resource.
            memory: of the last evaluations; it is kept up to date.
            now_ms: monotonic clock.

        Returns:
            None: the resource is gone. An action and a deletion are always decided on what the API
            server answered now.

        Raises:
            KubeError: the API server did not answer all of it.
            ValueError: an object of ours is not what it should be.
        """
        evaluation = await self._evaluate_watches(namespace, name, uid, memory, now_ms)
        if evaluation is not None:
            return evaluation
        return await self.evaluate_now(namespace, name, uid, memory, now_ms)

    async def evaluate_now(
        self, namespace: str, name: str, uid: str, memory: EvaluationMemory, now_ms: int
    ) -> Evaluation | ObservedDeletion | None:
        """Evaluate once, by the API server and the nodes alone; as `evaluate`."""
        memory.finding = None
        reader = KeepingReader(self.kube, memory.kept)
        evaluation = await self._evaluate(
            reader, (namespace, name, uid), memory, now_ms, trusted=True
        )
        memory.finding = _finding_of(evaluation)
        pause_s = RESYNC_S * random.uniform(0.8, 1.2)  # noqa: S311 - not all at once
        memory.resync_s = time.monotonic() + pause_s
        return evaluation

    async def _evaluate_watches(
        self, namespace: str, name: str, uid: str, memory: EvaluationMemory, now_ms: int
    ) -> Evaluation | None:
        """None: the API server must be asked."""
        before = memory.finding
        if self.cache is None or before is None or time.monotonic() >= memory.resync_s:
            return None
        # A quorum that waits may wait for a Secret.
        max_age_s = self.settings.secrets_interval_s if before.guard is None else 0.0
        others = KeepingReader(self.kube, memory.kept, max_age_s)
        reader = self.cache.reader(others, namespace, name)
        if reader is None:
            return None
        try:
            quorum = (namespace, name, uid)
            evaluation = await self._evaluate(reader, quorum, memory, now_ms, trusted=False)
        except ValueError:
            return None
        return (
            evaluation
            if isinstance(evaluation, Evaluation) and _finding_of(evaluation) == before
            else None
        )

    async def _evaluate(
        self,
        reader: KubeReader,
        quorum: tuple[str, str, str],
        memory: EvaluationMemory,
        now_ms: int,
        *,
        trusted: bool,
    ) -> Evaluation | ObservedDeletion | None:
        namespace, name, uid = quorum
        # The watches may lack an object whose refusal is still to be remembered.
        refusals = memory.refusals if trusted else copy.copy(memory.refusals)
        observed = await observe(
            reader,
            self.nodes.of(f"{namespace}/{name}"),
            namespace,
            name,
            silence=memory.silence,
            now_ms=now_ms,
            installation=self.settings.installation,
        )
        if observed is None or observed.owner.uid != uid:
            return None
        if isinstance(observed, ObservedDeletion):
            return observed
        if observed.next_image is not None and self.image_turn.holder == observed.owner:
            spec = observed.spec.model_copy(update={"image": observed.next_image})
            observed = replace(observed, spec=spec)
        desired = compare(
            observed.owner,
            observed.spec,
            observed.observation,
            observed.live,
            self.settings.installation,
        )
        observation = refusals.mark(desired.mark(observed.observation), now_ms)
        observation = judge(memory.lasting.mark(observation, now_ms))
        return Evaluation(
            observed, desired, observation, decide(observed.spec, observation, now_ms)
        )


def _finding_of(evaluation: Evaluation | ObservedDeletion | None) -> Finding | None:
    """What an evaluation found; None: there is something to do."""
    if not isinstance(evaluation, Evaluation) or not isinstance(evaluation.decision, Wait | Done):
        return None
    resource = evaluation.observed.resource
    if finalizer_change(resource, held=needs_finalizer(resource)) is not None:
        return None
    meta = resource["metadata"]
    annotations = cast("dict[str, str]", meta.get("annotations") or {})
    guard = evaluation.decision.guard if isinstance(evaluation.decision, Wait) else None
    return Finding(guard, int(meta.get("generation") or 0), tuple(sorted(annotations.items())))
