"""`spec.config` on a real API server: rolled out, refused, taken back; what a new quorum is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraftquorum_operator import names

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

CALM = {"fetch_timeout_ms": 9000}
"""No election but by a leadership transfer, however slow the machine."""
CALM_GRACE = {"gracePeriodSeconds": 9}
EIGHTH = str((1 << 30) // 8)


def pods(krq) -> dict[str, str]:
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in krq.list("pods")}


def settings(pod_spec: dict[str, Any]) -> dict[str, str]:
    (container,) = pod_spec["containers"]
    return {
        e["name"]: e["value"]
        for e in container["env"]
        if e["name"].startswith("RAFTNODE_") and "value" in e
    }


def of_the_template(krq) -> dict[str, str]:
    return settings(krq.get("sts")["spec"]["template"]["spec"])


def of_the_pods(krq) -> list[dict[str, str]]:
    return [settings(pod["spec"]) for pod in krq.list("pods")]


def rolled(krq, before: dict[str, str]) -> None:
    def is_rolled() -> bool:
        now = pods(krq)
        recreated = len(now) == len(before) and not set(now.values()) & set(before.values())
        return recreated and krq.is_ready(len(before))

    krq.until("rolled", is_rolled)


def rejected(krq, word: str) -> str:
    """Wait until the condition says a word; returns all that it says."""

    def says() -> bool:
        condition = krq.condition("ConfigRejected")
        return condition.get("status") == "True" and word in condition["message"]

    krq.until(f"rejected for {word}", says)
    return krq.condition("ConfigRejected")["message"]


def test_a_setting_is_rolled_out_held_back_while_it_is_refused_and_taken_back_again(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, config=CALM, replacement=CALM_GRACE)
    krq.ready(3)
    voters, before, template = krq.voters(), pods(krq), of_the_template(krq)
    assert template["RAFTNODE_LOG_RETENTION_BYTES"] == EIGHTH
    assert krq.status()["config"]["log_retention_bytes"] == EIGHTH
    assert krq.condition("LogOutgrowsDisk")["status"] == "False"
    writing.start()

    wanted = CALM | {"log_level": "debug"}
    krq.apply(voters=3, config=wanted | {"log_retention_byte": 5}, replacement=CALM_GRACE)
    assert "did you mean log_retention_bytes?" in rejected(krq, "log_retention_byte ")
    krq.apply(voters=3, config=wanted | {"fetch_max_wait_ms": 5000}, replacement=CALM_GRACE)
    told = rejected(krq, "fetch_max_wait_ms (5000)")
    assert "fetch_timeout_ms (9000) must be at least twice" in told
    assert krq.status()["waitingFor"] == "config_accepted"
    assert (pods(krq), of_the_template(krq)) == (before, template), "nothing of it was done"
    by_hand = {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}},
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"},
    }
    krq.kubectl("patch", "sts", "demo", "--type=merge", "-p", json.dumps({"spec": by_hand}))

    def is_put_back() -> bool:
        now = krq.get("sts")["spec"]
        return now["updateStrategy"] == {"type": "OnDelete"} and set(
            now["persistentVolumeClaimRetentionPolicy"].values()
        ) == {"Retain"}

    krq.until("protections put back", is_put_back)
    assert krq.condition("ConfigRejected")["status"] == "True"
    assert (pods(krq), of_the_template(krq)) == (before, template), "nothing of it was done"

    krq.apply(voters=3, config=wanted, replacement=CALM_GRACE)
    rolled(krq, before)
    assert krq.condition("ConfigRejected")["status"] == "False"
    assert all(given["RAFTNODE_LOG_LEVEL"] == "debug" for given in of_the_pods(krq))
    assert krq.status()["config"]["log_level"] == "debug"

    before = pods(krq)
    krq.apply(voters=3, config=CALM, replacement=CALM_GRACE)
    rolled(krq, before)
    assert of_the_template(krq) == template
    assert of_the_pods(krq) == [template] * 3, "a key that is gone is as by default again"
    assert "log_level" not in krq.status()["config"]
    assert krq.voters() == voters, "a restart changes no voter"
    writing.finish(bounded=True)


def test_a_quorum_whose_settings_are_refused_is_formed_once_they_are_right(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3, config={"max_batch_bytes": 8 << 20, "segment_bytes": 4096})
    rejected(krq, "max_batch_bytes (8388608) exceeds segment_bytes (4096)")
    assert not krq.list("sts")
    assert not krq.list("pods")
    assert not krq.latches()
    krq.apply(voters=3, config={"max_batch_bytes": 8 << 20})
    krq.ready(3)


@pytest.mark.nightly
def test_data_from_before_the_default_keeps_every_record_until_a_person_says_otherwise(
    krq, operators
) -> None:
    """Claims without the mark, as an earlier operator made them, and a recreated StatefulSet."""
    operator = operators.start()
    krq.apply(voters=3)
    krq.ready(3)
    operators.stop(operator)
    mark = "kraftquorum.io/defaults"
    assert {c["metadata"]["labels"].get(mark) for c in krq.list("pvc")} == {names.DEFAULTS}
    krq.kubectl("label", "pvc", "--all", f"{mark}-")
    krq.kubectl("delete", "sts", "demo", "--cascade=orphan")
    operators.start()
    krq.until("StatefulSet made again", lambda: bool(krq.list("sts")))
    assert "RAFTNODE_LOG_RETENTION_BYTES" not in of_the_template(krq)
    krq.until(
        "told that the log can fill its disk",
        lambda: krq.condition("LogOutgrowsDisk").get("reason") == "RetentionOff",
    )
    krq.until(
        "every pod as the template",
        lambda: (
            krq.is_ready(3)
            and all("RAFTNODE_LOG_RETENTION_BYTES" not in given for given in of_the_pods(krq))
        ),
    )
    before = pods(krq)
    krq.apply(voters=3, config={"log_retention_bytes": 64 << 20})
    rolled(krq, before)
    assert all(given["RAFTNODE_LOG_RETENTION_BYTES"] == str(64 << 20) for given in of_the_pods(krq))
    assert krq.condition("LogOutgrowsDisk")["status"] == "False"
