"""The running operator's advice, from the watch to the status, on listeners that answer as Kafka.

The API server is an HTTP server with just enough of one: lists, watches and applies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from kafkaserver import READS, Controller, Row, serving
from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.lease import Lease
from kraftquorum_operator.kafka import advisor as advisor_module
from kraftquorum_operator.kafka.advisor import Advisor
from kraftquorum_operator.kafka.check import Check
from kraftquorum_operator.kafka.metrics import KafkaMetrics
from kraftquorum_operator.memory.status_cache import StatusCache
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.settings import load_settings
from kubeserver import client_of

PATIENCE_S = 40.0

Condition = dict[str, str]


@dataclass
class HeldLease:
    held: bool = True


@dataclass
class ApiServer:
    """Keeps KafkaQuorums, and answers with the pods and Secrets that it is given."""

    pods: list[Body] = field(default_factory=list[Body])
    secrets: dict[str, Body] = field(default_factory=dict[str, Body])
    resources: dict[str, Body] = field(default_factory=dict[str, Body])
    events: list[Body] = field(default_factory=list[Body])
    writes: int = 0
    refuses_secrets: bool = False
    event_delay_s: float = 0
    event_requests: int = 0
    version: int = 10
    _history: list[tuple[int, tuple[str, Body]]] = field(
        default_factory=list[tuple[int, tuple[str, Body]]]
    )
    _watches: list[asyncio.Queue[tuple[str, Body] | None]] = field(
        default_factory=list[asyncio.Queue[tuple[str, Body] | None]]
    )

    def put(self, name: str, spec: Body, uid: str = "", status: Body | None = None) -> None:
        before = self.resources.get(name)
        generation = 1 if before is None else before["metadata"]["generation"] + 1
        meta = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
        body: Body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KAFKA_KIND,
            "metadata": meta | {"generation": generation},
            "spec": spec,
        }
        if status is not None:
            body["status"] = status
        elif before is not None and "status" in before:
            body["status"] = before["status"]
        self._keep("ADDED" if before is None else "MODIFIED", body)

    def delete(self, name: str) -> None:
        body = self.resources.pop(name)
        self._send("DELETED", body)

    def _keep(self, kind: str, body: Body) -> None:
        self.resources[body["metadata"]["name"]] = body
        self._send(kind, body)

    def _send(self, kind: str, body: Body) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        event = (kind, json.loads(json.dumps(body)))
        self._history.append((self.version, event))
        for queue in self._watches:
            queue.put_nowait(event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if request.method == "PATCH":
            body = json.loads(await request.text())
            if parts[-1] == "status":
                return self._applied(body)
            self.event_requests += 1
            await asyncio.sleep(self.event_delay_s)
            self.events.append(body)
            return web.json_response(body)
        if "secrets" in parts:
            if self.refuses_secrets:
                return _status(403, "Forbidden", "secrets is forbidden")
            secret = self.secrets.get(parts[-1])
            if secret is None:
                return _status(404, "NotFound", "no such Secret", name=parts[-1])
            return web.json_response(secret)
        if parts[-1] == "pods":
            return web.json_response(
                {"apiVersion": "v1", "items": self.pods, "metadata": {"resourceVersion": "1"}}
            )
        if request.query.get("watch"):
            return await self._watched(request)
        items = list(self.resources.values())
        meta = {"resourceVersion": str(self.version)}
        return web.json_response(
            {"apiVersion": names.API_VERSION, "items": items, "metadata": meta}
        )

    def _applied(self, body: Body) -> web.Response:
        self.writes += 1
        name = body["metadata"]["name"]
        kept = self.resources.get(name)
        if kept is None or kept["metadata"]["uid"] != body["metadata"]["uid"]:
            return _status(404, "NotFound", "gone", name=name)
        kept["status"] = body["status"]
        self._keep("MODIFIED", kept)
        return web.json_response(kept)

    async def _watched(self, request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[tuple[str, Body] | None] = asyncio.Queue()
        for version, event in self._history:
            if version > int(request.query["resourceVersion"]):
                queue.put_nowait(event)
        self._watches.append(queue)
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await queue.get()) is not None:
            line = json.dumps({"type": event[0], "object": event[1]}) + "\n"
            await response.write(line.encode())
        return response

    def end_watches(self) -> None:
        for queue in self._watches:
            queue.put_nowait(None)

    async def until(
        self,
        name: str,
        is_so: Callable[[dict[str, Condition]], bool],
        patience_s: float = PATIENCE_S,
    ) -> Body:
        """Wait until the conditions of a resource are as wanted; returns its status."""
        status: Body = {}

        def is_reported() -> bool:
            nonlocal status
            status = cast("Body", self.resources[name].get("status") or {})
            found = {one["type"]: one for one in status.get("conditions", ())}
            return bool(found) and is_so(found)

        await until(is_reported, self.resources, patience_s)
        return status

    async def until_reason(self, name: str, reason: str, patience_s: float = PATIENCE_S) -> Body:
        return await self.until(name, lambda found: found["Ready"]["reason"] == reason, patience_s)


async def until(
    is_so: Callable[[], bool], what: object = "", patience_s: float = PATIENCE_S
) -> None:
    """Wait until something holds."""
    try:
        async with asyncio.timeout(patience_s):
            while not is_so():  # noqa: ASYNC110 - most of what is waited for has no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not in time: {what}") from None


def _status(code: int, reason: str, message: str, name: str = "") -> web.Response:
    details = {"details": {"name": name}} if name else {}
    body = {"kind": "Status", "reason": reason, "message": message, "code": code, **details}
    return web.json_response(body, status=code)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor_module, "TICK_S", 0.02)


@asynccontextmanager
async def advising(
    api: ApiServer,
    lease: HeldLease | None = None,
    statuses: StatusCache[KafkaQuorumStatus] | None = None,
    **settings: Any,
) -> AsyncGenerator[CollectorRegistry]:
    """The advisor with this API server; yields the registry of its metrics."""
    registry = CollectorRegistry()
    given = load_settings(
        identity="me", **({"kafka_check_interval_s": 1, "kafka_timeout_s": 20} | settings)
    )
    async with client_of(api.answer) as kube:
        held = cast("Lease", lease or HeldLease())
        try:
            kept = statuses or StatusCache(KafkaQuorumStatus)
            async with Advisor(kube, kube, held, given, KafkaMetrics(registry), kept):
                yield registry
        finally:
            api.end_watches()


def shown(
    registry: CollectorRegistry, metric: str, name: str = "orders", **more: str
) -> float | None:
    labels = {"namespace": "ns", "kafka_quorum": name} | more
    return registry.get_sample_value(f"kraftquorum_kafka_{metric}", labels)


def checks() -> list[asyncio.Task[Any]]:
    """The checks that run."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("kafka check ")]


