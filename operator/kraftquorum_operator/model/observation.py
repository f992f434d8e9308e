"""One observation of a quorum and of its objects: everything that `decide` may know.

Frozen values and lookups only. What must not live here: how something was
read, and anything that was remembered from an earlier observation, except
since when a voter is silent.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator import names
from kraftquorum_operator.model.access_facts import AccessFacts, AccessFault
from kraftquorum_operator.model.certificates import Certificates, ListenerCertificate
from kraftquorum_operator.model.engine import RAFTNODE, Engine
from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.tls import TlsLevel
from raftnode.core.types import Endpoint


@dataclass(frozen=True, slots=True, order=True)
class ReplicaId:
    """One replica: a node id, which is its pod's ordinal, with its directory id (S1)."""

    node_id: int
    directory_id: str

    def __str__(self) -> str:
        return f"{self.node_id}-{self.directory_id}"


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """Which claim a directory id was recorded on (S3)."""

    directory_id: str
    claim_uid: str


UNKNOWN_OWNER = "unknown owner"
"""The owner of a claim on which nothing identifies its owner."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A volume claim of one ordinal."""

    name: str
    uid: str
    ordinal: int
    phase: str = "Bound"
    """`Pending`, `Bound` or `Lost`."""
    terminating: bool = False
    owner_uid: str | None = None
    """UID of the KRaftQuorum that it was created for, from its label."""
    volume: str | None = None
    shared: bool = False
    """Another claim of the namespace names the same volume."""
    record: ClaimRecord | None = None
    """From its annotations; on a copy of a claim it has the original claim's UID."""
    foreign_owner: str = ""
    """Its owner, if that is neither this quorum nor an earlier one of this name."""

    @property
    def doubtful(self) -> bool:
        """Whether nothing identifies its owner: it may be ours and have lost its labels."""
        return self.foreign_owner == UNKNOWN_OWNER

    defaults: str | None = None
    """The operator's defaults that it was created under, from its label; None: none."""
    cluster_domain: str | None = None
    """The cluster domain that its label names."""
    version: str | None = None
    """Its resourceVersion."""
    storage_class: str = ""
    requested_bytes: int | None = None
    """The size that it asks for; None: not known."""
    capacity_bytes: int | None = None
    """The size of its volume, as Kubernetes reports it; None: not known."""
    resize: str = ""
    """Its condition about a growth under way, as `Type: message`; empty: there is none."""

    @property
    def grows(self) -> bool:
        """Whether its volume does not have the size yet that it asks for."""
        if self.phase != "Bound" or self.requested_bytes is None or self.capacity_bytes is None:
            return False
        return self.capacity_bytes < self.requested_bytes


CRASH_LOOP = "CrashLoopBackOff"
"""Kubernetes' reason for a container that exits repeatedly."""
CRASH_LOOP_RESTARTS = 2
"""After this many restarts a container that has exited again counts as unable to start."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of one ordinal."""

    name: str
    uid: str
    ordinal: int
    phase: str = "Running"
    ready: bool = True
    terminating: bool = False
    address: str | None = None
    counted: bool = False
    """Whether the disruption budget selects it (S22)."""
    revision: str | None = None
    restarts: int = 0
    exit_code: int | None = None
    """Of the container's last end, while it has not been ready since."""
    age_ms: int = 0
    unready_ms: int | None = None
    """For how long it has not been ready, 0 if it is; None: not known."""
    detail: str = ""
    """Why it does not run, as Kubernetes or the node reports it."""
    waiting: str = ""
    """The reason in one word, if it is not scheduled or its container waits."""
    running: bool = True
    """Its container's process is there, whether or not it answers."""
    version: str | None = None
    """Its resourceVersion, which changes when it starts, exits or becomes ready."""
    tls: TlsLevel = "disabled"
    """What its listeners accept, by its container's environment."""
    guarded: bool = False
    """Whether its container has an access file."""

    @property
    def api_address(self) -> str:
        """Where its node's API listens."""
        return str(Endpoint(self.address or "", names.API_PORT))

    @property
    def never_started(self) -> bool:
        """Whether its container has not run yet: no image, no volume, no node, or a new pod."""
        return self.phase != "Running" and not self.ready and not self.terminating

    @property
    def fails_to_start(self) -> bool:
        """Whether it has not run yet, or exits repeatedly and is not running now."""
        crashed = not self.running and self.restarts >= CRASH_LOOP_RESTARTS
        return self.never_started or (crashed and not self.ready and not self.terminating)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A pod or a claim that cannot start, as Kubernetes reports it."""

    ordinal: int
    subject: str
    """`pod demo-3` or `claim data-demo-3`."""
    reason: str
    """One word, such as `ImagePullBackOff`."""
    message: str
    lasts_ms: int = 0
    """For how long, by Kubernetes' own times."""

    def __str__(self) -> str:
        """In one line."""
        known = self.message.startswith(self.reason)
        return f"{self.subject}: {self.message if known else f'{self.reason}: {self.message}'}"


