"""The running operator: connections, Lease, metrics and handlers, started and stopped in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version

import prometheus_client

from kraftquorum_operator.clients.cache import Cache
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.clients.lease import Lease
from kraftquorum_operator.clients.lease_thread import LeaseThread
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.handlers import run_kopf
from kraftquorum_operator.http.access import Access, kubernetes_review
from kraftquorum_operator.http.listener import listening
from kraftquorum_operator.http.metrics_page import PATH as METRICS_PATH
from kraftquorum_operator.http.metrics_page import metrics_application
from kraftquorum_operator.http.page.kafka_verdict import KAFKA_STALE_S
from kraftquorum_operator.http.page.server import StatusPage
from kraftquorum_operator.http.page.verdict import STALE_S
from kraftquorum_operator.http.serving_certificate import ServingCertificate
from kraftquorum_operator.kafka.advisor import Advisor
from kraftquorum_operator.kafka.metrics import KafkaMetrics
from kraftquorum_operator.memory.status_cache import StatusCache
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.preflight import (
    await_api,
    await_rights,
    report_kafka_crd,
    watchable_namespaces,
)
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.schedule.replica_watches import ReplicaWatches
from kraftquorum_operator.schedule.wake_ups import Wakeups
from kraftquorum_operator.settings import Settings


async def serve(settings: Settings, stop: asyncio.Event | None = None) -> None:
    """Run until a signal, or until `stop` is set.

    Raises:
        SettingsError: there is no way to reach Kubernetes.
    """
    async with AsyncExitStack() as stack:
        kube = await KubeClient.connect(settings.kubeconfig, settings.kube_timeout_s)
        stack.push_async_callback(kube.close)
        nodes = HttpNodes(settings.node_timeout_s)
        stack.push_async_callback(nodes.close)
        # Used on the thread of the Lease alone, which closes it.
        lease_kube = await KubeClient.connect(settings.kubeconfig, settings.kube_timeout_s)
        lease = Lease(
            lease_kube,
            namespace=settings.lease_place,
            name=settings.lease_name,
            identity=settings.identity,
            duration_s=settings.lease_duration_s,
        )
        prometheus_client.disable_created_metrics()
        metrics = Metrics(version("kraftquorum"))
        metrics.operator_active.set_function(lambda: float(lease.held))
        metrics.operator_reconcile_idle_seconds.set(settings.reconcile_idle_s)
        prometheus_client.ProcessCollector(registry=metrics.registry)
        kube.on_request = lease_kube.on_request = partial(metrics.request, "kubernetes")
        nodes.on_request = partial(metrics.request, "node")
        if settings.metrics_port:
            await stack.enter_async_context(serving_metrics(kube, metrics, settings))
        reconciler = Reconciler(
            kube=kube,
            nodes=nodes,
            lease=lease,
            settings=settings,
            metrics=metrics,
            failpoints=Failpoints(settings.exit_before_action, settings.stop_before_delete),
        )
        stack.push_async_callback(reconciler.event_poster.close)
        reconciler.statuses.ready = False
        kafka_statuses = StatusCache(KafkaQuorumStatus)
        if settings.page_port:
            page = StatusPage(
                reconciler.statuses,
                identity=settings.identity,
                is_active=lambda: lease.held,
                stale_s=max(STALE_S, 3 * settings.reconcile_idle_s),
                kafka=kafka_statuses,
                kafka_stale_s=max(KAFKA_STALE_S, 3 * settings.kafka_check_interval_s),
            )
            await stack.enter_async_context(
                listening(page.application(), settings.page_host, settings.page_port, "status page")
            )
        await await_api(kube)
        await await_rights(kube, settings)
        reconciler.statuses.ready = True
        watchable = partial(watchable_namespaces, kube, settings)
        wakeups = Wakeups()
        reconciler.replica_watches = await stack.enter_async_context(
            ReplicaWatches(nodes, wakeups.wake)
        )
        watches = await KubeClient.connect(
            settings.kubeconfig, settings.kube_timeout_s, connections_max=0
        )
        stack.push_async_callback(watches.close)
        reconciler.evaluator.cache = await stack.enter_async_context(
            Cache(watches, settings.namespaces, wakeups.wake)
        )
        if settings.kafka_advice:
            await report_kafka_crd(kube)
            kafka_metrics = KafkaMetrics(metrics.registry)
            advisor = Advisor(kube, watches, lease, settings, kafka_metrics, kafka_statuses)
            await stack.enter_async_context(advisor)
        keeper = LeaseThread(lease, lease_kube.close)
        await _run(keeper, lambda: run_kopf(reconciler, wakeups, settings, stop, watchable))


@asynccontextmanager
async def serving_metrics(
    kube: KubeClient, metrics: Metrics, settings: Settings
) -> AsyncGenerator[int | None]:
    """Serve `/metrics` as the settings say; yields the port.

    Raises:
        SettingsError: the certificate's files cannot be used.
    """
    access = certificate = None
    if settings.metrics_access == "authenticated":
        access = Access(kubernetes_review(kube, METRICS_PATH))
    if access is not None or settings.metrics_certificate_file:
        certificate = ServingCertificate(settings.identity, settings.metrics_certificate)
    shown = metrics_application(metrics.registry, access)
    context = None if certificate is None else certificate.context
    async with (
        _kept(certificate),
        listening(shown, settings.metrics_host, settings.metrics_port, "metrics", context) as port,
    ):
        yield port


@asynccontextmanager
async def _kept(certificate: ServingCertificate | None) -> AsyncGenerator[None]:
    if certificate is None:
        yield
        return
    # Not a task group: it would wrap the errors of what runs meanwhile.
    keeping = asyncio.create_task(certificate.keep(), name="certificate")  # noqa: TID251
    try:
        yield
    finally:
        keeping.cancel()


async def _run(keeper: LeaseThread, work: Callable[[], Awaitable[None]]) -> None:
    """Work while the operator holds the Lease, and release it at the end."""
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run(), name="lease")
        try:
            await work()
        finally:
            keeping.cancel()