async def test_a_quorum_is_judged_and_the_judgement_follows_it() -> None:
    controller = Controller()
    api = ApiServer()
    async with serving([controller]) as addresses, advising(api) as registry:
        api.put("orders", {"addresses": addresses})
        status = await api.until_reason("orders", "Confirmed")
        assert status["advice"]["kind"] == "Nothing"
        assert (status["voters"], status["spareVoters"]) == (3, 1)
        assert status["observedGeneration"] == 1
        assert shown(registry, "spare_voters") == 1
        assert shown(registry, "confirmed") == 1

        controller.voters[2].age_ms = 400_000
        status = await api.until("orders", lambda found: found["Safe"]["status"] == "False")
        assert status["advice"]["kind"] == "Provide"
        assert shown(registry, "spare_voters") == 0

        controller.observers.append(Row(2, disk=1))
        await api.until("orders", lambda found: found["ActionAdvised"]["reason"] == "Replace")
        assert shown(registry, "advice", advice="replace") == 1
        assert shown(registry, "advice", advice="provide") is None
        await until(lambda: any(event["reason"] == "Replace" for event in api.events))
    reasons = {(event["type"], event["reason"]) for event in api.events}
    assert {("Normal", "Confirmed"), ("Warning", "NoVoterToSpare")} <= reasons
    assert {event["involvedObject"]["kind"] for event in api.events} == {names.KAFKA_KIND}