@dataclass(frozen=True, slots=True)
class Node:
    """What a replica reports about itself."""

    replica: ReplicaId
    incarnation: int
    cluster_id: str | None
    """None: blank, waiting for `form` or `join`."""
    role: str
    epoch: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    voters: tuple[ReplicaId, ...]
    caught_up: bool
    peer_endpoint: str
    damage: tuple[str, ...] = ()
    """The corruption that it has found in its storage and cannot rebuild."""
    disk_low: bool = False
    """Less than its reserve is free on its disk (S30)."""
    free_bytes: int | None = None
    size_bytes: int | None = None
    """Of its disk; None: not reported."""
    snapshot_room_missing_bytes: int = 0
    """The space that its next snapshot lacks; until there is enough it does not trim its log."""
    certificates: tuple[ListenerCertificate, ...] = ()
    """By listener: what it presents and trusts; empty: it speaks no TLS."""

    @property
    def blank(self) -> bool:
        """Whether it belongs to no quorum yet."""
        return self.cluster_id is None


@dataclass(frozen=True, slots=True)
class Progress:
    """What the leader knows of one voter or observer."""

    replica: ReplicaId
    caught_up: bool
    fenced: bool = False
    copied: bool = False
    """Its volume was restored from a copy (S3): it counts in no majority, see `judge/copies.py`."""
    damaged: bool = False
    """Its storage is damaged: it counts in no majority, see `judge/trust.py`."""
    lag: int = 0
    last_fetch_age_ms: int | None = None
    higher_epoch: int | None = None
    """An observer's epoch above the leader's: it catches up once AddVoter names it."""
    silent_since_ms: int | None = None
    """On the operator's clock; None: the leader hears from it."""

    @property
    def fresh(self) -> bool:
        """Whether it counts towards a majority that can commit now."""
        return self.caught_up and not (self.fenced or self.copied or self.damaged)


