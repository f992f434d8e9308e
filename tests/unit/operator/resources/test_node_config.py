"""`spec.config`: allowed settings, refusals and their messages, and the settings of the nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.judge.log_size import why_log_outgrows
from kraftquorum_operator.model.config import ALLOWED, CHOICES, SET_BY_OPERATOR, config_schema
from kraftquorum_operator.model.crd import schema_of
from kraftquorum_operator.model.defaults import defaults_of
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Claim, StatefulSet
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.kube import read_claims, read_statefulset
from kraftquorum_operator.plan.actions import CreateLatch, CreateStatefulSet, Done, Wait
from kraftquorum_operator.report.conditions import CONDITIONS, Context
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import managed_defaults, node_config
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    claim,
    healthy,
    node,
    pod,
    spec,
    voter,
    with_node,
    with_pod,
    with_quorum,
)
from raftnode.core.types import Endpoint
from raftnode.settings import NodeSettings

OWNER = Owner("space", "demo", "uid-1")
FAULTS = ("config.retention is not a node setting; did you mean log_retention_bytes?",)
REFUSED = replace(healthy(), config_faults=FAULTS)


def body(*, defaults: str | None = names.DEFAULTS, **wanted: object) -> Body:
    return bodies(QuorumSpec.model_validate(wanted), defaults)[ObjectRef("StatefulSet", "demo")]


def bodies(wanted: QuorumSpec, defaults: str | None = names.DEFAULTS) -> dict[ObjectRef, Body]:
    return build(OWNER, wanted, 3, node_config(wanted, defaults))


def live(**wanted: Any) -> StatefulSet:
    """The StatefulSet as it is read back."""
    meta = {"uid": "u", "resourceVersion": "1", "labels": {}, "annotations": {}}
    found = read_statefulset(body(**wanted) | {"metadata": meta})
    assert found is not None
    return found


def given(**wanted: Any) -> dict[str, str]:
    """The settings in the pods' template."""
    return dict(live(**wanted).settings)


def faults(**config: object) -> str:
    return "; ".join(node_config(spec(config=config), names.DEFAULTS).faults)


# --- a default that cannot fill the disk ------------------------------------------------------


@pytest.mark.parametrize("size", ["256Mi", "300M", "1Gi", "10Gi", "500Gi", "16Ti"])
def test_a_new_quorum_is_given_a_log_that_cannot_fill_its_claim(size: str) -> None:
    settings = given(storage={"size": size})
    assert int(settings["log_retention_bytes"]) > 0
    made = live(storage={"size": size})
    assert why_log_outgrows(replace(healthy(), statefulset=made)) is None
    defaults = managed_defaults(size_bytes(size))
    log = sum(defaults.values())
    assert log < size_bytes(size) / 4, "the rest is for snapshots, the reserve and the file system"
    reserve = NodeSettings.model_fields["disk_reserve_bytes"].default
    assert log + 2 * reserve < size_bytes(size)


def test_the_default_claim_keeps_as_much_of_the_log_as_kafka_does() -> None:
    assert int(given()["log_retention_bytes"]) >= 100 << 20
    assert set(given()) - set(given(defaults=None)) == {"log_retention_bytes"}


def test_small_claims_get_snapshots_and_segments_small_enough_for_a_trim_in_time() -> None:
    settings = given(storage={"size": "256Mi"})
    retention, segment, between = (
        int(settings[name])
        for name in ("log_retention_bytes", "segment_bytes", "max_record_bytes_between_snapshots")
    )
    assert between < segment < retention
    assert settings.keys() <= set(ALLOWED)
    taken = node_config(spec(storage={"size": "256Mi"}, config={"max_batch_bytes": 8 << 20}), "1")
    assert not taken.faults, "the largest batch fits into the smallest segment"


