"""TLS of a node: its metrics show the certificates that are in its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proofkit.certificates import HOUR, SPIFFE, Authority, CertificateFiles
from raftnode.runtime.builders.tls import build_tls
from raftnode.runtime.process.tasks import Tasks
from raftnode.settings import NodeSettings
from raftnode.tls.files import TlsFiles

URI = f"{SPIFFE}/Cluster/node/1"
METRICS = "runtime.metrics.tls_metrics:TlsMetrics.show"


def settings_of(directory: Path, peer: CertificateFiles, api: CertificateFiles) -> NodeSettings:
    return NodeSettings(
        node_id=1,
        log_dir=directory / "data",
        peer_tls="required",
        peer_tls_certificate_file=peer.certificate,
        peer_tls_key_file=peer.key,
        peer_tls_ca_file=peer.ca,
        api_tls="required",
        api_tls_certificate_file=api.certificate,
        api_tls_key_file=api.key,
    )


def shown(registry: CollectorRegistry, listener: str) -> list[float | None]:
    names = (
        "certificate_expiry_timestamp",
        "certificate_lifetime",
        "certificate_accepted_until_timestamp",
    )
    labels = {"listener": listener}
    return [registry.get_sample_value(f"raftnode_tls_{name}_seconds", labels) for name in names]


def shown_cas(registry: CollectorRegistry, listener: str) -> dict[str, float]:
    return {
        sample.labels["ca"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "raftnode_tls_ca_expiry_timestamp_seconds"
        and sample.labels["listener"] == listener
    }


def in_files(files: CertificateFiles) -> list[float]:
    """The same figures, from the files themselves."""
    own = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    end, begin = own.not_valid_after_utc, own.not_valid_before_utc
    return [end.timestamp(), (end - begin).total_seconds(), end.timestamp()]


def cas_in(files: CertificateFiles) -> dict[str, float]:
    """The end of each CA, from the file itself."""
    return {
        ca.fingerprint(hashes.SHA256()).hex()[:16]: ca.not_valid_after_utc.timestamp()
        for ca in x509.load_pem_x509_certificates(files.ca.read_bytes())
    }


async def take(files: TlsFiles) -> None:
    assert not await files.look()
    assert await files.look()


@pytest.mark.without(METRICS, "material.certificate.not_after", "material.certificate.not_before")
@pytest.mark.without(METRICS, "set(material.lifetime_s)", "set(7200)")
@pytest.mark.without(METRICS, "self._shown_cas[listener] = ", "_ = ")
@pytest.mark.without(
    "tls.files:TlsFiles.look", "self._on_reload(Reload(self.rules.listener, None))", "pass"
)
async def test_the_metrics_show_the_certificates_in_the_files_also_after_a_renewal(tmp_path: Path):
    longer, shorter = Authority(), Authority(valid_for=5 * HOUR)
    peer = longer.issue(tmp_path / "peer", uris=[URI], also_trusted=[shorter], valid_for=2 * HOUR)
    api = longer.issue(tmp_path / "api", hosts=["node-1"], valid_for=3 * HOUR)
    registry, tasks = CollectorRegistry(), Tasks(lambda _: None)
    tls = await build_tls(settings_of(tmp_path, peer, api), registry, tasks, lambda: None)
    assert tls.peer is not None
    assert tls.api is not None
    assert shown(registry, "peer") == in_files(peer)
    assert shown(registry, "api") == in_files(api)
    assert shown_cas(registry, "peer") == cas_in(peer)
    assert len(cas_in(peer)) == 2
    assert shown_cas(registry, "api") == {}  # it trusts no CA

    before = shown(registry, "peer"), shown(registry, "api")
    longer.issue(tmp_path / "peer", uris=[URI], valid_for=4 * HOUR)
    await take(tls.peer.files)
    assert shown(registry, "peer") == in_files(peer)
    assert all(now != old for now, old in zip(shown(registry, "peer"), before[0], strict=True))
    assert shown_cas(registry, "peer") == cas_in(peer)
    assert len(cas_in(peer)) == 1
    assert shown(registry, "api") == before[1]
    longer.issue(tmp_path / "api", hosts=["node-1"], valid_for=5 * HOUR)
    await take(tls.api.files)
    assert shown(registry, "api") == in_files(api)
    assert shown(registry, "api") != before[1]


@pytest.mark.parametrize("listener", ["peer", "api"])
@pytest.mark.without(
    "runtime.builders.tls:build_tls", "_warn_of_ignored_files(settings, rules.listener)", "pass"
)
async def test_files_of_a_listener_whose_mode_was_forgotten_are_reported(
    tmp_path: Path, listener: str
):
    authority = Authority()
    peer = authority.issue(tmp_path / "peer", uris=[URI])
    api = authority.issue(tmp_path / "api", hosts=["node-1"])
    complete = settings_of(tmp_path, peer, api)
    forgotten = complete.model_copy(update={f"{listener}_tls": "disabled"})
    plain = NodeSettings(node_id=1, log_dir=tmp_path / "data")
    lines: list[list[tuple[object, ...]]] = []
    for settings in (complete, plain, forgotten):
        with capture_logs() as events:
            await build_tls(settings, CollectorRegistry(), Tasks(lambda _: None), lambda: None)
        lines.append([(event["event"], event["log_level"], event["listener"]) for event in events])
    assert lines == [[], [], [("tls_files_ignored", "warning", listener)]]
    problem = events[0]["problem"]
    assert problem.startswith(f"{listener}_tls is disabled, so connections are plain in spite of ")
    assert f" {listener}_tls_certificate_file and {listener}_tls_key_file: " in problem


@pytest.mark.without(METRICS, "material.accepted_until", "material.certificate.not_after")
async def test_the_metrics_show_that_a_ca_ends_before_its_certificate(tmp_path: Path):
    short, other = Authority(valid_for=2 * HOUR), Authority()
    peer = short.issue(tmp_path / "peer", uris=[URI], also_trusted=[other], valid_for=9 * HOUR)
    api = other.issue(tmp_path / "api", hosts=["node-1"])
    registry, tasks = CollectorRegistry(), Tasks(lambda _: None)
    await build_tls(settings_of(tmp_path, peer, api), registry, tasks, lambda: None)
    expiry, _, until = shown(registry, "peer")
    assert expiry == in_files(peer)[0]
    assert until == min(cas_in(peer).values()) < expiry


async def test_a_refused_file_leaves_the_figures_of_the_certificate_in_force(tmp_path: Path):
    authority = Authority()
    peer = authority.issue(tmp_path / "peer", uris=[URI])
    api = authority.issue(tmp_path / "api", hosts=["node-1"])
    registry, tasks = CollectorRegistry(), Tasks(lambda _: None)
    tls = await build_tls(settings_of(tmp_path, peer, api), registry, tasks, lambda: None)
    assert tls.peer is not None
    before = in_files(peer)
    authority.issue(tmp_path / "peer", uris=[f"{SPIFFE}/Cluster/node/2"], valid_for=9 * HOUR)
    assert not await tls.peer.files.look()
    assert not await tls.peer.files.look()
    assert tls.peer.files.problem is not None
    assert shown(registry, "peer") == before != in_files(peer)