@dataclass(frozen=True, slots=True, order=True)
class VoterRecord:
    """Which record the voter set comes from: the leader compares a change with it (S11)."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        """As in a sentence."""
        return f"the voter record at offset {self.offset}"


@dataclass(frozen=True, slots=True)
class DescribedVoters:
    """Whose answer, and of which voters: a basis that no leader compares with anything (S11).

    The operator compares it with a later answer, directly before it requests the change.
    """

    leader: ReplicaId
    epoch: int
    voters: tuple[ReplicaId, ...]

    def __str__(self) -> str:
        """As in a sentence."""
        return f"the voter set of epoch {self.epoch}"


Basis = VoterRecord | DescribedVoters
"""What a voter change was decided on, in the form that the engine can check."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A voter change that the leader is working on."""

    kind: str
    replica: ReplicaId
    appended: bool
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """The leader's answer to DescribeQuorum."""

    cluster_id: str
    leader: ReplicaId
    epoch: int
    high_watermark: int
    voters: tuple[Progress, ...]
    committed: tuple[ReplicaId, ...]
    basis: Basis
    record_committed: bool
    observers: tuple[Progress, ...]
    pending: PendingChange | None
    formation_completed: bool
    epoch_committed: bool
    confirmed: bool

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """The voters in force."""
        return tuple(voter.replica for voter in self.voters)

    @property
    def highest_voter(self) -> int:
        """Highest node id of a voter in force or committed; -1 without any."""
        return max((r.node_id for r in (*self.replicas, *self.committed)), default=-1)

    def voters_of(self, node_id: int) -> tuple[Progress, ...]:
        """All voters with one node id: two while a disk is being replaced."""
        return tuple(voter for voter in self.voters if voter.replica.node_id == node_id)

    def observer(self, replica: ReplicaId) -> Progress | None:
        """What the leader knows of an observer."""
        return next((known for known in self.observers if known.replica == replica), None)


@dataclass(frozen=True, slots=True)
class LatchVoter:
    """A voter of the latched set and where it listens."""

    replica: ReplicaId
    endpoint: str | None


@dataclass(frozen=True, slots=True)
class Latch:
    """The formation latch, as read back from the API server (S18)."""

    cluster_id: str
    voters: tuple[LatchVoter, ...]
    adopted: bool = False
    """The quorum was there before this resource; the latch never formed it."""

    def lists(self, replica: ReplicaId) -> bool:
        """Whether a replica was latched as a first voter."""
        return any(voter.replica == replica for voter in self.voters)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A claim that the operator gave up for a fresh one."""

    claim_uid: str
    age_ms: int
    unused: bool
    """It never became a voter's."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """A scale-up that the operator deferred for a roll, because its pod could not start."""

    revision: str
    """Of the template that the roll gives to the pods."""
    why: str
    """Why the pod could not start."""


@dataclass(frozen=True, slots=True)
class StatefulSet:
    """The StatefulSet of the quorum."""

    uid: str
    resource_version: str
    replicas: int
    revision: str | None = None
    """The update revision, which a current pod's label names."""
    owner_uid: str | None = None
    terminating: bool = False
    records: tuple[tuple[int, ClaimRecord], ...] = ()
    """By ordinal: what was recorded last (S3)."""
    given_up: tuple[tuple[int, tuple[GivenUp, ...]], ...] = ()
    """By ordinal: the claims that were given up within a day."""

    def given_up_of(self, ordinal: int) -> tuple[GivenUp, ...]:
        """The claims of an ordinal that were given up within a day."""
        return dict(self.given_up).get(ordinal, ())

    defaults: str | None = None
    """The operator's defaults that hold, from its claim template; None: none."""
    cluster_domain: str | None = None
    """The cluster domain that the label of its claim template names."""
    image: str | None = None
    """The image that the operator gave to the nodes, unless the resource named it then."""
    settings: tuple[tuple[str, str], ...] = ()
    """What its template gives to each node, by the settings' names, in their order."""
    claim_size: str = ""
    """Size of each claim, as its template has it."""
    tls: TlsLevel = "disabled"
    """What its template has the listeners of nodes accept."""
    deferral: Deferral | None = None
    """The scale-up that was deferred last; `judge/scale_up.py` says whether it still is."""

    def record(self, ordinal: int) -> ClaimRecord | None:
        """What was recorded last for an ordinal."""
        return dict(self.records).get(ordinal)


@dataclass(frozen=True, slots=True)
class Budget:
    """The disruption budget, and what its controller makes of it (S22)."""

    uid: str
    counted: int | None = None
    """How many pods it selected when its controller counted; None: not since the
    budget's spec changed, and until then no eviction is allowed."""
    mark: str | None = None
    """What the operator last touched it for."""
    allowed: int | None = None
    """How many more of its pods may be evicted now; None: as for `counted`."""
    healthy: int | None = None
    """How many of its pods were ready and not terminating when it counted; None: as for
    `counted`."""
    pods: tuple[str, ...] | None = None
    """Names of the pods that it selects, whether or not they exist; None: it selects by anything
    else."""
    version: str | None = None
    """Its resourceVersion."""

    def selects(self, pod: str) -> bool:
        """Whether it selects the pod of this name."""
        return pod in (self.pods or ())