@pytest.mark.rule("S32")
def test_an_upgrade_of_the_operator_trims_no_log_and_rolls_no_pod_of_a_quorum_from_before() -> None:
    """Its claim template has no mark, and its resource the defaults that the CRD once wrote."""
    stored = {
        "fetchTimeoutMs": 2000,
        "electionTimeoutMs": 1000,
        "electionBackoffMaxMs": 1000,
        "requestTimeoutMs": 2000,
        "fetchesInFlightMax": 1,
        "readLeaseClockDriftPercent": 0,
        "logPreallocate": False,
    }
    for wanted in ({}, {"nodeSettings": stored}):
        made = body(defaults=None, **wanted)
        (container,) = made["spec"]["template"]["spec"]["containers"]
        told = [
            (one["name"], one["value"])
            for one in container["env"]
            if one["name"].startswith("RAFTNODE_")
            and one["name"].endswith(("_MS", "_BYTES", "_MAX", "_PERCENT", "_PREALLOCATE"))
        ]
        assert told == [
            ("RAFTNODE_FETCH_TIMEOUT_MS", "2000"),
            ("RAFTNODE_FETCH_MAX_WAIT_MS", "500"),
            ("RAFTNODE_ELECTION_TIMEOUT_MS", "1000"),
            ("RAFTNODE_ELECTION_BACKOFF_MAX_MS", "1000"),
            ("RAFTNODE_REQUEST_TIMEOUT_MS", "2000"),
        ]
        (template,) = made["spec"]["volumeClaimTemplates"]
        assert names.LABEL_DEFAULTS not in template["metadata"]["labels"]


def marked(*marks: str | None) -> list[Claim]:
    return [replace(claim(n), defaults=mark) for n, mark in enumerate(marks)]


@pytest.mark.parametrize(
    ("found", "claims", "holds"),
    [
        (None, marked(), names.DEFAULTS),
        (None, marked("1", "1"), "1"),
        (None, marked(None, None), None),
        (None, marked("1", None), None),
        (StatefulSet("s", "1", 3), marked("1"), None),
        (StatefulSet("s", "1", 3, defaults="1"), marked(None), "1"),
    ],
    ids=["new", "deleted", "deleted-old", "deleted-mixed", "old", "recorded"],
)
def test_defaults_hold_for_what_was_made_with_them(found, claims, holds) -> None:
    assert defaults_of(found, claims) == holds


def test_the_mark_is_on_the_claim_template_and_so_on_claims() -> None:
    (template,) = body()["spec"]["volumeClaimTemplates"]
    assert live().defaults == names.DEFAULTS
    assert live(defaults=None).defaults is None
    meta = {"name": "data-demo-0", "uid": "c"} | {"labels": template["metadata"]["labels"]}
    (found,) = read_claims("demo", [{"metadata": meta, "spec": {}}])
    assert found.defaults == names.DEFAULTS


def test_a_retention_that_a_person_sets_is_what_counts() -> None:
    for value in (-1, 0, 5 << 20):
        config = {"log_retention_bytes": value}
        expected = {} if value == -1 else {"log_retention_bytes": str(value)}
        for defaults in (None, "1"):
            settings = given(defaults=defaults, config=config)
            kept = {k: v for k, v in settings.items() if k == "log_retention_bytes"}
            assert kept == expected, "what is as the node has it is left out"


@pytest.mark.parametrize(
    ("config", "reason", "told"),
    [
        ({"log_retention_bytes": -1}, "RetentionOff", "volume of 1Gi"),
        ({"log_retention_bytes": 1 << 30}, "RetentionTooLarge", "log_retention_bytes 1024 MiB"),
        ({"segment_bytes": 1 << 30}, "RetentionTooLarge", "segment_bytes 1024 MiB"),
    ],
)
def test_a_log_that_can_fill_its_disk_is_told(config, reason, told) -> None:
    observation = replace(healthy(), statefulset=live(config=config))
    holds, why, message = CONDITIONS["LogOutgrowsDisk"](Context(observation, 3, Wait("x", "y")))
    assert (holds, why) == (True, reason)
    assert told in message
    assert "spec.config.log_retention_bytes" in message
    well = replace(healthy(), statefulset=live())
    assert CONDITIONS["LogOutgrowsDisk"](Context(well, 3, Wait("x", "y")))[0] is False


# --- what may be set --------------------------------------------------------------------------


def test_every_setting_of_a_node_may_be_set_or_has_a_reason_why_not() -> None:
    assert set(ALLOWED) | set(SET_BY_OPERATOR) == set(NodeSettings.model_fields)
    for name in set(ALLOWED) - set(CHOICES):
        kinds = get_args(NodeSettings.model_fields[name].annotation)
        kinds = kinds or (NodeSettings.model_fields[name].annotation,)
        for kind in kinds:
            assert kind not in (NoneType, Path, Endpoint), f"{name}: an address or a path"
            assert kind in (int, bool) or isinstance(kind, str), f"{name}: {kind}"