@pytest.mark.without(
    "kraftquorum_operator.kafka.check:_furthest",
    "max(row.log_end_offset, ends[row.key])",
    "row.log_end_offset",
)
async def test_a_log_that_goes_back_between_two_checks_is_for_a_person() -> None:
    """Its directory was emptied under its old id, and it still counts as fresh."""
    controller = Controller()
    api = ApiServer()
    async with serving([controller]) as addresses, advising(api):
        api.put("orders", {"addresses": addresses})
        await api.until_reason("orders", "Confirmed")
        controller.voters[2].lag = 500
        status = await api.until(
            "orders", lambda found: found["Safe"]["reason"] == "DecisionNeeded", patience_s=15
        )
    assert "went back" in status["advice"]["message"]


@pytest.mark.without(
    "kraftquorum_operator.kafka.advisor:Advisor._report", "status == before", "False"
)
async def test_only_reads_are_sent_and_the_status_is_written_once() -> None:
    controller = Controller()
    api = ApiServer()
    async with serving([controller]) as addresses, advising(api) as registry:
        api.put("orders", {"addresses": addresses})
        await api.until_reason("orders", "Confirmed")
        await until(lambda: (shown(registry, "checks_total", result="advice") or 0) >= 3)
        await until(lambda: len(api.events) >= 3)
    assert api.writes == 1
    assert set(controller.asked) <= READS
    assert len(api.events) == 3


@pytest.mark.without(
    "kraftquorum_operator.kafka.advisor:_Known.is_slow", "now_s - self.began_s > SLOW_S", "False"
)
async def test_controllers_that_hang_delay_no_other_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    """More checks hang than begin at once, and none of them has ended yet."""
    monkeypatch.setattr(advisor_module, "AT_ONCE", 2)
    monkeypatch.setattr(advisor_module, "SLOW_S", 0.1)
    hanging, sound = Controller(hangs=True), Controller()
    api = ApiServer()
    async with serving([hanging, sound]) as (dead, alive), advising(api, kafka_timeout_s=60):
        for number in range(5):
            api.put(f"dead-{number}", {"addresses": [dead]})
        await until(lambda: len(hanging.asked) >= 2)
        api.put("orders", {"addresses": [alive]})
        await api.until_reason("orders", "Confirmed", patience_s=15)
        assert not any("status" in api.resources[f"dead-{number}"] for number in range(5))


async def test_a_controller_that_hangs_is_reported_in_time() -> None:
    api = ApiServer()
    async with serving([Controller(hangs=True)]) as addresses, advising(api, kafka_timeout_s=1):
        api.put("orders", {"addresses": addresses})
        status = await api.until_reason("orders", "Unreachable")
    assert "did not answer ApiVersions within 1 s" in status["conditions"][0]["message"]


async def test_one_controller_of_three_that_hangs_is_named() -> None:
    leader, follower = Controller(), Controller(node_id=1, leads=False)
    hanging = Controller(node_id=2, hangs=True)
    api = ApiServer()
    async with (
        serving([leader, follower, hanging]) as addresses,
        advising(api, kafka_timeout_s=1),
    ):
        api.put("orders", {"addresses": addresses})
        status = await api.until_reason("orders", "Confirmed")
    assert any(f"{addresses[2]} did not answer" in note for note in status["notes"])


