"""The metrics of TLS; a node without TLS has none of these series."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from raftnode.api.metric_table import CounterRow, GaugeRow, MetricTable
from raftnode.tls.failures import Reason
from raftnode.tls.files import Reload
from raftnode.tls.material import Material


class TlsMetrics(MetricTable[Any]):
    """Metrics of the certificates and handshakes."""

    tls_certificate_expiry_timestamp_seconds = GaugeRow[Any](
        "Unix time at which the certificate that a listener presents expires.",
        labels=("listener",),
    )
    tls_certificate_lifetime_seconds = GaugeRow[Any](
        "Seconds from the begin to the end of that certificate's validity.",
        labels=("listener",),
    )
    tls_certificate_accepted_until_timestamp_seconds = GaugeRow[Any](
        "Unix time at which other ends begin to refuse that certificate: it expires, or each CA "
        "above it has expired. Of the listener `api` only CAs that it trusts are known.",
        labels=("listener",),
    )
    tls_ca_expiry_timestamp_seconds = GaugeRow[Any](
        "Unix time at which a CA that a listener trusts expires; `ca` has the first 16 digits of "
        "its SHA-256 fingerprint.",
        labels=("listener", "ca"),
    )
    tls_files_refused = GaugeRow[Any](
        "1 while the files of a listener cannot be used and it presents what it read before.",
        labels=("listener",),
    )
    tls_reloads = CounterRow(
        "Changed files of a listener that were read again, by outcome: taken or refused.",
        labels=("listener", "outcome"),
    )
    tls_handshake_failures = CounterRow(
        "Connections that did not come about, by reason. The listener `dialled` counts those "
        "that this node made to peers.",
        labels=("listener", "reason"),
    )

    def __init__(self, registry: CollectorRegistry, listeners: tuple[str, ...]) -> None:
        super().__init__(registry)
        self._shown_cas: dict[str, frozenset[str]] = {}
        for listener in listeners:  # a rate needs the 0 before the first
            for outcome in ("taken", "refused"):
                self.tls_reloads.labels(listener, outcome)
            for counted in (listener, "dialled") if listener == "peer" else (listener,):
                for reason in Reason:
                    self.tls_handshake_failures.labels(counted, reason.value)

    def show(self, listener: str, material: Material) -> None:
        """Show what a listener presents and trusts."""
        expiry = self.tls_certificate_expiry_timestamp_seconds.labels(listener)
        expiry.set(material.certificate.not_after.timestamp())
        self.tls_certificate_lifetime_seconds.labels(listener).set(material.lifetime_s)
        until = self.tls_certificate_accepted_until_timestamp_seconds.labels(listener)
        until.set(material.accepted_until.timestamp())
        trusted = {ca.sha256[:16]: ca.not_after for ca in material.trusted}
        for ca, end in trusted.items():
            self.tls_ca_expiry_timestamp_seconds.labels(listener, ca).set(end.timestamp())
        for gone in self._shown_cas.get(listener, frozenset()) - trusted.keys():
            self.tls_ca_expiry_timestamp_seconds.remove(listener, gone)
        self._shown_cas[listener] = frozenset(trusted)

    def note_reload(self, reload: Reload) -> None:
        """Count files that were read again."""
        refused = reload.problem is not None
        self.tls_reloads.labels(reload.listener, "refused" if refused else "taken").inc()
        self.tls_files_refused.labels(reload.listener).set(refused)

    def note_failure(self, listener: str, reason: Reason) -> None:
        """Count a connection that did not come about."""
        self.tls_handshake_failures.labels(listener, reason.value).inc()
