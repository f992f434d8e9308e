"""What the operator writes: its own keys alone, so that others stay and earlier ones go."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from kraftquorum_operator import names

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(600)]

OLDER = """
import sys
from kraftquorum_operator.resources import metadata as module
present = module.metadata
def older(owner, name):
    body = present(owner, name)
    return body | {"labels": body["labels"] | {"example.com/older": "yes"}}
module.metadata = older
from kraftquorum_operator.cli import app
sys.argv[0] = "kraftquorum-operator"
app()
"""
"""An earlier version, which gave its objects one label more."""

WRITTEN = (
    "service/demo",
    "service/demo-peers",
    "pdb/demo",
    "networkpolicy/demo",
    "statefulset/demo",
)


def _get(krq, target: str) -> dict[str, Any]:
    return json.loads(krq.kubectl("get", target, "-o", "json"))


def test_a_key_of_an_earlier_version_goes_and_those_of_other_clients_stay(krq, operators) -> None:
    older = operators.start(program=[sys.executable, "-c", OLDER])
    krq.apply(voters=1, tls={"mode": "Disabled"})
    krq.ready(1)
    pods = {pod["metadata"]["uid"] for pod in krq.list("pods")}
    for target in WRITTEN:
        assert _get(krq, target)["metadata"]["labels"]["example.com/older"] == "yes"
        krq.kubectl("label", target, "example.com/team=blue")
        krq.kubectl("annotate", target, "example.com/cost-centre=7")
    krq.kubectl("patch", "service", "demo", "-p", '{"spec": {"sessionAffinity": "ClientIP"}}')
    operators.stop(older)
    operators.start()
    for target in WRITTEN:
        krq.until(
            f"{target} without the older key",
            lambda of=target: "example.com/older" not in _get(krq, of)["metadata"]["labels"],
        )
        meta = _get(krq, target)["metadata"]
        assert meta["labels"]["example.com/team"] == "blue"
        assert meta["annotations"]["example.com/cost-centre"] == "7"
    assert _get(krq, "service/demo")["spec"]["sessionAffinity"] == "ClientIP"
    notes = _get(krq, "statefulset/demo")["metadata"]["annotations"]
    assert names.ANNOTATION_RECORDED + "0" in notes, "the record of the claim stays"
    krq.ready(1)
    assert pods == {pod["metadata"]["uid"] for pod in krq.list("pods")}, "no pod was restarted"


def _writes(operators) -> int:
    return sum(action.startswith("ApplyObjects") for action in operators.actions())


def test_what_a_person_changes_at_the_client_service_is_put_back_by_one_write(
    krq, operators
) -> None:
    operators.start()
    krq.apply(voters=1, tls={"mode": "Disabled"})
    krq.ready(1)
    before = _get(krq, "service/demo")["spec"]
    taken = [{"name": "api", "port": 80, "targetPort": "api"}]
    for number, change in enumerate(
        ({"publishNotReadyAddresses": True}, {"ports": taken}), start=_writes(operators) + 1
    ):
        change_of_a_person = json.dumps({"spec": change})
        krq.kubectl("patch", "service", "demo", "--type=merge", "-p", change_of_a_person)
        krq.until("put back", lambda: _get(krq, "service/demo")["spec"] == before)
        krq.until("written", lambda of=number: _writes(operators) >= of)
        krq.ready(1)
        assert _writes(operators) == number, operators.actions()