async def test_what_is_wrong_with_the_resource_is_the_reason_of_ready() -> None:
    api = ApiServer()
    controllers = [{"id": 5, "address": "127.0.0.1:1"}]
    pods = {"matchLabels": {"app": "kafka"}}
    specs: dict[str, tuple[Body, str]] = {
        "none": ({"pods": pods}, "AddressesInvalid"),
        "secret": ({"addresses": ["127.0.0.1:1"], "credentialsSecret": "x"}, "SecretMissing"),
        "bad": ({"addresses": ["127.0.0.1:1"], "credentialsSecret": "bad"}, "CredentialsInvalid"),
        "spec": ({"address": ["127.0.0.1:1"]}, "SpecInvalid"),
        "nothing": ({"controllers": controllers}, "Unreachable"),
    }
    api.secrets["bad"] = {
        "metadata": {"name": "bad", "uid": "u", "resourceVersion": "1"},
        "data": {},
    }
    async with advising(api):
        for name, (spec, _) in specs.items():
            api.put(name, spec)
        for name, (_, reason) in specs.items():
            status = await api.until_reason(name, reason)
            assert {one["type"]: one["status"] for one in status["conditions"]} == {
                "Ready": "False",
                "Safe": "Unknown",
                "ActionAdvised": "Unknown",
            }
        api.refuses_secrets = True
        api.put("secret", specs["secret"][0] | {"graceSeconds": 1})
        await api.until_reason("secret", "KubernetesRefused")