def test_the_schema_has_the_node_s_own_types_and_limits_and_no_default() -> None:
    schema: Any = schema_of(QuorumSpec)["properties"]
    config = schema["config"]
    assert "default" not in config, "a default would reach quorums that are there already"
    assert not [one for one in config["properties"].values() if "default" in one]
    model: Any = NodeSettings.model_json_schema()["properties"]
    for name, choices in CHOICES.items():
        given = config["properties"].pop(name)
        assert (given["type"], given["enum"]) == ("string", [*choices])
        assert model[name]["description"] in given["description"]
    for name, found in config["properties"].items():
        for limit in ("type", "minimum", "maximum", "enum"):
            assert found.get(limit) == model[name].get(limit), name
    assert config_schema()["x-kubernetes-preserve-unknown-fields"] is True
    assert "default" not in schema["nodeSettings"] or schema["nodeSettings"]["default"] == {}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"log_retention_byte": 1}, "config.log_retention_byte is not .* log_retention_bytes?"),
        ({"logRetentionBytes": 1}, "config.logRetentionBytes is not .* log_retention_bytes?"),
        ({"metadata.max.retention.bytes": 1}, "did you mean log_retention_bytes?"),
        ({"RAFTNODE_SEGMENT_BYTES": 1}, "did you mean segment_bytes?"),
        ({"log_dir": "/tmp"}, "config.log_dir cannot be set: it is a path .*; remove it"),
        ({"node.id": 4}, "config.node.id cannot be set: it is the replica's identity"),
        ({"peerListen": "x:1"}, "config.peerListen cannot be set: it is an address"),
        ({"shutdown_grace_ms": 1}, "the pod's grace period"),
        ({"log_retention_bytes": -5}, r"log_retention_bytes: .* or equal to -1 \(got -5\)"),
        ({"fetches_in_flight_max": 6}, r"or equal to 5 \(got 6\)"),
        ({"log_level": "loud"}, r"log_level: .*'warning' or 'error' \(got 'loud'\)"),
        ({"log_preallocate": "perhaps"}, "log_preallocate: .*boolean"),
        ({"audit_log": "/data/audit"}, "audit_log is '/data/audit': a pod takes \"stderr\" or"),
        ({"segment_bytes": None}, "segment_bytes: .*valid integer"),
        ({"fetch_timeout_ms": 100}, r"election_timeout_ms \(1000\) exceeds fetch_timeout_ms \(100"),
        ({"fetch_max_wait_ms": 1500}, r"at least twice fetch_max_wait_ms \(1500\)"),
        ({"retry_backoff_ms": 5000}, "twice retry_backoff_ms"),
        ({"max_batch_bytes": 8 << 20, "segment_bytes": 4096}, r"\(8388608\) exceeds segment_bytes"),
        ({"disk_reserve_bytes": 1 << 29}, "is 536870912, too much for a volume of 1Gi"),
    ],
    ids=str,
)
def test_what_a_node_would_refuse_is_said_with_its_name_its_value_and_its_limit(
    config: dict[str, object], says: str
) -> None:
    assert re.search(says.replace("?", r"\?"), faults(**config)), faults(**config)
    assert ObjectRef("StatefulSet", "demo") not in bodies(spec(config=config))


def test_all_faults_of_names_and_values_are_said_at_once() -> None:
    told = faults(log_dir="/x", nonsense=1, segment_bytes=1)
    assert all(name in told for name in ("log_dir", "nonsense", "segment_bytes"))


def test_each_setting_reaches_the_nodes_as_a_node_reads_it() -> None:
    config = {
        "audit_log": "disabled",
        "log_level": "debug",
        "log_preallocate": True,
        "segment_bytes": "8388608",
        "scrub_bytes_per_second": 0,
        "snapshots_retained": 3,
        "disk_reserve_bytes": 32 << 20,
    }
    settings = given(config=config)
    assert (
        settings.items()
        >= {
            "log_level": "debug",
            "log_preallocate": "true",
            "segment_bytes": "8388608",
            "scrub_bytes_per_second": "0",
            "snapshots_retained": "3",
            "disk_reserve_bytes": str(32 << 20),
        }.items()
    )
    read = NodeSettings.model_validate({"node_id": 0, "log_dir": ".", **settings})
    assert (read.log_preallocate, read.segment_bytes) == (True, 8 << 20)


