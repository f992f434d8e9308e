"""An image that cannot be pulled: before there is a leader, a fixed spec fixes the pods."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

WRONG = "registry.invalid/raftnode:0"
"""No registry is in `.invalid`; the process node takes every other image as there."""


def _stuck(krq) -> set[str]:
    """Pods whose image cannot be pulled."""
    found: set[str] = set()
    for pod in krq.list("pods"):
        states = [c["state"] for c in pod.get("status", {}).get("containerStatuses", [])]
        if any(state.get("waiting", {}).get("reason") == "ImagePullBackOff" for state in states):
            found.add(pod["metadata"]["name"])
    return found


def _claims(krq) -> dict[str, str]:
    return {c["metadata"]["name"]: c["metadata"]["uid"] for c in krq.list("pvc")}


def test_a_wrong_image_at_the_first_formation_is_fixed_by_fixing_the_spec(krq, operators) -> None:
    """With `OnDelete` no controller recreates the pods (a roll to it: test_rolling.py)."""
    operators.start()
    krq.apply(voters=3, image=WRONG)
    krq.until("all stuck", lambda: len(_stuck(krq)) == 3)

    def is_told() -> bool:
        status = krq.status()
        guard = status.get("waitingFor")
        return guard == "all_blank_before_formation" and WRONG in status["message"]

    krq.until("told why", is_told)
    claims = _claims(krq)
    krq.apply(voters=3)
    krq.ready(3)
    assert krq.condition("FormationBlocked")["status"] == "False"
    assert _claims(krq) == claims, "no claim was touched"
    assert krq.latched() == set(krq.voters())
    ended = [a for a in operators.actions() if a.startswith("DeletePod") and a.endswith("done")]
    deleted = [a for a in ended if "and is kept" not in a]
    assert len(deleted) == 3, deleted
