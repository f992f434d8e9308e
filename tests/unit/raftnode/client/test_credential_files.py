"""Files of credentials: taken when they change, kept when they cannot be used, never shown."""

from __future__ import annotations

import gc
import logging
import os
import ssl
import traceback
from pathlib import Path

import pytest

from proofkit.certificates import Authority, CertificateFiles, replace_file
from raftnode.client.credential_files import (
    CHECK_S,
    PLAIN,
    TOKEN_BYTES_MAX,
    CredentialFiles,
    LoadedCredentials,
)
from raftnode.client.credentials import NO_CREDENTIALS, Credentials
from raftnode.client.errors import CredentialsError
from raftnode.core.types import Endpoint

SECRET = "s3cr3t-t0ken-0123456789"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.fixture
def issued(tmp_path: Path) -> CertificateFiles:
    return Authority().issue(tmp_path / "client", common_name="app")


def with_token(token: Path, clock: Clock) -> CredentialFiles:
    return CredentialFiles(Credentials(token_file=token, plaintext_token=True), clock=clock)


def with_tls(issued: CertificateFiles, clock: Clock) -> CredentialFiles:
    credentials = Credentials(
        ca_file=issued.ca, certificate_file=issued.certificate, key_file=issued.key
    )
    return CredentialFiles(credentials, clock=clock)


def test_without_credentials_requests_carry_nothing_and_are_plain():
    loaded = CredentialFiles(NO_CREDENTIALS).current()
    assert (loaded.tls, dict(loaded.headers), loaded.ssl) == (None, {}, True)
    assert str(loaded.url(Endpoint("::1", 9080), "/v1/kv/a%2Fb")) == "http://[::1]:9080/v1/kv/a%2Fb"
    assert loaded == PLAIN


def test_requests_carry_the_token_and_the_cluster_that_is_meant(token: Path):
    credentials = Credentials(token_file=token, plaintext_token=True)
    loaded = CredentialFiles(credentials, "DemoCluster").current()
    assert dict(loaded.headers) == {
        "Authorization": f"Bearer {SECRET}",
        "X-Kraftquorum-Cluster-Id": "DemoCluster",
    }


def test_with_a_ca_connections_are_tls_and_verify(issued: CertificateFiles, clock: Clock):
    loaded = with_tls(issued, clock).current()
    assert loaded.tls is not None
    assert loaded.tls.verify_mode is ssl.CERT_REQUIRED
    assert loaded.tls.check_hostname
    assert loaded.tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert str(loaded.url(Endpoint("demo-0.demo.ns.svc", 9080), "/v1/node")).startswith("https://")


def test_a_new_token_is_taken_at_the_next_look_and_not_before(token: Path, clock: Clock):
    files = with_token(token, clock)
    first = files.current()
    replace_file(token, b"another")
    assert files.current() is first
    clock.now_s += CHECK_S
    second = files.current()
    assert second.headers["Authorization"] == "Bearer another"
    assert second.version > first.version


def test_a_refusal_makes_the_client_look_at_once(token: Path, clock: Clock):
    files = with_token(token, clock)
    files.current()
    replace_file(token, b"another")
    assert files.refresh().headers["Authorization"] == "Bearer another"


def test_a_link_that_points_elsewhere_is_a_change(tmp_path: Path, clock: Clock):
    """The kubelet replaces a volume's directory through a link."""
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    data = tmp_path / "..data"
    data.symlink_to("first")
    files = with_token(data / "token", clock)
    assert files.current().headers["Authorization"] == "Bearer first"
    (tmp_path / "..data_tmp").symlink_to("other")
    (tmp_path / "..data_tmp").replace(data)
    assert files.refresh().headers["Authorization"] == "Bearer other"


def test_a_new_certificate_makes_a_new_context_and_a_new_token_does_not(
    issued: CertificateFiles, token: Path, clock: Clock, tmp_path: Path
):
    credentials = Credentials(
        ca_file=issued.ca,
        certificate_file=issued.certificate,
        key_file=issued.key,
        token_file=token,
    )
    files = CredentialFiles(credentials, clock=clock)
    first = files.current()
    replace_file(token, b"another")
    second = files.refresh()
    assert second.tls is first.tls, "connections that are open can be used"
    assert second.version == first.version + 1
    Authority().issue(tmp_path / "client", common_name="app")
    third = files.refresh()
    assert third.tls is not first.tls
    assert third.version == second.version + 1
    assert files.refresh() is third or files.refresh().version == third.version