def test_a_setting_that_is_taken_back_is_as_by_default_again() -> None:
    assert "log_level" in given(config={"log_level": "debug"})
    assert given(config={}) == given()


# --- one way to say each thing ----------------------------------------------------------------


def test_the_older_names_still_count_and_the_newer_ones_win_over_stored_defaults() -> None:
    old = {"fetchTimeoutMs": 3000, "fetchesInFlightMax": 2}
    assert (
        given(nodeSettings=old).items()
        >= {
            "fetch_timeout_ms": "3000",
            "fetches_in_flight_max": "2",
        }.items()
    )
    stored = {"fetchTimeoutMs": 2000, "logPreallocate": False}
    config = {"fetch_timeout_ms": 4000, "log_preallocate": True}
    settings = given(nodeSettings=stored, config=config)
    assert (settings["fetch_timeout_ms"], settings["log_preallocate"]) == ("4000", "true")


def test_two_names_that_say_different_things_are_refused() -> None:
    wanted = spec(nodeSettings={"fetchTimeoutMs": 3000}, config={"fetch_timeout_ms": 4000})
    (told,) = node_config(wanted, None).faults
    assert "nodeSettings.fetchTimeoutMs is 3000 and config.fetch_timeout_ms is 4000" in told
    same = spec(nodeSettings={"fetchTimeoutMs": 3000}, config={"fetch_timeout_ms": 3000})
    assert not node_config(same, None).faults


# --- nothing is half done ---------------------------------------------------------------------


def held(decision: object) -> bool:
    return isinstance(decision, Wait) and decision.guard == "config_accepted"


def test_while_settings_are_refused_no_statefulset_is_made_and_no_quorum_formed() -> None:
    new = replace(blank(), statefulset=None, pods=(), claims=(), nodes=())
    assert isinstance(decide(spec(), new, NOW_MS), CreateStatefulSet)
    assert held(decide(spec(), replace(new, config_faults=FAULTS), NOW_MS))
    assert isinstance(decide(spec(), blank(), NOW_MS), CreateLatch)
    assert held(decide(spec(), replace(blank(), config_faults=FAULTS), NOW_MS))


def test_while_settings_are_refused_no_pod_is_rolled_but_repairs_go_on() -> None:
    outdated = with_pod(healthy(), replace(pod(2), revision="r0"))
    assert not isinstance(decide(spec(), outdated, NOW_MS), Wait | Done)
    assert held(decide(spec(), replace(outdated, config_faults=FAULTS), NOW_MS))
    lost = with_pod(with_node(REFUSED, node(0, "b", blank=True)), pod(0, voter=False))
    lost = with_quorum(lost, voters=(voter(0, silent_ms=20_000), voter(1), voter(2)))
    calm = decide(spec(), replace(lost, config_faults=()), NOW_MS)
    assert decide(spec(), lost, NOW_MS) == calm
    assert not isinstance(calm, Wait)


def test_refused_settings_and_those_that_nodes_have_are_in_the_status() -> None:
    observation = healthy().statefulset
    assert observation is not None
    template = replace(observation, settings=live(config={"log_level": "debug"}).settings)
    observation = replace(REFUSED, statefulset=template)
    decision = decide(spec(), observation, NOW_MS)
    status = build_status(
        spec(), observation, decision, current_action=None, before=(), stamp=Stamp("now", 2)
    )
    assert status.config["log_level"] == "debug", "what the pods have, not what is wanted"
    told = {one.type: one for one in status.conditions}
    assert (told["ConfigRejected"].status, told["ConfigRejected"].reason) == (
        "True",
        "InvalidConfig",
    )
    assert "did you mean log_retention_bytes?" in told["ConfigRejected"].message
    assert told["Ready"].status == "False"
    assert status.waiting_for == "config_accepted"
    assert "the operator changes no pod" in status.message