AS_LAST_KNOWN = "AsLastKnown"
"""Reason of a condition that stays True because no replica answers that could refute it."""


@dataclass(frozen=True, slots=True)
class LastKnown:
    """From the last status, for reports while no replica answers (`observe/last_known.py`)."""

    voters: tuple[ReplicaId, ...]
    """As the last leader that answered had them."""
    at: str
    """When that leader answered; empty: not known."""
    lost: str = ""
    """Why the quorum was lost, with the time; empty: it was not."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that was observed, at one time.

    Invariant: pods, claims and nodes are sorted by ordinal, none twice.
    """

    namespace: str
    name: str
    uid: str
    engine: Engine = RAFTNODE
    """What the replicas run."""
    generation: int = 1
    image_named: bool = False
    """Whether the resource names the image of the nodes."""
    cluster_domain: str = names.CLUSTER_DOMAIN
    """What the addresses of the quorum end with."""
    statefulset: StatefulSet | None = None
    pods: tuple[Pod, ...] = ()
    claims: tuple[Claim, ...] = ()
    nodes: tuple[Node, ...] = ()
    quorum: Quorum | None = None
    latch: Latch | None = None
    budget: Budget | None = None
    remembered_cluster_id: str | None = None
    """Cluster id in the status: only ever a reason not to form a quorum."""
    outdated: tuple[ObjectRef, ...] = ()
    """Objects that are missing or differ from the wanted ones."""
    refused: tuple[tuple[ObjectRef, str], ...] = ()
    """Objects that the operator could not write a moment ago, or of another owner, and why;
    not in `outdated`."""

    @property
    def rolls(self) -> bool:
        """Whether a pod has another template than the StatefulSet has now."""
        revision = self.statefulset.revision if self.statefulset is not None else None
        return revision is not None and any(
            pod.revision not in {None, revision} for pod in self.pods
        )

    refused_deletions: tuple[tuple[str, str], ...] = ()
    """UIDs of pods and claims that the API server refused to evict or delete a moment ago, and why:
    no retry is due yet."""

    refused_growths: tuple[tuple[str, str], ...] = ()
    """UIDs of claims that the API server refused to let grow when it was last asked, and why."""
    failed_growths: tuple[tuple[str, str], ...] = ()
    """UIDs of claims that could not be asked to grow for another reason, and why."""
    due_growths: frozenset[str] = frozenset()
    """Those of both for which a retry is due."""

    troubles: tuple[Trouble, ...] = ()
    """Pods and claims that have not been able to start for a while. Only whether a scale-up is
    deferred depends on them (`judge/scale_up.py`)."""

    failure: tuple[str, str] | None = None
    """A reason in one word and a sentence: the request that fails repeatedly."""
    certificates: Certificates | None = None
    """None: neither the resource nor a pod has TLS."""
    certificates_failing: tuple[str, str] | None = None
    """A reason in one word and a sentence: what is wrong with the certificates."""
    access: AccessFacts | None = None
    """None: neither the resource nor a pod has access control."""
    access_faults: tuple[AccessFault, ...] = ()
    """Why no access file can be made of `spec.access`."""
    access_written: bool = False
    """Whether the Secret of the nodes has the access file that the resource wants."""
    config_faults: tuple[str, ...] = ()
    """Why a node would refuse the wanted settings, a sentence for each fault."""
    kubernetes: tuple[int, int] | None = None
    """Version of the API server, read only before the StatefulSet exists."""
    last: LastKnown | None = None
    """What was last known; no decision depends on it."""

    @property
    def counted(self) -> int:
        """How many pods the disruption budget selects."""
        return sum(pod.counted for pod in self.pods)

    def pod(self, ordinal: int) -> Pod | None:
        """The pod of an ordinal."""
        return next((pod for pod in self.pods if pod.ordinal == ordinal), None)

    def claim(self, ordinal: int) -> Claim | None:
        """The claim of an ordinal."""
        return next((claim for claim in self.claims if claim.ordinal == ordinal), None)

    def node(self, ordinal: int) -> Node | None:
        """The answer of an ordinal's replica; None: it has not answered."""
        return next((node for node in self.nodes if node.replica.node_id == ordinal), None)

    def why_refused(self, uid: str) -> str | None:
        """Why the API server refused to delete a pod or a claim a moment ago; None: it did not."""
        return dict(self.refused_deletions).get(uid)

    def why_growth_refused(self, uid: str) -> str | None:
        """Why the API server refused to let a claim grow when last asked; None: it did not."""
        return dict(self.refused_growths).get(uid)

    def is_storage_gone(self, replica: ReplicaId) -> bool:
        """Whether this storage is known to be lost, not just silent."""
        node = self.node(replica.node_id)
        if node is not None:
            return node.replica != replica
        claim = self.claim(replica.node_id)
        return claim is None or claim.phase == "Lost"

    def may_hold_data(self) -> bool:
        """Whether a replica holds data, or the claim of a silent replica may hold data."""
        return any(not node.blank for node in self.nodes) or any(
            claim.phase != "Lost" and self.node(claim.ordinal) is None for claim in self.claims
        )

    def reported_voters(self) -> tuple[ReplicaId, ...]:
        """The voter set of the longest log that answers; empty: no replica answers with one."""
        holders = [node for node in self.nodes if not node.blank and node.voters]
        if not holders:
            return ()
        return max(holders, key=lambda node: (node.epoch, node.log_end_offset)).voters

    def known_voters(self) -> tuple[ReplicaId, ...]:
        """The best known voter set without a leader: of the longest log, else the latched one."""
        latched = tuple(voter.replica for voter in self.latch.voters) if self.latch else ()
        return self.reported_voters() or latched

    def has_formed(self) -> bool:
        """Whether there has been a leader with a committed record, by any remaining sign."""
        return (
            self.quorum is not None
            or (self.latch is not None and self.latch.adopted)
            or any(node.high_watermark > 0 for node in self.nodes)
            or any(claim.record is not None for claim in self.claims)
            or (self.last is not None and bool(self.last.voters))
        )

    def majority_answers(self) -> bool:
        """Whether a majority of the best known voters answers, each with its own storage."""
        known, alive = self.known_voters(), {node.replica for node in self.nodes}
        return bool(known) and sum(replica in alive for replica in known) >= majority(len(known))


@dataclass(frozen=True, slots=True)
class LeftIssued:
    """Certificates of cert-manager of a resource that is being deleted, or their Secrets."""

    authority_uid: str
    authority_version: str
    """Of the Secret that counts them."""
    objects: tuple[tuple[ObjectRef, str], ...] = ()
    """With the UID of each. Secrets only once no Certificate is left: cert-manager would write them
    again."""


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """A resource that is being deleted, and what the operator may delete of it."""

    uid: str
    orphaned: bool = False
    """Its objects are to stay as they are (`--cascade=orphan`); they are not read then."""
    delete_claims: bool = False
    statefulset: StatefulSet | None = None
    claims: tuple[Claim, ...] = ()
    latched: bool = False
    """Whether there is a ConfigMap with the latch's name, with any content."""
    authority_uid: str | None = None
    """UID of the Secret with the resource's CA; None: there is none."""
    issued: LeftIssued | None = None
    """What cert-manager has of it; None: nothing, or the operator may not look."""


def majority(voters: int) -> int:
    """How many of this many voters are a majority."""
    return voters // 2 + 1
