"""Reading Kubernetes objects and replicas' answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import (
    KubeError,
    KubeUnavailableError,
    NodeUnreachableError,
    RefusedError,
)
from kraftquorum_operator.model.observation import Budget, Pod, ReplicaId
from kraftquorum_operator.observe import read
from kraftquorum_operator.observe.kube import (
    read_budget,
    read_claims,
    read_pods,
    read_statefulset,
)
from kraftquorum_operator.observe.quorum import Silence, ask_leader, ask_nodes, read_quorum
from raftnode.api.model import NodeInfo, QuorumInfo, ReplicaProgress, VoterRecord
from raftnode.api.model import Replica as ApiReplica

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
IDS = ["DDDDDDDDDDDDDDDDDDDDDA", "BBBBBBBBBBBBBBBBBBBBBA", "CCCCCCCCCCCCCCCCCCCCCA"]


def pod_body(name: str, **status: object) -> dict:
    meta = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": meta, "status": {"phase": "Running", "podIP": "10.0.0.1", **status}}


def test_pods_are_read_by_ordinal_and_others_are_left_out() -> None:
    bodies = [pod_body("demo-10"), pod_body("demo-2"), pod_body("demo-x"), pod_body("other-1")]
    assert [pod.ordinal for pod in read_pods("demo", bodies, NOW)] == [2, 10]
    assert read_pods("demo", bodies, NOW)[0].age_ms == 60_000


def test_the_exit_code_and_the_node_s_own_words_are_read_from_the_last_end() -> None:
    ended = {"exitCode": 12, "message": '{"reason": "STORAGE_CORRUPT", "message": "bad crc"}'}
    container = {
        "name": names.CONTAINER,
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }
    pod = read_pods("demo", [pod_body("demo-0", containerStatuses=[container])], NOW)[0]
    assert (pod.exit_code, pod.restarts) == (12, 3)
    assert pod.detail == "CrashLoopBackOff: exit code 12: STORAGE_CORRUPT bad crc"


@pytest.mark.parametrize(
    ("turned", "exit_code"),
    [("2026-01-01T00:00:10Z", 10), ("2026-01-01T00:00:20Z", 10), ("2026-01-01T00:00:21Z", None)],
)
def test_an_end_before_the_container_was_ready_is_not_held_against_its_disk(
    turned: str, exit_code: int | None
) -> None:
    """Its node may be cut off now, weeks after; believing the end would cost a healthy disk."""
    container = {
        "name": names.CONTAINER,
        "restartCount": 9,
        "state": {"running": {"startedAt": "2026-01-01T00:00:20Z"}},
        "lastState": {"terminated": {"exitCode": 10}},
    }
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": turned}
    body = pod_body("demo-0", containerStatuses=[container], conditions=[ready])
    assert read_pods("demo", [body], NOW)[0].exit_code == exit_code


@pytest.mark.parametrize(
    ("turned", "detail"),
    [
        ("2026-01-01T00:00:10Z", "its last run had exit code 12: STORAGE_CORRUPT bad crc"),
        ("2026-01-01T00:00:21Z", ""),
    ],
)
def test_the_cause_of_an_end_before_the_container_was_ready_is_not_the_present_cause(
    turned: str, detail: str
) -> None:
    """A node that is cut off now is not damaged because it was once, before it was ready."""
    ended = {"exitCode": 12, "message": '{"reason": "STORAGE_CORRUPT", "message": "bad crc"}'}
    container = {
        "name": names.CONTAINER,
        "restartCount": 9,
        "ready": False,
        "state": {"running": {"startedAt": "2026-01-01T00:00:20Z"}},
        "lastState": {"terminated": ended},
    }
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": turned}
    body = pod_body("demo-0", containerStatuses=[container], conditions=[ready])
    assert read_pods("demo", [body], NOW)[0].detail == detail


def test_a_pod_that_is_not_scheduled_says_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "no volume"}
    pod = read_pods("demo", [pod_body("demo-0", phase="Pending", conditions=[condition])], NOW)[0]
    assert (pod.detail, pod.ready) == ("no volume", False)


def claim_body(name: str, volume: str | None = None, **meta: object) -> dict:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", **meta},
        "spec": {"volumeName": volume} if volume else {},
        "status": {"phase": "Bound"},
    }


def test_claims_are_found_by_name_even_without_labels() -> None:
    labels = {names.LABEL_OWNER_UID: "u1"}
    bodies = [
        claim_body("data-demo-1", "v1", labels=labels),
        claim_body("data-demo-0", "v0", deletionTimestamp="x"),
        claim_body("data-demo-a"),
        claim_body("foreign", "v1"),
    ]
    first, second = read_claims("demo", bodies)
    assert (first.ordinal, first.owner_uid, first.terminating, first.shared) == (
        0,
        None,
        True,
        False,
    )
    assert (second.ordinal, second.owner_uid, second.shared) == (1, "u1", True)


def test_the_update_revision_counts_only_once_the_controller_has_seen_the_spec() -> None:
    body = {
        "metadata": {"uid": "u", "resourceVersion": "5", "generation": 2},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "updateRevision": "r2"},
    }
    assert read_statefulset(body).revision is None
    body["status"]["observedGeneration"] = 2
    assert read_statefulset(body).revision == "r2"
    assert read_statefulset(None) is None


def test_the_budget_s_count_counts_only_once_the_controller_has_seen_the_spec() -> None:
    body = {
        "metadata": {"uid": "u", "generation": 2, "annotations": {names.ANNOTATION_RECOUNT: "x"}},
        "status": {
            "observedGeneration": 1,
            "expectedPods": 3,
            "disruptionsAllowed": 1,
            "currentHealthy": 2,
        },
    }
    assert read_budget(body, "demo") == Budget("u", None, "x")
    body["status"]["observedGeneration"] = 2
    assert read_budget(body, "demo") == Budget("u", 3, "x", allowed=1, healthy=2)
    assert read_budget(None, "demo") is None


def test_a_container_that_waits_does_not_run() -> None:
    waiting = {"name": names.CONTAINER, "state": {"waiting": {"reason": "ErrImagePull"}}}
    running = {"name": names.CONTAINER, "state": {"running": {"startedAt": "x"}}}
    ended = {"name": names.CONTAINER, "restartCount": 2, "state": {"terminated": {"exitCode": 1}}}

    def read(phase: str, container: dict) -> Pod:
        body = pod_body("demo-0", phase=phase, containerStatuses=[container])
        return read_pods("demo", [body], NOW)[0]

    assert read("Pending", waiting).never_started
    assert not read("Running", running).fails_to_start
    assert read("Running", ended).fails_to_start
    assert not read("Running", ended).never_started
    assert not read("Running", ended | {"restartCount": 1}).fails_to_start
    assert not read("Running", running | {"restartCount": 9}).fails_to_start


def progress(node_id: int, age_ms: int | None) -> ReplicaProgress:
    return ReplicaProgress(
        node_id=node_id,
        directory_id=IDS[node_id],
        endpoint=None,
        acknowledged_offset=5,
        lag=0,
        last_fetch_age_ms=age_ms,
        last_caught_up_age_ms=age_ms,
        caught_up=True,
        fenced=False,
        incarnation=1,
    )


def info(*voters: ReplicaProgress) -> QuorumInfo:
    return QuorumInfo(
        cluster_id="c",
        leader=ApiReplica(node_id=0, directory_id=IDS[0]),
        epoch=1,
        high_watermark=5,
        log_end_offset=5,
        voters=voters,
        committed_voters=tuple(
            ApiReplica(node_id=v.node_id, directory_id=v.directory_id) for v in voters
        ),
        voter_record=VoterRecord(offset=0, epoch=1),
        voter_record_committed=True,
        observers=(),
        pending_change=None,
        formation_completed=True,
        epoch_committed=True,
        confirmed=True,
    )


def test_silence_is_the_leader_s_word_else_counted_from_when_it_was_first_seen() -> None:
    silence = Silence()
    answer = info(progress(0, None), progress(1, 300), progress(2, None))
    first = read_quorum(answer, silence, 10_000).voters
    assert [v.silent_since_ms for v in first] == [None, 9_700, 10_000]
    later = read_quorum(answer, silence, 15_000).voters
    assert [v.silent_since_ms for v in later] == [None, 14_700, 10_000]
    heard = info(progress(0, None), progress(1, 300), progress(2, 0))
    read_quorum(heard, silence, 16_000)
    assert read_quorum(answer, silence, 17_000).voters[2].silent_since_ms == 17_000


class FakeNodes:
    """Replicas by address; None: does not answer."""

    def __init__(self, **infos: NodeInfo | None) -> None:
        self.infos = infos

    def secure(self, quorum: str, accesses: object) -> None:
        pass

    async def node(self, address: str) -> NodeInfo:
        found = self.infos.get(address.partition(":")[0].replace(".", "_"))
        if found is None:
            msg = "silent"
            raise NodeUnreachableError(msg)
        return found

    async def quorum(self, address: str) -> QuorumInfo:
        if (await self.node(address)).epoch == 1:
            msg = "not leading any more"
            raise NodeUnreachableError(msg)
        return info(progress(0, None))


DOMAIN = names.domain("test", "demo")


def node_info(
    node_id: int, role: str = "follower", epoch: int = 1, domain: str = DOMAIN
) -> NodeInfo:
    return NodeInfo(
        node_id=node_id,
        directory_id=IDS[node_id],
        incarnation=1,
        cluster_id="c",
        role=role,
        epoch=epoch,
        leader=None,
        peer_endpoint=f"demo-{node_id}.{domain}:9093",
        api_endpoint="p:9080",
        log_start_offset=0,
        log_end_offset=5,
        durable_end_offset=5,
        high_watermark=5,
        voters=(),
        caught_up=True,
        version="0",
    )


def pod(ordinal: int, **changes: object) -> Pod:
    given = {"name": f"demo-{ordinal}", "uid": "u", "ordinal": ordinal, "address": f"a{ordinal}"}
    return Pod(**(given | changes))


async def test_only_running_pods_are_asked_and_only_their_own_replica_is_believed() -> None:
    nodes = FakeNodes(a0=node_info(0), a1=node_info(2), a2=node_info(2), a3=None)
    pods = [pod(0), pod(1), pod(2, terminating=True), pod(3), pod(4, address=None)]
    assert list(await ask_nodes(nodes, pods, DOMAIN)) == [0]


@pytest.mark.parametrize("other", [("test", "other"), ("elsewhere", "demo")])
async def test_a_replica_of_another_quorum_at_an_address_that_was_ours_is_not_believed(
    other: tuple[str, str],
) -> None:
    """It would be taken for a new disk: joined to this quorum, and the voter's counted as lost."""
    foreign = node_info(1, domain=names.domain(*other))
    nodes = FakeNodes(a0=node_info(0), a1=foreign)
    assert list(await ask_nodes(nodes, [pod(0), pod(1)], DOMAIN)) == [0]


