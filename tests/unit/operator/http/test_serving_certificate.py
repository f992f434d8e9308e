"""The metrics over TLS: certificates of the operator's own, and from files that change."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import trustme
from cryptography import x509
from prometheus_client import CollectorRegistry

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.http import tls_listener
from kraftquorum_operator.http.listener import CONNECTIONS_MAX, listening
from kraftquorum_operator.http.metrics_page import metrics_application
from kraftquorum_operator.http.serving_certificate import LIFETIME_S, ServingCertificate
from kraftquorum_operator.model.certificate_files import CertificateFiles
from kraftquorum_operator.settings import load_settings

HOST = "127.0.0.1"


def write(folder: Path, authority: trustme.CA) -> CertificateFiles:
    leaf = authority.issue_cert(HOST)
    folder.mkdir(exist_ok=True)
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
    files.certificate.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    files.key.write_bytes(leaf.private_key_pem.bytes())
    return files


@asynccontextmanager
async def served(certificate: ServingCertificate) -> AsyncGenerator[int]:
    application = metrics_application(CollectorRegistry())
    async with listening(application, HOST, 0, "metrics", certificate.context) as port:
        assert port is not None
        yield port


def presented(port: int) -> x509.Certificate:
    """The certificate that a client sees, checked or not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((HOST, port), timeout=30) as raw,
        context.wrap_socket(raw) as wrapped,
    ):
        der = wrapped.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


async def status(port: int, context: ssl.SSLContext) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://{HOST}:{port}/metrics", ssl=context) as answer,
    ):
        await answer.read()
        return answer.status


async def test_a_certificate_of_the_operator_s_own_is_renewed_before_it_ends() -> None:
    now_s = datetime.now(UTC).timestamp()
    clock = [now_s]
    certificate = ServingCertificate("operator-0", clock=lambda: clock[0])
    async with served(certificate) as port:
        first = await asyncio.to_thread(presented, port)
        assert (
            first.not_valid_before_utc.timestamp() < now_s < first.not_valid_after_utc.timestamp()
        )
        certificate.check()
        assert await asyncio.to_thread(presented, port) == first
        clock[0] += LIFETIME_S / 2 + 1
        certificate.check()
        second = await asyncio.to_thread(presented, port)
        assert second != first
        assert second.not_valid_after_utc > first.not_valid_after_utc


async def test_renewed_files_are_used_without_a_restart_and_bad_files_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, other = trustme.CA(), trustme.CA()
    files = write(tmp_path, authority)
    certificate = ServingCertificate("operator-0", files)
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with served(certificate) as port:
        assert await status(port, context) == 200
        first = await asyncio.to_thread(presented, port)
        write(tmp_path, authority)
        certificate.check()
        second = await asyncio.to_thread(presented, port)
        assert second != first
        assert await status(port, context) == 200
        # The key of another certificate, then no file at all, then no PEM.
        files.key.write_bytes(other.issue_cert(HOST).private_key_pem.bytes())
        certificate.check()
        files.key.unlink()
        certificate.check()
        files.key.write_text("no key")
        certificate.check()
        assert await asyncio.to_thread(presented, port) == second
        assert await status(port, context) == 200
    lines = [line for line in capsys.readouterr().out.splitlines() if "not_reloaded" in line]
    assert len(lines) == 3
    assert "no certificate with its key" in lines[0]
    assert "No such file" in lines[1]


@pytest.mark.parametrize("fault", ["missing", "mismatched", "text"])
def test_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path, fault: str) -> None:
    files = write(tmp_path, trustme.CA())
    match fault:
        case "missing":
            files.key.unlink()
        case "mismatched":
            files.key.write_bytes(trustme.CA().issue_cert(HOST).private_key_pem.bytes())
        case _:
            files.certificate.write_text("no certificate")
    with pytest.raises(SettingsError, match="KRAFTQUORUM_METRICS_CERTIFICATE_FILE and"):
        ServingCertificate("operator-0", files)


def test_a_certificate_without_its_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFTQUORUM_METRICS_CERTIFICATE_FILE", "/tls.crt")
    with pytest.raises(SettingsError, match="belong together: set both or neither"):
        load_settings()
    monkeypatch.setenv("KRAFTQUORUM_METRICS_KEY_FILE", "/tls.key")
    found = load_settings().metrics_certificate
    assert found == CertificateFiles(Path("/tls.crt"), Path("/tls.key"))


async def test_plain_http_and_older_tls_are_refused(tmp_path: Path) -> None:
    authority = trustme.CA()
    async with served(ServingCertificate("o", write(tmp_path, authority))) as port:
        with pytest.raises(aiohttp.ClientError):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{HOST}:{port}/metrics"),
            ):
                pass
        old = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientConnectorError):
            await status(port, old)


@pytest.mark.without(
    "kraftquorum_operator.http.tls_listener:TlsListener._run",
    "self._is_full(len(self._handshakes))",
    "False",
)
async def test_clients_that_never_shake_hands_are_bounded_and_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKE_S", 3.0)
    authority = trustme.CA()
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    async with (
        served(ServingCertificate("o", write(tmp_path, authority))) as port,
        AsyncExitStack() as opened,
    ):

        async def connect() -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection(HOST, port)
            opened.callback(writer.close)
            return reader

        held = [await connect() for _ in range(CONNECTIONS_MAX)]
        refused = await connect()
        # Well before the others' handshakes time out.
        closed = await asyncio.wait([asyncio.ensure_future(refused.read())], timeout=2)  # noqa: TID251
        assert [task.result() for task in closed[0]] == [b""]
        async with asyncio.timeout(60):
            for silent in held:
                with suppress(ConnectionError):
                    assert await silent.read() == b""
            assert await status(port, context) == 200


def test_openssl_reads_the_own_certificate(tmp_path: Path) -> None:
    """An independent reader: the certificate is for a server and is no authority."""
    if subprocess.run(["which", "openssl"], capture_output=True, check=False).returncode:
        pytest.skip("openssl is missing")
    from kraftquorum_operator.http.serving_certificate import _self_signed  # noqa: PLC0415

    path = tmp_path / "own.pem"
    path.write_bytes(_self_signed("operator-0", datetime.now(UTC)))
    text = subprocess.run(
        ["openssl", "x509", "-in", str(path), "-noout", "-text"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "TLS Web Server Authentication" in text
    assert "CA:FALSE" in text
    assert "DNS:operator-0" in text
