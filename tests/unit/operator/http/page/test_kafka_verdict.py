"""A KafkaQuorum on the status page: in words whether a controller may be lost, and what to read."""

from __future__ import annotations

from typing import Any

import pytest

from kraftquorum_operator.http.page.kafka_verdict import judge_kafka
from kraftquorum_operator.http.page.render import html
from kraftquorum_operator.http.page.view import OperatorView, PageView, page_view
from kraftquorum_operator.memory.status_cache import CachedStatus
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus

OPERATOR = OperatorView(identity="operator-0", version="0.1.0", active=True)
DIRECTORY = "yujOA7MfSN-5RSlWjeduSQ"


def advised(kind: str = "Nothing", voters: int = 3, spare: int = 1) -> KafkaQuorumStatus:
    replica = {"nodeId": 2, "directoryId": DIRECTORY, "role": "leader", "fresh": True}
    return KafkaQuorumStatus.model_validate(
        {
            "observedGeneration": 1,
            "leaderId": 2,
            "epoch": 9,
            "voters": voters,
            "spareVoters": spare,
            "replicas": [replica | {"mayBeLost": False}],
            "advice": {"kind": kind, "message": f"the advice is {kind}"},
        }
    )


def refused(reason: str, **more: Any) -> KafkaQuorumStatus:
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": "the reason in words",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    return KafkaQuorumStatus.model_validate({"observedGeneration": 1, "conditions": [ready]} | more)


def entry(
    status: KafkaQuorumStatus | None, name: str = "orders", *, own: bool = True
) -> CachedStatus[KafkaQuorumStatus]:
    return CachedStatus("kafka", name, name, 0, status, 0.0, own)


def level(status: KafkaQuorumStatus | None) -> str:
    return judge_kafka(entry(status), 1.0).level


def page(*entries: CachedStatus[KafkaQuorumStatus]) -> PageView:
    return page_view((), OPERATOR, 1.0, kafka=entries)


@pytest.mark.parametrize(("voters", "spare"), [(1, 0), (2, 0), (3, 1), (5, 2)])
def test_a_quorum_whose_voters_are_all_fresh_is_safe(voters: int, spare: int) -> None:
    assert level(advised(voters=voters, spare=spare)) == "safe"


def test_no_voter_to_spare_is_a_risk_unless_there_is_nothing_to_do() -> None:
    assert level(advised("Wait", spare=0)) == "at-risk"
    # Two of three, after a removal without the addition.
    assert level(advised("Add", voters=2, spare=0)) == "at-risk"
    verdict = judge_kafka(entry(advised("Provide", spare=0)), 1.0)
    assert verdict.runbook == "kraftquorum-kafka-no-voter-to-spare"


def test_advice_weakens_a_quorum_with_a_voter_to_spare() -> None:
    verdict = judge_kafka(entry(advised("Provide", voters=5)), 1.0)
    assert (verdict.level, verdict.runbook) == ("weakened", "kraftquorum-kafka-action-advised")
    assert "1 voter may fail." in verdict.sentence


def test_a_forgotten_log_needs_a_person_however_many_voters_are_fresh() -> None:
    verdict = judge_kafka(entry(advised("DecisionNeeded")), 1.0)
    assert (verdict.level, verdict.runbook) == ("blocked", "kraftquorum-kafka-decision-needed")


@pytest.mark.parametrize(
    ("reason", "wanted", "runbook"),
    [
        ("NoLeader", "stopped", "kraftquorum-kafka-no-leader"),
        # The operator may be the one that is cut off.
        ("Unreachable", "unknown", "kraftquorum-kafka-no-leader"),
        ("StaticQuorum", "unknown", "kraftquorum-kafka-no-advice"),
        ("SecretMissing", "unknown", "kraftquorum-kafka-no-advice"),
    ],
)
def test_without_advice_nothing_is_called_safe(reason: str, wanted: str, runbook: str) -> None:
    verdict = judge_kafka(entry(refused(reason)), 1.0)
    assert (verdict.level, verdict.runbook) == (wanted, runbook)
    assert "the reason in words" in verdict.sentence


@pytest.mark.without(
    "kraftquorum_operator.http.page.kafka_verdict:judge_kafka",
    "entry.own and age_s > stale_s",
    "False",
)
def test_an_old_check_of_this_operator_is_not_shown_as_the_state_of_now() -> None:
    for own, wanted in ((True, "unknown"), (False, "safe")):
        assert judge_kafka(entry(advised(), own=own), 1.0).level == "safe"
        assert judge_kafka(entry(advised(), own=own), 301.0).level == wanted
    assert level(None) == "unknown"


def test_the_worst_is_first_and_a_kafka_quorum_is_called_one() -> None:
    view = page(entry(advised(), "well"), entry(refused("NoLeader"), "ill"), entry(None, "new"))
    assert [quorum.name for quorum in view.kafka_quorums] == ["ill", "new", "well"]
    assert view.summary == (
        "2 of 3 quorums need attention, first Kafka quorum kafka/ill: writes stopped."
    )
    shown = html(view, root="")
    assert shown.index("kafka:kafka.ill") < shown.index("kafka:kafka.well")


def test_the_page_shows_replicas_advice_and_notes_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    body = advised("Provide", spare=0).model_dump(by_alias=True, exclude_none=True)
    status = KafkaQuorumStatus.model_validate(body | {"notes": [hostile]})
    shown = html(page(entry(status)), root="")
    for words in ("Controller 2", DIRECTORY, "the advice is Provide", "changes nothing in Kafka"):
        assert words in shown
    assert "needed for a majority" in shown
    assert hostile not in shown
    assert "&lt;script&gt;" in shown
