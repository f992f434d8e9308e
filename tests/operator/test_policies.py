"""What each recovery policy does about a lost disk, to the end."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


def _waits(krq, guard: str) -> None:
    krq.until(f"waiting for {guard}", lambda: krq.status().get("waitingFor") == guard)


def _claim(krq, ordinal: int) -> dict:
    """UID of a claim, and since when it is being deleted if it is."""
    meta = krq.get("pvc", f"data-demo-{ordinal}")["metadata"]
    return {key: meta.get(key) for key in ("uid", "deletionTimestamp")}


def _provide_a_disk(krq, ordinal: int) -> None:
    """What the message of `deletion_policy_allows` asks a person for."""
    krq.kubectl("delete", "pvc", f"data-demo-{ordinal}", "--wait=false")
    krq.kubectl("delete", "pod", f"demo-{ordinal}", "--wait=false")


def test_disabled_only_reports_and_manual_uses_the_disk_that_a_person_provides(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, replacement={"policy": "Disabled", "gracePeriodSeconds": 2})
    krq.ready(3)
    first = dict(krq.voters())
    writing.start()

    # Disabled: reported, and nothing else, whether the disk is damaged or there is an empty one.
    krq.break_disk(1)
    _waits(krq, "deletion_policy_allows")
    krq.until_status("what to do", lambda now: "delete its claim, then its pod" in now["message"])
    assert krq.condition("Degraded")["status"] == "True"
    assert krq.condition("Progressing")["status"] == "False"
    _provide_a_disk(krq, 1)
    _waits(krq, "replacement_policy_allows")
    time.sleep(3)  # longer than the grace period
    assert dict(krq.voters()) == first
    krq.until_status(
        "a blank node", lambda now: {n["nodeId"]: n["role"] for n in now["nodes"]}[1] == "blank"
    )
    done = [a.split()[0] for a in operators.actions()]
    assert not {"DeleteClaim", "JoinNode", "AddVoter", "RemoveVoter"} & set(done)

    # Manual: the empty disk is used.
    krq.apply(voters=3, replacement={"policy": "Manual", "gracePeriodSeconds": 2})
    krq.replaced(1, first[1])
    assert not [a for a in operators.actions() if a.startswith("DeleteClaim")]
    second = dict(krq.voters())
    assert krq.changes(writing.finish(bounded=True)) == [
        ("AddVoter", 1, second[1]),
        ("RemoveVoter", 1, first[1]),
    ]


@pytest.mark.nightly
def test_manual_deletes_no_disk_and_remove_first_takes_the_lost_voter_out_first(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(
        voters=3,
        replacement={"policy": "Manual", "order": "RemoveFirst", "gracePeriodSeconds": 2},
    )
    krq.ready(3)
    leader, first = krq.leader(), dict(krq.voters())
    writing.start()
    krq.break_disk(leader)
    _waits(krq, "deletion_policy_allows")
    claim = _claim(krq, leader)
    time.sleep(3)
    assert _claim(krq, leader) == claim
    _provide_a_disk(krq, leader)
    krq.replaced(leader, first[leader])
    second = dict(krq.voters())
    assert not [a for a in operators.actions() if a.startswith("DeleteClaim")]
    assert krq.changes(writing.finish(bounded=True)) == [
        ("RemoveVoter", leader, first[leader]),
        ("AddVoter", leader, second[leader]),
    ]