async def test_the_leader_of_the_highest_epoch_is_asked_first_then_the_next() -> None:
    nodes = FakeNodes(a0=node_info(0, "leader", 1), a1=node_info(1, "leader", 2))
    pods = [pod(0), pod(1)]
    infos = await ask_nodes(nodes, pods, DOMAIN)
    assert await ask_leader(nodes, pods, infos) is not None
    stale = FakeNodes(a0=node_info(0, "leader", 1))
    assert await ask_leader(stale, pods, await ask_nodes(stale, pods, DOMAIN)) is None


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("demo-0", 0), ("demo-12", 12), ("demo-01", None), ("demo-", None), ("demo-x-1", None)],
)
def test_ordinals_are_read_off_names_exactly(name: str, ordinal: int | None) -> None:
    assert names.ordinal_of(name, "demo") == ordinal


def test_a_replica_is_written_as_id_and_storage() -> None:
    assert str(ReplicaId(3, "abc")) == "3-abc"


class KubeWithoutEvents:
    """Answers about the first object; then it fails, or never answers."""

    def __init__(self, error: KubeError | None) -> None:
        self.error = error
        self.asked = 0

    async def list(self, kind: str, *_: str, fields: str) -> list[dict]:
        self.asked += 1
        if self.asked == 1:
            return [{"about": fields}]
        if self.error is None:
            await asyncio.Event().wait()
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        RefusedError(403, "Forbidden", "no"),
        KubeUnavailableError(500, "InternalError", "etcdserver: leader changed"),
        None,
    ],
)
async def test_events_that_cannot_be_read_hold_no_look_up(monkeypatch, error) -> None:
    """Only a report depends on them, and they may be in an etcd of their own."""
    monkeypatch.setattr(read, "EVENTS_S", 0.05)
    wanted = [("StatefulSet", ""), ("PersistentVolumeClaim", "data-demo-1")]
    kube = KubeWithoutEvents(error)
    async with asyncio.timeout(60):
        found = await read._events(kube, "test", "demo", wanted)
    assert kube.asked == 2
    assert [event["about"] for event in found] == [
        "involvedObject.kind=StatefulSet,involvedObject.name=demo"
    ]
