"""Requests that fail repeatedly are reported in a condition, even if nothing can be observed."""

from __future__ import annotations

from kraftquorum_operator.errors import (
    ConflictError,
    NodeRefusedError,
    NodeUnreachableError,
    RefusedError,
)
from kraftquorum_operator.memory.request_failures import Failures, word
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.unobserved import unobserved_status
from proofkit.operatorworld.observations import healthy

NOW = Stamp("2026-01-01T00:00:09Z", 3)
FAILURE = ("Forbidden", "the quorum cannot be observed: 403 pods is forbidden")


def test_an_error_in_one_word() -> None:
    assert word(RefusedError(403, "Forbidden", "x")) == "Forbidden"
    assert word(ConflictError(409, "", "x")) == "Conflict"
    assert word(NodeRefusedError("STALE_VOTER_RECORD", "x")) == "STALE_VOTER_RECORD"
    assert word(NodeUnreachableError("x")) == "NodeUnreachable"
    assert word(RefusedError(403, "pods must not run as root, says policy 7", "x")) == "Refused"
    assert word(RefusedError(403, "x" * 129, "x")) == "Refused"


def test_one_failure_is_everyday_and_two_in_a_row_are_told() -> None:
    failures = Failures()
    failures.failed("Conflict", "once")
    assert failures.mark(healthy()).failure is None
    failures.failed("Forbidden", "twice")
    observation = failures.mark(healthy())
    assert observation.failure == ("Forbidden", "twice")
    found = {c.type: c for c in conditions(observation, 3, Done("x"), (), NOW)}["Failing"]
    assert (found.status, found.reason, found.message) == ("True", "Forbidden", "twice")
    failures.clear()
    assert failures.mark(healthy()).failure is None


def test_the_status_stays_as_it_was_but_its_conditions_do_not() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Done", "message": "well"}
    was = {"type": "Failing", "status": "False", "reason": "NotFailing", "message": ""}
    resource = {
        "metadata": {"name": "demo"},
        "status": {"phase": "Running", "conditions": [ready, was]},
    }
    change = unobserved_status(resource, FAILURE, NOW)
    assert change is not None
    kept, new = change["status"]["conditions"]
    assert (kept["status"], kept["reason"]) == ("Unknown", "NotObserved")
    assert kept["message"] == (
        "last observed before this operator started, when it was True, Done: well"
    )
    assert (new["status"], new["reason"], new["lastTransitionTime"]) == (
        "True",
        "Forbidden",
        NOW.now,
    )
    resource["status"]["conditions"] = [kept, new]
    assert unobserved_status(resource, FAILURE, Stamp("2026-01-01T00:01:00Z", 3)) is None
    later = unobserved_status(resource, ("Forbidden", "other"), Stamp("2026-01-01T00:01:00Z", 3))
    assert later is not None
    assert later["status"]["conditions"][1]["lastTransitionTime"] == NOW.now


def test_a_quorum_that_was_never_observed_gets_a_status_that_the_crd_allows() -> None:
    change = unobserved_status({"metadata": {"name": "demo"}}, FAILURE, NOW)
    assert change is not None
    assert change["status"]["phase"] == "Forming"
    assert change["status"]["observedGeneration"] == 3
    assert [c["type"] for c in change["status"]["conditions"]] == ["Failing"]