@pytest.mark.parametrize(
    ("change", "spec", "reason"),
    [
        ({"changes_voters": False}, {}, "TooOld"),
        ({"kraft_version": 0}, {}, "StaticQuorum"),
        ({"config": {"process.roles": "broker,controller"}}, {}, "CombinedMode"),
        ({}, {"clusterId": "other"}, "OtherCluster"),
        ({"errors": {55: 31}}, {}, "AccessDenied"),
        ({"records": 0}, {}, "Unconfirmed"),
        ({"leads": False, "leader_id": -1}, {}, "NoLeader"),
    ],
)
async def test_a_quorum_that_cannot_be_judged(
    change: dict[str, Any], spec: Body, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftquorum_operator.kafka.check.CONFIRM_S", 0.5)
    controller = Controller(**change)
    api = ApiServer()
    async with serving([controller]) as addresses, advising(api):
        api.put("orders", {"addresses": addresses} | spec)
        await api.until_reason("orders", reason)
    assert set(controller.asked) <= READS


async def test_an_id_map_by_pods_that_does_not_match() -> None:
    api = ApiServer()
    controller = Controller()
    async with serving([controller]) as addresses, advising(api):
        host, _, port = addresses[0].partition(":")
        meta = {"name": "k-0", "namespace": "ns"}
        api.pods = [{"metadata": meta, "status": {"podIP": host, "phase": "Running"}}]
        pods = {"matchLabels": {"app": "kafka"}, "port": int(port)}
        mapped = [{"id": number, "pod": f"k-{number}"} for number in range(2)]
        api.put("orders", {"pods": pods, "controllers": mapped})
        status = await api.until_reason("orders", "IdMapMismatch")
        assert "voters are [0, 1, 2]" in status["conditions"][0]["message"]
        api.put("orders", {"pods": pods, "controllers": [*mapped, {"id": 2, "pod": "k-2"}]})
        status = await api.until_reason("orders", "Confirmed")
        assert any("pod k-1" in note for note in status["notes"])


@pytest.mark.without(
    "kraftquorum_operator.kafka.advisor:Advisor._begin_due", "not self.lease.held", "False"
)
async def test_a_standby_asks_nothing_and_writes_nothing() -> None:
    controller, lease, api = Controller(), HeldLease(), ApiServer()
    async with serving([controller]) as addresses, advising(api, lease) as registry:
        api.put("orders", {"addresses": addresses})
        await api.until_reason("orders", "Confirmed")
        lease.held = False
        await until(lambda: not checks())
        asked, writes = len(controller.asked), api.writes
        controller.voters[2].age_ms = 400_000
        await asyncio.sleep(1.5)
        assert (len(controller.asked), api.writes) == (asked, writes)
        assert shown(registry, "confirmed") is None
        lease.held = True
        await api.until("orders", lambda found: found["Safe"]["status"] == "False")


async def test_a_deleted_resource_is_forgotten_and_a_namesake_is_another() -> None:
    controller, api = Controller(), ApiServer()
    async with serving([controller]) as addresses, advising(api) as registry:
        api.put("orders", {"addresses": addresses})
        await api.until_reason("orders", "Confirmed")
        api.delete("orders")
        await until(lambda: shown(registry, "checks_total", result="advice") is None)
        api.put("orders", {"addresses": addresses}, uid="another")
        await api.until_reason("orders", "Confirmed")
        assert shown(registry, "checks_total", result="advice") is not None


@pytest.mark.without(
    "kraftquorum_operator.kafka.advisor:Advisor._release", "self.statuses.released", "str"
)
async def test_the_status_page_has_own_checks_and_on_standby_the_resource() -> None:
    controller, lease, api = Controller(), HeldLease(), ApiServer()
    statuses = StatusCache(KafkaQuorumStatus)

    def is_so(*, own: bool, spare: int) -> bool:
        entry = statuses.quorums.get(("ns", "orders"))
        status = entry.status if entry is not None else None
        return status is not None and (entry.own, status.spare_voters) == (own, spare)

    async with serving([controller]) as addresses, advising(api, lease, statuses):
        api.put("orders", {"addresses": addresses})
        await api.until_reason("orders", "Confirmed")
        await until(lambda: is_so(own=True, spare=1))
        lease.held = False
        await until(lambda: is_so(own=False, spare=1), patience_s=15)
        # Another operator writes what it has checked.
        written = api.resources["orders"]["status"] | {"spareVoters": 0}
        api.put("orders", {"addresses": addresses}, status=written)
        await until(lambda: is_so(own=False, spare=0))
        api.delete("orders")
        await until(lambda: not statuses.quorums)


async def test_without_advice_the_metrics_have_the_reason_of_ready() -> None:
    api = ApiServer()
    async with serving([Controller(kraft_version=0)]) as addresses, advising(api) as registry:
        api.put("orders", {"addresses": addresses})
        await api.until_reason("orders", "StaticQuorum")
        assert shown(registry, "no_advice", reason="StaticQuorum") == 1
        assert shown(registry, "confirmed") == 0
        api.put("orders", {"addresses": addresses, "credentialsSecret": "none"})
        await api.until_reason("orders", "SecretMissing")
        assert shown(registry, "no_advice", reason="SecretMissing") == 1
        assert shown(registry, "no_advice", reason="StaticQuorum") is None


async def test_a_check_that_kopf_cancels_is_begun_again() -> None:
    """When kopf is restarted, it cancels every task that was created since its start."""
    controller, api = Controller(hangs=True), ApiServer()
    async with serving([controller]) as addresses, advising(api, kafka_timeout_s=60):
        api.put("orders", {"addresses": addresses})
        await until(lambda: bool(controller.asked))
        controller.hangs = False
        for task in checks():
            task.cancel()
        await api.until_reason("orders", "Confirmed")


@pytest.mark.without(
    "kraftquorum_operator.kafka.advisor:Advisor.__aexit__", "await self._poster.close()", "pass"
)
async def test_events_that_are_not_sent_at_the_exit_are_sent_before_the_client_is_closed() -> None:
    controller, api = Controller(), ApiServer(event_delay_s=0.2)
    async with serving([controller]) as addresses, advising(api):
        api.put("orders", {"addresses": addresses})
        await until(lambda: api.event_requests > 0)
        assert not api.events
    assert len(api.events) == 3


@pytest.mark.without(
    "kraftquorum_operator.kafka.advisor:Advisor._pause_s", "if known.without_advice:", "if False:"
)
def test_checks_without_advice_become_rarer() -> None:
    lease = cast("Lease", HeldLease())
    kube = cast("KubeClient", None)
    settings = load_settings(identity="me", kafka_check_interval_s=30)
    advisor = Advisor(kube, kube, lease, settings, KafkaMetrics(CollectorRegistry()))
    known = advisor_module._Known(Owner("ns", "orders", "uid"), 1, Check(kube, 1), 0)

    def pause_s(without_advice: int) -> float:
        known.without_advice = without_advice
        return advisor._pause_s(known)

    assert all(27 <= pause_s(times) <= 33 for times in (0, 1))
    assert 54 <= pause_s(2) <= 66
    assert all(108 <= pause_s(times) <= 132 for times in (3, 4, 1_000))
