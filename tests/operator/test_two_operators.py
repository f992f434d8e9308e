"""Two operators that both act (S26): harmless, even where the Lease does not part them."""

from __future__ import annotations

import json
import time

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]


def _acted(operators, number: int) -> int:
    lines = (operators.logs / f"operator-{number}.log").read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return sum(event["event"] == "action_finished" for event in events)


def _rests(operators) -> bool:
    """Whether both do nothing for two of their idle pauses."""
    acted = [_acted(operators, number) for number in (0, 1)]
    time.sleep(2 * 2)
    return [_acted(operators, number) for number in (0, 1)] == acted


@pytest.mark.rule("S26")
def test_two_active_operators_do_every_step_once(krq, operators, writing) -> None:
    # Two Leases: each believes that it is the only one.
    for name in ("first", "second"):
        operators.start(lease_name=name)
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    assert krq.latched() == set(krq.voters())
    writing.start()

    krq.kubectl("scale", "krq", "demo", "--replicas=5")
    krq.ready(5)
    five = dict(krq.voters())
    claims = {c["metadata"]["name"]: c["metadata"]["uid"] for c in krq.list("pvc")}

    krq.break_disk(1)
    krq.replaced(1, five[1], 5)
    voters = dict(krq.voters())
    after = {c["metadata"]["name"]: c["metadata"]["uid"] for c in krq.list("pvc")}
    pods = {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pods")}
    assert {name for name in claims if claims[name] != after[name]} == {"data-demo-1"}

    # Both look at it again, and again, and find nothing to do.
    krq.until("both at rest", lambda: _rests(operators))
    assert min(_acted(operators, number) for number in (0, 1)) > 0, "both did something"
    assert dict(krq.voters()) == voters
    assert {c["metadata"]["name"]: c["metadata"]["uid"] for c in krq.list("pvc")} == after
    assert {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pods")} == pods

    assert krq.changes(writing.finish(bounded=True)) == [
        ("AddVoter", 3, five[3]),
        ("AddVoter", 4, five[4]),
        ("AddVoter", 1, voters[1]),
        ("RemoveVoter", 1, five[1]),
    ]
