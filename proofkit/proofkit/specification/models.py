"""The bounds under which TLC checks the specification, and the rules taken out to test the check.

What lives here: worlds and mutants as data, and how they become TLC's files. The actions are in
`KRaftQuorum.tla`, what bounds them in `Model.tla`, what replaces a rule in `Mutants.tla`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from proofkit.specification import tlc
from proofkit.specification.recorder import NONE, Replica, Step
from proofkit.specification.traces import text

INVARIANTS: Final = (
    "TypeOK",
    "ElectionSafety",
    "LeaderCompleteness",
    "StateMachineSafety",
    "LogMatching",
    "OneVotePerEpoch",
    "KeepsWhatIsCommitted",
    "CommittedSurvives",
)
PROPERTIES: Final = ("HighWatermarksRise",)


@dataclass(frozen=True, slots=True)
class World:
    """A quorum that was formed, and what may happen to it.

    Attributes:
        formed: its voters; the first leads epoch 1.
        blank: replicas on blank disks.
        standing: who may start an election.
        hearing: who votes for others and follows others; empty: all.
        epochs, records: the largest epoch and the longest log.
        crashes, losses, changes, writes: how often each may happen.
        crashing, losing, adding, removing: to which replicas.
        learning: whether followers learn the high watermark.
        snapshots: whether replicas may begin with a snapshot.
        prelude: steps that come first; the search begins after them.
    """

    formed: Sequence[Replica] = ((1, 1), (2, 1), (3, 1))
    blank: Sequence[Replica] = ()
    standing: Sequence[Replica] = ()
    hearing: Sequence[Replica] = ()
    epochs: int = 2
    records: int = 3
    crashes: int = 0
    losses: int = 0
    changes: int = 0
    writes: int = 0
    crashing: Sequence[Replica] = ()
    losing: Sequence[Replica] = ()
    adding: Sequence[Replica] = ()
    removing: Sequence[Replica] = ()
    learning: bool = False
    snapshots: bool = False
    prelude: Sequence[Step] = ()

    def __str__(self) -> str:
        """For reports: what is not named does not happen."""
        parts = [f"{len(self.formed)} voters"]
        if self.blank:
            parts.append(f"{len(self.blank)} blank")
        parts += [f"epochs<={self.epochs}", f"records<={self.records}"]
        parts.append(f"standing={len(self.standing)}")
        for name in ("crashes", "losses", "changes", "writes"):
            if getattr(self, name):
                parts.append(f"{name}={getattr(self, name)}")
        parts += [name for name in ("learning", "snapshots") if getattr(self, name)]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule of the specification, what takes its place, and a world in which that shows.

    Attributes:
        replaced: the definition of `KRaftQuorum.tla`.
        by: the definition of `Mutants.tla`.
        violated: the property that TLC must report.
        world: where.
    """

    replaced: str
    by: str
    violated: str
    world: World


def _replicas(replicas: Sequence[Replica]) -> str:
    return text(frozenset(replicas))


def _truth(value: bool) -> str:  # noqa: FBT001
    return "TRUE" if value else "FALSE"


def check(
    world: World,
    mutant: Mutant | None = None,
    *,
    long: bool = False,
    seconds_max: float | None = None,
) -> tlc.Outcome:
    """Let TLC look for a state of a world in which a property does not hold.

    Raises:
        tlc.TlcError: TLC could not check it.
    """
    everyone = (*world.formed, *world.blank)
    constants = {
        "Replicas": _replicas(everyone),
        "Values": "{<<0, 1>>}",
        "Formed": _replicas(world.formed),
        "FirstLeader": text(world.formed[0]),
        "Standing": _replicas(world.standing),
        "Hearing": _replicas(world.hearing or everyone),
        "Adding": _replicas(world.adding),
        "Removing": _replicas(world.removing),
        "Losing": _replicas(world.losing),
        "Crashing": _replicas(world.crashing),
        "EpochMax": str(world.epochs),
        "RecordsMax": str(world.records),
        "Budget": f"[crash |-> {world.crashes}, loss |-> {world.losses}, "
        f"change |-> {world.changes}, write |-> {world.writes}]",
        "Learning": _truth(world.learning),
        "Snapshotting": _truth(world.snapshots),
        "Prelude": text(world.prelude),
    }
    lines = ["---- MODULE World ----", "EXTENDS Mutants"]
    lines += [f"World{name} == {value}" for name, value in constants.items()]
    config = [f"CONSTANT {name} <- World{name}" for name in constants]
    if mutant is not None:
        config.append(f"CONSTANT {mutant.replaced} <- {mutant.by}")
    config += ["SPECIFICATION ModelSpec", "CONSTRAINT Bounded"]
    config += [f"INVARIANT {name}" for name in INVARIANTS]
    if mutant is None:
        config += [f"PROPERTY {name}" for name in PROPERTIES]
    files = {
        "World.tla": "\n".join([*lines, "===="]) + "\n",
        "World.cfg": "\n".join(config) + "\n",
    }
    return tlc.run("World", files, long=long, seconds_max=seconds_max)


A, B, C, D = (1, 1), (2, 1), (3, 1), (4, 1)
B2, C2 = (2, 2), (3, 2)
"""The second disks of the nodes 2 and 3."""

