"""TLS of both listeners, from the settings."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import structlog
from prometheus_client import CollectorRegistry

from raftnode.api.model import ListenerCertificate
from raftnode.runtime.metrics.tls_metrics import TlsMetrics
from raftnode.runtime.process.tasks import Tasks
from raftnode.tls.certificates import Certificate
from raftnode.tls.failures import Reason
from raftnode.tls.files import Reload, TlsFiles
from raftnode.tls.handshakes import FailureLog, ListenerTls
from raftnode.tls.material import ClientCertificates, ListenerName, Mode, TlsRules

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")

API_HANDSHAKE_S = 5.0
PEER_HANDSHAKE_S = 1.0
"""Shorter than the time for a hello, which counts from when the connection is accepted, too."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of both listeners.

    Attributes:
        peer: of the peers' listener; None: it is plain.
        api: of the clients' listener; None: it is plain.
    """

    peer: ListenerTls | None = None
    api: ListenerTls | None = None

    def listeners(self) -> tuple[ListenerTls, ...]:
        """Those with TLS."""
        return tuple(tls for tls in (self.peer, self.api) if tls is not None)

    def describe(self) -> tuple[ListenerCertificate, ...]:
        """What each listener presents and trusts now."""
        return tuple(_describe(tls.files) for tls in self.listeners())

    def trusted_by_api(self) -> tuple[Certificate, ...]:
        """The CAs of client certificates; none without TLS."""
        return () if self.api is None else self.api.files.material.trusted

    def watch(
        self,
        tasks: Tasks,
        *on_peer_changed: Callable[[], None],
        on_api_changed: Callable[[], None],
    ) -> None:
        """Look at the files from now on; call back when those of a listener changed."""

        def renew() -> None:
            for step in on_peer_changed:
                step()

        if self.peer is not None:
            tasks(self.peer.files.watch(renew), name="peer certificates")
        if self.api is not None:
            tasks(self.api.files.watch(on_api_changed), name="api certificates")


async def build_tls(
    settings: NodeSettings,
    registry: CollectorRegistry,
    tasks: Tasks,
    cluster_id: Callable[[], str | None],
    audit: Callable[[str, Reason, str], None] | None = None,
) -> Tls:
    """Read the files of both listeners.

    Args:
        settings: the node's.
        registry: of the metrics; there are none without TLS.
        tasks: starts handshakes.
        cluster_id: of this node, once it is known.
        audit: is called with listener, reason and address of each connection that fails.

    Raises:
        TlsError: a file cannot be used.
    """
    wanted = list[TlsRules]()
    for rules in (_peer_rules(settings), _api_rules(settings, settings.api_tls)):
        if rules.mode != "disabled":
            wanted.append(rules)
        else:
            _warn_of_ignored_files(settings, rules.listener)
    if not wanted:
        return Tls()
    metrics = TlsMetrics(registry, tuple(rules.listener for rules in wanted))
    failures = FailureLog(metrics.note_failure, audit)

    async def build(rules: TlsRules, handshake_s: float) -> ListenerTls | None:
        if rules.mode == "disabled":
            return None

        def note(reload: Reload) -> None:
            metrics.note_reload(reload)
            metrics.show(rules.listener, files.material)

        files = await asyncio.to_thread(TlsFiles, rules, cluster_id=cluster_id, on_reload=note)
        metrics.show(rules.listener, files.material)
        metrics.tls_files_refused.labels(rules.listener).set(0)
        return ListenerTls(files, tasks, failures, handshake_s)

    return Tls(
        peer=await build(_peer_rules(settings), PEER_HANDSHAKE_S),
        api=await build(_api_rules(settings, settings.api_tls), API_HANDSHAKE_S),
    )


def _warn_of_ignored_files(settings: NodeSettings, listener: ListenerName) -> None:
    """Report files of a plain listener: perhaps its mode was forgotten."""
    names = [f"{listener}_tls_{file}_file" for file in ("certificate", "key")]
    ignored = [name for name in names if getattr(settings, name) is not None]
    if ignored:
        problem = (
            f"{listener}_tls is disabled, so connections are plain in spite of "
            f"{' and '.join(ignored)}: set {listener}_tls, or remove these settings"
        )
        _log.warning("tls_files_ignored", listener=listener, problem=problem)


def _rules(
    settings: NodeSettings,
    listener: ListenerName,
    mode: Mode,
    client_certificates: ClientCertificates,
) -> TlsRules:
    def file(name: str) -> Path | None:
        return cast("Path | None", getattr(settings, f"{listener}_tls_{name}_file"))

    return TlsRules(
        listener=listener,
        mode=mode,
        # The settings have been checked: with TLS both are set.
        certificate_file=file("certificate") or Path(),
        key_file=file("key") or Path(),
        ca_file=file("ca"),
        client_certificates=client_certificates,
        min_version=settings.tls_min_version,
        node_id=settings.node_id,
    )


def _peer_rules(settings: NodeSettings) -> TlsRules:
    return _rules(settings, "peer", settings.peer_tls, "required")


def _api_rules(settings: NodeSettings, mode: Mode) -> TlsRules:
    asked = settings.api_tls_client_certificates if settings.api_tls_ca_file else "none"
    return _rules(settings, "api", mode, asked)


def _time(at: dt.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _describe(files: TlsFiles) -> ListenerCertificate:
    certificate, trusted = files.material.certificate, files.material.trusted
    return ListenerCertificate(
        listener=files.rules.listener,
        mode="permissive" if files.rules.mode == "permissive" else "required",
        sha256=certificate.sha256,
        serial=certificate.serial,
        not_before=_time(certificate.not_before),
        not_after=_time(certificate.not_after),
        uri_names=certificate.uri_names,
        dns_names=certificate.dns_names,
        ip_addresses=certificate.ip_addresses,
        trusted_ca_sha256=tuple(ca.sha256 for ca in trusted),
        problem=files.problem,
    )
