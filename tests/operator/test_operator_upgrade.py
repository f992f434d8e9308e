"""The operator exchanged for a newer one, whose template differs, in a replacement."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

NEWER = """
import sys
from kraftquorum_operator.resources import statefulset
statefulset.GRACE_SECONDS += 1
from kraftquorum_operator.cli import app
sys.argv[0] = "kraftquorum-operator"
app()
"""
"""Another version: its pods get a second more to end, so that each of them is outdated."""


def _images(krq) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in krq.list("pods")}


def test_another_default_image_rolls_only_a_quorum_that_follows_it(krq, operators) -> None:
    first, second = "kraftquorum/raftnode:1", "kraftquorum/raftnode:2"
    operator = operators.start(node_image=first)
    krq.apply(voters=3)
    krq.ready(3)
    pods = {pod["metadata"]["uid"] for pod in krq.list("pods")}
    operators.stop(operator)
    operators.start(node_image=second)
    krq.kubectl("scale", "krq", "demo", "--replicas=4")
    krq.ready(4)
    assert pods < {pod["metadata"]["uid"] for pod in krq.list("pods")}
    assert _images(krq) == {first}, "a new replica is of the image of the others"
    krq.apply(voters=4, imageUpdates="Automatic")
    krq.until("rolled", lambda: _images(krq) == {second} and krq.is_ready(4))


@pytest.mark.nightly
def test_a_newer_operator_finishes_the_replacement_then_rolls_its_own_template(
    krq, operators, writing
) -> None:
    older = operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    writing.start()
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pods")}
    lost = (krq.leader() + 1) % 3
    old = dict(krq.voters())[lost]
    krq.wipe(lost)
    joined = f"JoinNode {lost}-"
    krq.until("joined", lambda: any(a.startswith(joined) for a in operators.actions()))

    # As a Deployment does it: the newer one comes up, then the older one is told to end.
    newer = operators.start(program=[sys.executable, "-c", NEWER])
    operators.stop(older)
    krq.until("the newer one is active", lambda: operators.holds_lease(newer))
    krq.replaced(lost, old)

    def is_rolled() -> bool:
        now = krq.list("pods")
        recreated = not {p["metadata"]["uid"] for p in now} & set(before.values())
        grace = {p["spec"]["terminationGracePeriodSeconds"] for p in now}
        return recreated and len(grace) == 1 and krq.is_ready(3)

    krq.until("rolled", is_rolled)
    actions = operators.actions()
    added = [a for a in actions if a.startswith("AddVoter") and "done" in a]
    assert len(added) == 1, "the replacement was carried on, not begun again"
    first = next(n for n, a in enumerate(actions) if "its template is outdated" in a)
    assert actions.index(added[0]) < first, "repair before the roll"
    assert krq.get("sts")["spec"]["replicas"] == 3
    writing.finish(bounded=True)
