"""Bodies of the objects: the fields that they must have for every spec."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kraftquorum_operator import names
from kraftquorum_operator.model.latch import read_latch
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.observation import LatchVoter, ReplicaId
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.kube import read_budget
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.disruption import disruption_budget, with_pods
from kraftquorum_operator.resources.latch import latch
from kraftquorum_operator.resources.metadata import stamped
from kraftquorum_operator.resources.node_config import fetch_max_wait_ms, node_config
from raftnode.cli import make_app
from raftnode.commands.connection import DEFAULT_SERVER
from raftnode.core.types import Endpoint
from raftnode.runtime.process.watchdog import LIVE_SHARE
from raftnode.settings import NodeSettings

OWNER = Owner("space", "demo", "uid-1")


def bodies(in_force: int = 3, **spec: object):
    wanted = QuorumSpec.model_validate(spec)
    return build(OWNER, wanted, in_force, node_config(wanted, names.DEFAULTS))


@pytest.mark.rule("S21")
@pytest.mark.rule("S25")
@pytest.mark.without(
    "kraftquorum_operator.resources.statefulset:statefulset",
    '"whenScaled": "Retain"',
    '"whenScaled": "Delete"',
)
def test_the_statefulset_is_parallel_and_on_delete_and_retains_claims() -> None:
    spec = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    assert "replicas" not in spec, "replicas are changed one by one, with a resourceVersion (S21)"


def test_claims_carry_the_uid_of_their_resource() -> None:
    template = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["volumeClaimTemplates"][0]
    assert template["metadata"]["labels"][names.LABEL_OWNER_UID] == "uid-1"
    assert "ownerReferences" not in template["metadata"]


def test_pods_find_each_other_before_they_are_ready() -> None:
    spec = bodies()[ObjectRef("Service", "demo-peers")]["spec"]
    assert spec["publishNotReadyAddresses"] is True
    assert spec["clusterIP"] == "None"


@pytest.mark.without(
    "kraftquorum_operator.resources.services:client_service",
    '"ipFamilyPolicy": IP_FAMILY_POLICY,',
    "",
)
def test_services_have_addresses_of_both_families_where_the_cluster_has_both() -> None:
    for name in ("demo", "demo-peers"):
        spec = bodies()[ObjectRef("Service", name)]["spec"]
        assert spec.get("ipFamilyPolicy") == "PreferDualStack"
        assert "ipFamilies" not in spec, "the cluster's order of families holds"


def test_a_stall_is_told_by_liveness_first_and_ends_the_node_before_its_probe_does() -> None:
    """Its own exit code says more than a kill by the kubelet."""
    template = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"]
    probe = template["containers"][0]["livenessProbe"]
    limit_s = NodeSettings.model_fields["stall_timeout_ms"].default / 1000
    told_s = limit_s / LIVE_SHARE
    assert (
        told_s + probe["periodSeconds"]
        < limit_s
        < told_s + (probe["periodSeconds"] * probe["failureThreshold"])
    )


@pytest.mark.parametrize(
    ("voters", "target", "least"),
    [(3, 3, 2), (3, 5, 3), (5, 3, 3), (4, 3, 3), (1, 1, 1), (0, 3, 2)],
)
@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.resources.disruption:disruption_budget",
    "majority(max(voters, target))",
    "0",
)
def test_the_disruption_budget_keeps_a_majority_of_the_larger_set(
    voters: int, target: int, least: int
) -> None:
    spec = bodies(voters, voters=target)[ObjectRef("PodDisruptionBudget", "demo")]["spec"]
    assert spec["minAvailable"] == least


def test_the_disruption_budget_counts_pods_by_name_and_before_formation_none() -> None:
    """A label on a pod would go with it, if Kubernetes recreates the pod without the operator."""
    bare = disruption_budget(OWNER, 3, 3)
    assert bare["spec"]["selector"]["matchExpressions"] == [
        {"key": "statefulset.kubernetes.io/pod-name", "operator": "DoesNotExist"}
    ]
    listed = with_pods(stamped(bare), {"demo-10", "demo-2"})
    assert listed["spec"]["selector"]["matchExpressions"] == [
        {
            "key": "statefulset.kubernetes.io/pod-name",
            "operator": "In",
            "values": ["demo-2", "demo-10"],
        }
    ]
    # As `build` writes it, so that the next comparison finds no difference.
    assert listed == stamped(disruption_budget(OWNER, 3, 3, ["demo-10", "demo-2"]))
    assert read_budget(listed | {"metadata": {"uid": "u"}}, "demo").pods == ("demo-2", "demo-10")


def test_an_unchanged_spec_gives_the_same_digest_and_another_one_another() -> None:
    def digest(**spec: object) -> str:
        body = bodies(**spec)[ObjectRef("StatefulSet", "demo")]
        return body["metadata"]["annotations"][names.ANNOTATION_HASH]

    assert digest() == digest(voters=5)
    assert digest() != digest(image="other:1")


def test_what_is_off_by_default_reaches_the_nodes_once_it_is_asked_for() -> None:
    """And changes no pod before: a new operator must not roll any pod for it."""

    def told(**settings: object) -> dict[str, str]:
        spec = {"nodeSettings": settings} if settings else {}
        [container] = bodies(**spec)[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"][
            "containers"
        ]
        return {one["name"]: one.get("value", "") for one in container["env"]}

    asked = {"fetchesInFlightMax": 2, "readLeaseClockDriftPercent": 5, "logPreallocate": True}
    new = {name: value for name, value in told(**asked).items() if name not in told()}
    assert new == {
        "RAFTNODE_FETCHES_IN_FLIGHT_MAX": "2",
        "RAFTNODE_READ_LEASE_CLOCK_DRIFT_PERCENT": "5",
        "RAFTNODE_LOG_PREALLOCATE": "true",
    }


@pytest.mark.rule("S18")
@pytest.mark.without(
    "kraftquorum_operator.resources.latch:latch", 'del meta["ownerReferences"]', "pass"
)
@pytest.mark.without(
    "kraftquorum_operator.resources.latch:latch", '"immutable": True', '"immutable": False'
)
def test_the_latch_is_immutable_unowned_and_named_by_uid() -> None:
    voters = (
        LatchVoter(ReplicaId(0, "a" * 22), "demo-0:9093"),
        LatchVoter(ReplicaId(1, "b"), None),
    )
    body = latch(OWNER, "cluster", voters, adopted=False)
    assert body["immutable"] is True
    assert "ownerReferences" not in body["metadata"]
    assert body["metadata"]["name"] == "kraftquorum-latch-uid-1"
    found = read_latch(body)
    assert (found.cluster_id, found.voters, found.adopted) == ("cluster", voters, False)


def test_a_latch_that_could_be_changed_is_none() -> None:
    body = latch(OWNER, "cluster", (), adopted=False) | {"immutable": False}
    with pytest.raises(ValueError, match="not an immutable formation latch"):
        read_latch(body)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"clusterId": "c"},
        {"clusterId": "c", "voters": "["},
        {"clusterId": "c", "voters": "{}0"},
        {"clusterId": "c", "voters": '{"a": 1}'},
        {"clusterId": "c", "voters": "[1]"},
        {"clusterId": "c", "voters": '[{"nodeId": 0}]'},
        {"clusterId": "c", "voters": '[{"nodeId": [], "directoryId": ""}]'},
        {"clusterId": "c", "voters": "7"},
    ],
)
def test_a_latch_that_a_person_wrote_is_refused_as_such(data: object) -> None:
    """Whatever is in it: only a refusal reaches the condition, a crash would hide it."""
    body = latch(OWNER, "cluster", (), adopted=False) | {"data": data}
    with pytest.raises(ValueError, match="is not an immutable formation latch"):
        read_latch(body)


def test_all_other_objects_go_with_their_resource() -> None:
    for body in bodies().values():
        assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


@pytest.mark.parametrize(
    ("fetch", "election", "request_"), [(200, 100, 200), (2000, 1000, 2000), (60_000,) * 3]
)
def test_all_times_that_the_resource_allows_are_ones_that_a_node_takes(fetch, election, request_):
    NodeSettings(
        node_id=0,
        log_dir=Path(),
        peer_advertised=Endpoint("node", 1),
        api_advertised=Endpoint("node", 2),
        fetch_timeout_ms=fetch,
        election_timeout_ms=election,
        request_timeout_ms=request_,
        fetch_max_wait_ms=fetch_max_wait_ms(fetch, election),
    )


def test_pods_pass_the_restricted_pod_security_standard() -> None:
    pod = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all("hostPort" not in port for port in container["ports"])


def test_user_of_the_pods_is_the_images() -> None:
    root = Path(__file__).parents[4]
    context = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"][
        "securityContext"
    ]
    ids = {context["runAsUser"], context["runAsGroup"], context["fsGroup"]}
    assert len(ids) == 1
    (uid,) = ids
    assert f"USER {uid}:{uid}" in (root / "Dockerfile").read_text()


def test_leadership_is_transferred_before_the_end_and_within_the_grace() -> None:
    pod = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"]
    hook = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    program, *arguments = hook
    assert program == "raftnode", "no shell: the image has none"
    shown = CliRunner().invoke(make_app(), [*arguments[:2], "--help"])
    assert shown.exit_code == 0, shown.output
    (timeout,) = (word for word in arguments if word.startswith("--timeout-ms="))
    node_grace_ms = NodeSettings.model_fields["shutdown_grace_ms"].default
    whole_ms = int(timeout.partition("=")[2]) + node_grace_ms
    assert whole_ms + 2000 <= 1000 * pod["terminationGracePeriodSeconds"]


def test_commands_in_a_pod_begin_where_its_node_listens() -> None:
    (container,) = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"][
        "containers"
    ]
    told = {one["name"]: one.get("value") for one in container["env"]}
    option = CliRunner().invoke(make_app(), ["kv", "get", "--help"], env={"COLUMNS": "200"})
    assert "RAFTNODE_BOOTSTRAP_SERVER" in option.output
    default = Endpoint.parse(DEFAULT_SERVER)
    assert default.host == "localhost"
    assert not {"RAFTNODE_BOOTSTRAP_SERVER", "RAFTNODE_API_LISTEN"} & set(told)
    assert NodeSettings.model_fields["api_listen"].default == Endpoint("::", default.port)


def test_a_node_listens_on_every_address_of_its_pod_of_both_families() -> None:
    """By its default: an address in a variable would have to be in brackets if it is IPv6."""
    (container,) = bodies()[ObjectRef("StatefulSet", "demo")]["spec"]["template"]["spec"][
        "containers"
    ]
    assert not [one for one in container["env"] if "POD_IP" in json.dumps(one)]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name in ("peer", "api"):
        assert NodeSettings.model_fields[f"{name}_listen"].default == Endpoint("::", ports[name])


def test_the_smallest_volume_that_is_allowed_has_room_beyond_the_nodes_reserve() -> None:
    rules = QuorumSpec.model_json_schema()["$defs"]["Storage"]["x-kubernetes-validations"]
    (mebibytes,) = (int(re.findall(r"'(\d+)Mi'", rule["rule"])[0]) for rule in rules)
    reserve = NodeSettings.model_fields["disk_reserve_bytes"].default
    assert mebibytes << 20 >= 3 * reserve, "twice the reserve must be free to write"