SMOKE: Final[dict[str, tuple[World, tuple[int, int]]]] = {
    "replace-in-two": (
        World(
            formed=(A, B),
            blank=(B2,),
            standing=(B2,),
            hearing=(A, B2),
            losses=1,
            changes=2,
            losing=(B,),
            adding=(B2,),
            removing=(B,),
        ),
        (22072, 23),
    ),
    "crash-in-two": (
        World(formed=(A, B), standing=(A, B), crashes=1, writes=1, crashing=(A,)),
        (1056, 17),
    ),
    "elect-in-three": (World(standing=(B,), writes=1), (23406, 24)),
}
"""Each with the states and the depth that TLC finds: seconds. A world that loses states tells."""

FULL: Final[dict[str, tuple[World, tuple[int, int]]]] = {
    "elect-two-in-three": (World(standing=(B, C), writes=1, learning=True), (122510, 27)),
    "crash-and-learn-in-two": (
        World(
            formed=(A, B),
            standing=(A, B),
            epochs=3,
            records=4,
            crashes=2,
            writes=1,
            crashing=(A, B),
            learning=True,
        ),
        (153284, 28),
    ),
    "snapshots-for-a-new-disk": (
        World(
            formed=(A, B),
            blank=(B2,),
            standing=(B,),
            changes=1,
            writes=1,
            adding=(B2,),
            learning=True,
            snapshots=True,
        ),
        (145508, 25),
    ),
}
"""Minutes each."""

MUTANTS: Final = {
    "votes-twice": Mutant("HasNotVoted", "AnyCandidate", "OneVotePerEpoch", World(standing=(B, C))),
    "vote-lost-in-crash": Mutant(
        "Restart",
        "RestartWithoutVote",
        "OneVotePerEpoch",
        World(standing=(B, C), crashes=1, crashing=(A, B)),
    ),
    "vote-lost-with-disk": Mutant(
        "LoseDisk",
        "WipeInPlace",
        "OneVotePerEpoch",
        World(standing=(B, C), losses=1, losing=(A,)),
    ),
    "votes-for-any-log": Mutant(
        "IsUpToDate",
        "AnyLog",
        "LeaderCompleteness",
        World(standing=(C,), writes=1),
    ),
    "counts-unflushed": Mutant(
        "Acknowledged",
        "AcknowledgedUnflushed",
        "CommittedSurvives",
        World(standing=(C,), hearing=(A, B), writes=1, crashes=1, crashing=(A,)),
    ),
    # A record of epoch 1 is on A alone, C leads epoch 2, and A the next.
    "commits-old-epochs": Mutant(
        "IsOfOwnEpoch",
        "AnyRecord",
        "LeaderCompleteness",
        World(
            standing=(C,),
            hearing=(B,),
            epochs=4,
            records=4,
            prelude=(
                ("Write", A, (0, 1)),
                ("Flush", A, 2),
                ("Restart", A, 2, 0),
                ("StartElection", C, 2),
                ("GrantVote", B, 2, C),
                ("BecomeLeader", C, 2),
                ("StartElection", A, 2),
                ("StartElection", A, 3),
                ("GrantVote", B, 3, A),
                ("BecomeLeader", A, 3),
                ("Resign", C),
                ("LearnEpoch", C, 3),
            ),
        ),
    ),
    "two-changes-at-once": Mutant(
        "HasNoUncommittedChange",
        "AnyTime",
        "LeaderCompleteness",
        World(
            blank=(B2, C2),
            standing=(B,),
            hearing=(C, B2, C2),
            prelude=(
                ("AddVoter", A, B2),
                ("AddVoter", A, C2),
                ("Flush", A, 3),
                ("Follow", B2, 1, A),
                ("Replicate", B2, 3, ((1, NONE), (1, NONE), (1, NONE))),
                ("Flush", B2, 3),
                ("Fetch", B2, 3, 3),
                ("Follow", C2, 1, A),
            ),
        ),
    ),
    # A leader of epoch 1 and one of epoch 2 each remove a voter of the other's set.
    "changes-before-own-epoch": Mutant(
        "HasCommittedInOwnEpoch",
        "AnyTime",
        "LeaderCompleteness",
        World(
            formed=(A, B, C, D),
            standing=(A,),
            hearing=(B, D),
            epochs=3,
            changes=1,
            removing=(A,),
            prelude=(
                ("RemoveVoter", A, D),
                ("Flush", A, 2),
                ("StartElection", C, 2),
                ("GrantVote", B, 2, C),
                ("GrantVote", D, 2, C),
                ("BecomeLeader", C, 2),
                ("Restart", A, 2, 0),
                ("StartElection", A, 2),
            ),
        ),
    ),
    "counts-ids": Mutant(
        "IsMajority",
        "MajorityOfIds",
        "LeaderCompleteness",
        World(
            blank=(C2,),
            standing=(B,),
            hearing=(C, C2),
            writes=1,
            prelude=(("AddVoter", A, C2), ("Flush", A, 2), ("Follow", C2, 1, A)),
        ),
    ),
    "installs-over-a-longer-log": Mutant(
        "Covers",
        "CoversNothing",
        "LeaderCompleteness",
        World(
            formed=(A, B),
            standing=(B,),
            snapshots=True,
            prelude=(
                ("Write", A, (0, 1)),
                ("Write", A, (0, 2)),
                ("Flush", A, 3),
                ("Replicate", B, 3, ((1, (0, 1)), (1, (0, 2)))),
                ("Flush", B, 3),
                ("Fetch", B, 3, 3),
                ("Commit", A, 3),
            ),
        ),
    ),
    "counts-leader-outside": Mutant(
        "MayCommit",
        "MayCommitCountingItself",
        "CommittedSurvives",
        World(formed=(A, B), standing=(B,), changes=1, writes=1, removing=(A,)),
    ),
}