def test_files_replaced_one_after_the_other_are_taken_once_they_go_together(
    issued: CertificateFiles, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    files = with_tls(issued, clock)
    first = files.current()
    new = Authority().issue(tmp_path / "new", common_name="app")
    replace_file(issued.certificate, new.certificate.read_bytes())
    for _ in range(3):
        clock.now_s += CHECK_S
        assert files.current() is first
    lines = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1, "the same reason is logged once"
    assert "the key does not belong to the certificate" in lines[0].getMessage()
    replace_file(issued.key, new.key.read_bytes())
    clock.now_s += CHECK_S
    assert files.current().tls is not first.tls


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two words", "Ä".encode(), b"a\nb"])
def test_a_token_that_is_none_replaces_nothing(content: bytes | None, token: Path, clock: Clock):
    files = with_token(token, clock)
    first = files.current()
    if content is None:
        token.unlink()
    else:
        replace_file(token, content)
    assert files.refresh() is first


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (f"{SECRET} {SECRET}".encode(), "one line of visible ASCII"),
        (f"{SECRET}\r\nX-Other: 1".encode(), "one line of visible ASCII"),
        (b"x" * (TOKEN_BYTES_MAX + 1), f"longer than {TOKEN_BYTES_MAX} bytes"),
    ],
)
def test_the_first_reading_names_the_file_and_nothing_of_its_content(
    content: bytes, reason: str, token: Path, clock: Clock
):
    token.write_bytes(content)
    with pytest.raises(CredentialsError, match=reason) as caught:
        with_token(token, clock).current()
    shown = "".join(traceback.format_exception(caught.value))
    assert str(token) in str(caught.value)
    assert SECRET not in shown + repr(caught.value)


def test_the_longest_token_is_one(token: Path, clock: Clock):
    token.write_bytes(b"x" * TOKEN_BYTES_MAX + b"\r\n")
    assert len(with_token(token, clock).current().headers["Authorization"]) == 7 + TOKEN_BYTES_MAX


def test_each_file_that_cannot_be_used_is_named_with_its_reason(
    issued: CertificateFiles, tmp_path: Path, clock: Clock
):
    nothing = tmp_path / "absent"
    text = tmp_path / "text"
    text.write_text("no certificate")
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    other = Authority().issue(tmp_path / "other", common_name="x")
    tls = {"ca_file": issued.ca, "certificate_file": issued.certificate, "key_file": issued.key}
    for name, path, reason in (
        ("ca_file", nothing, "No such file or directory"),
        ("ca_file", text, "no PEM certificate"),
        ("ca_file", broken, ""),
        ("ca_file", tmp_path, "Is a directory"),
        ("certificate_file", nothing, "No such file or directory"),
        ("certificate_file", text, "no PEM certificate"),
        ("certificate_file", broken, ""),
        ("key_file", nothing, "No such file or directory"),
        ("key_file", text, ""),
        ("key_file", other.key, "the key does not belong to the certificate"),
    ):
        files = CredentialFiles(Credentials(**{**tls, name: path}), clock=clock)
        with pytest.raises(CredentialsError, match=f"{name} {path}.*{reason}"):
            files.current()


def test_a_key_with_a_password_is_refused_and_no_person_is_asked_for_it(
    issued: CertificateFiles, clock: Clock
):
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - for this test

    key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
    issued.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(CredentialsError, match="the key has a password"):
        with_tls(issued, clock).current()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_says_so(token: Path, clock: Clock):
    token.chmod(0)
    with pytest.raises(CredentialsError, match="Permission denied"):
        with_token(token, clock).current()


def test_nothing_that_is_shown_has_the_secret(token: Path, clock: Clock):
    files = with_token(token, clock)
    loaded = files.current()
    assert SECRET in loaded.headers["Authorization"]
    for shown in (loaded, loaded.headers, files, vars(files)):
        assert SECRET not in f"{shown!r} {shown!s}"
    assert repr(loaded.headers) == "<headers Authorization>"


def test_clients_of_the_same_files_read_them_once(token: Path):
    credentials = Credentials(token_file=token, plaintext_token=True)
    files = CredentialFiles.of(credentials, None)
    assert CredentialFiles.of(Credentials(token_file=token, plaintext_token=True), None) is files
    assert CredentialFiles.of(credentials, "Other") is not files
    version = files.current().version
    del files
    gc.collect()
    assert isinstance(CredentialFiles.of(credentials, None).current(), LoadedCredentials)
    assert version == 0
