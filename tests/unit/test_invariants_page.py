"""docs/evidence/invariants.md has every invariant and fault asked for, and names what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from proofkit.simulator.faults import SLOW_WEIGHTS, SNAPSHOT_WEIGHTS, WEIGHTS

PAGE = Path("docs/evidence/invariants.md").read_text()
CHECKERS = sorted(Path("proofkit/proofkit/simulator").glob("*.py"))

INVARIANTS = (
    "one leader per epoch",
    "one persisted vote per epoch",
    "epoch, high watermark, applied monotone",
    "log matching",
    "leader completeness",
    "no truncation below the high watermark",
    "commit only past an own-epoch entry",
    "acknowledged means durable on a majority of the current set",
    "voter set is that of the last record in log or snapshot",
    "adjacent committed sets differ by one",
    "at most one uncommitted change",
    "snapshot covers the log's start",
    "equal state for equal offset",
    "linearizable history",
    "exactly-once sessions",
    "removed UUID never counted",
    "eventual progress after healing",
)
"""What the protocol's document asks to be checked after each event, in its order."""

OTHERS = (
    *("MonotonicHighWatermark", "MonotonicEpoch", "MajorityReachedHighWatermark", "SingleLeader"),
    *("SnapshotAtLogStart", "LeaderNeverLoadSnapshot", "ConsistentCommittedData"),
    *("LeaderHasAllAckedValues", "NoLogDivergence", "NeverTwoLeadersInSameEpoch"),
    *("NoIllegalState", "StatesMatchRoles"),
    *("LogInv", "MoreThanOneLeaderInv", "ElectionSafetyInv", "LogMatchingInv", "QuorumLogInv"),
    *("LeaderCompletenessInv", "CommittedIsDurableInv"),
    *("MonoTermInv", "LogConfigurationConsistentInv", "NeverCommitEntryPrevTermsProp"),
    "CommittedLogAppendOnlyProp",
)
"""The names of other proofs that it lists."""

FAULTS = (
    *("drop", "duplicate", "reorder", "delay", "asymmetric partition", "bridge partition"),
    *("pause", "clock jump", "kill at every persistence point", "lost unsynced writes"),
    *("torn tail", "bit rot", "misdirected write", "EIO on fsync", "ENOSPC", "wiped disk"),
    *("stale volume restored", "same-id pod twice"),
)
"""The faults that it lists."""


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(text: str) -> set[str]:
    """Checks and faults in back quotes."""
    return set(re.findall(r"`(\w+)`", text))


def reported() -> set[str]:
    """Every name that a checker can report, read off the code."""
    calls = (
        node
        for path in CHECKERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fail"
    )
    return {str(ast.literal_eval(call.args[0])) for call in calls}


def test_every_invariant_that_is_asked_for_has_its_checks() -> None:
    found = rows("Invariants that the project set out to check")
    assert tuple(row[0] for row in found) == INVARIANTS
    for invariant, here in found:
        assert named(here) or here.startswith("not built: "), invariant
        assert named(here) <= reported(), invariant


def test_every_name_of_another_proof_has_its_checks() -> None:
    found = rows("Names of other proofs")
    assert tuple(row[0] for row in found) == OTHERS
    for name, _, here in found:
        assert named(here), name
        assert named(here) <= reported(), name


def test_every_name_that_a_checker_reports_is_told() -> None:
    found = rows("Every check")
    names = [name for row in found for name in named(row[0])]
    assert names == sorted(reported(), key=str.lower)
    strict = named("\n".join(row[0] for row in found if row[0].endswith("(strict)")))
    calls = next(p for p in CHECKERS if p.stem == "strictchecker").read_text()
    assert {name for name in names if f'"{name}"' in calls} == strict


def test_every_check_is_shown_to_fire_where_the_page_says() -> None:
    spoilt = Path("tests/simulation/test_every_check.py").read_text()
    rows_of_spoils = spoilt.split("SPOILS: dict")[1].split("\n}\n")[0]
    for check, _, shown in rows("Every check"):
        [name] = named(check)
        assert ("spoilt" in shown) == (f'    "{name}": ' in rows_of_spoils), name
        files = re.findall(r"`(tests/[\w/]+\.py)`", shown)
        assert bool(files) == ("mutant" in shown), name
        for path in files:
            assert f'"{name}"' in Path(path).read_text(), (name, path)


def test_every_fault_that_is_asked_for_is_injected_somewhere() -> None:
    found = rows("Faults")
    assert tuple(row[0] for row in found)[: len(FAULTS)] == FAULTS
    for fault, simulated, elsewhere in found:
        assert simulated, fault
        assert named(simulated) or elsewhere, fault
    wanted = WEIGHTS.keys() | SNAPSHOT_WEIGHTS.keys() | SLOW_WEIGHTS.keys()
    assert named(" ".join(row[1] for row in found)) == wanted


def test_every_test_that_the_page_names_is_there() -> None:
    one_line = " ".join(PAGE.split())
    paths = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", one_line)
    assert len(paths) > 20
    for path, name in paths:
        assert Path(path).is_file(), path
        wanted = rf"^\s*(async )?def {name}\("
        assert not name or re.search(wanted, Path(path).read_text(), re.MULTILINE), (path, name)
