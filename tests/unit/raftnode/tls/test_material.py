"""Files that a listener cannot use are refused with the setting, the file and what to do."""

from __future__ import annotations

import datetime as dt
import os
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from proofkit.certificates import HOUR, SPIFFE, Authority, CertificateFiles
from raftnode.tls.material import TlsError, TlsRules, load_material

CLUSTER = "jzIrVDQ0QXu0bBSbPcyDpA"
AUTHORITY = Authority()


def rules_of(files: CertificateFiles, **changes) -> TlsRules:
    rules = TlsRules(
        listener="peer",
        mode="required",
        certificate_file=files.certificate,
        key_file=files.key,
        ca_file=files.ca,
        client_certificates="required",
        min_version="1.3",
        node_id=1,
        cluster_id=CLUSTER,
    )
    return replace(rules, **changes)


def issue(directory: Path, authority: Authority = AUTHORITY, **options) -> CertificateFiles:
    options = {"uris": [f"{SPIFFE}/{CLUSTER}/node/1"]} | options
    return authority.issue(directory, **options)


def test_good_files_are_taken(tmp_path):
    material = load_material(rules_of(issue(tmp_path, hosts=["node-1", "127.0.0.1"])))
    assert material.clusters == {CLUSTER}
    assert material.certificate.ip_addresses == ("127.0.0.1",)
    assert material.certificate.dns_names == ("node-1",)
    assert len(material.certificate.sha256) == 64
    [ca] = material.trusted
    assert ca.is_ca


def refused(rules: TlsRules) -> str:
    with pytest.raises(TlsError) as error:
        load_material(rules)
    return str(error.value)


def test_a_key_of_another_certificate(tmp_path):
    files, other = issue(tmp_path / "a"), issue(tmp_path / "b")
    message = refused(rules_of(files, key_file=other.key))
    assert f"peer_tls_key_file {other.key}: the key does not belong to the certificate" in message


@pytest.mark.parametrize("file", ["certificate", "key", "ca"])
def test_a_file_that_is_not_there(tmp_path, file):
    files = issue(tmp_path)
    getattr(files, file).unlink()
    message = refused(rules_of(files))
    assert message.startswith(
        f"peer_tls_{file}_file {getattr(files, file)}: cannot be read: No such"
    )


@pytest.mark.timeout(60)
@pytest.mark.parametrize("file", ["certificate", "key", "ca"])
def test_a_fifo(tmp_path, file):
    files = issue(tmp_path)
    getattr(files, file).unlink()
    os.mkfifo(getattr(files, file))
    assert "cannot be read: it is no regular file" in refused(rules_of(files))


@pytest.mark.parametrize("file", ["certificate", "ca"])
def test_a_file_without_a_certificate(tmp_path, file):
    files = issue(tmp_path)
    getattr(files, file).write_text("nothing\n")
    assert "it has no PEM certificate" in refused(rules_of(files))
    getattr(files, file).write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    )
    assert "a certificate is malformed" in refused(rules_of(files))


@pytest.mark.parametrize(
    ("old", "new"),
    [("a003020102", "a003020101"), ("0603551d23", "0603551d25"), ("0c0178", "030178")],
    ids=["version 2", "an extension twice", "a name of bits"],
)
def test_a_certificate_that_is_malformed_in_a_rare_way(tmp_path, old, new):
    """The library raises no ValueError, and a node that looks at the file must not end by it."""
    files = issue(tmp_path, common_name="x")
    der = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
    assert bytes.fromhex(old) in der
    wrong = ssl.DER_cert_to_PEM_cert(der.replace(bytes.fromhex(old), bytes.fromhex(new)))
    files.certificate.write_text(wrong)
    assert "a certificate is malformed" in refused(rules_of(files))


def test_a_key_that_is_no_key(tmp_path):
    files = issue(tmp_path)
    files.key.write_text("nothing\n")
    assert f"peer_tls_key_file {files.key}: cannot be used" in refused(rules_of(files))


@pytest.mark.without("tls.material:_check_times", "if now > certificate.not_after:", "if False:")
def test_a_certificate_that_has_expired(tmp_path):
    files = issue(tmp_path, valid_for=-HOUR, valid_from=-2 * HOUR)
    message = refused(rules_of(files))
    assert "the certificate has expired at 20" in message
    assert "replace it" in message


@pytest.mark.without("tls.material:_check_times", "if now < certificate.not_before:", "if False:")
def test_a_certificate_that_is_not_valid_yet(tmp_path):
    files = issue(tmp_path, valid_from=dt.timedelta(minutes=30))
    message = refused(rules_of(files))
    assert "is not valid before 20" in message
    assert "this machine's clock" in message


@pytest.mark.parametrize("uri", [f"{SPIFFE}/{CLUSTER}/node/2", f"{SPIFFE}/Other/node/1"])
@pytest.mark.parametrize("listener", ["peer", "api"])
@pytest.mark.without(
    "tls.material:_own_names", 'if own or (rules.listener == "api" and not names):', "if True:"
)
def test_a_certificate_of_another_node_or_cluster(tmp_path, uri, listener):
    message = refused(rules_of(issue(tmp_path, uris=[uri]), listener=listener))
    assert f"it names {uri}; this node needs the URI {SPIFFE}/{CLUSTER}/node/1" in message


def test_peers_need_a_name_and_clients_do_not(tmp_path):
    files = issue(tmp_path, uris=[], common_name="node")
    assert "it names no name of a node" in refused(rules_of(files))
    assert load_material(rules_of(files, listener="api")).names == ()


def test_a_node_without_a_cluster_takes_the_cluster_of_its_certificate(tmp_path):
    material = load_material(rules_of(issue(tmp_path), cluster_id=None))
    assert material.clusters == {CLUSTER}


@pytest.mark.without("tls.material:load_material", 'if rules.listener == "peer":', "if False:")
def test_a_certificate_that_its_own_ca_file_does_not_cover(tmp_path):
    files = issue(tmp_path)
    files.ca.write_bytes(Authority().pem)
    message = refused(rules_of(files))
    assert f"peers that trust peer_tls_ca_file {files.ca} would refuse it" in message


def test_a_key_with_a_password(tmp_path):
    files = issue(tmp_path)
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    assert "the key has a password; give a key without one" in refused(rules_of(files))


def test_no_session_is_resumed_and_none_renegotiated(tmp_path):
    server = load_material(rules_of(issue(tmp_path))).server
    assert server.num_tickets == 0
    assert server.options & ssl.OP_NO_TICKET
    assert server.options & ssl.OP_NO_RENEGOTIATION
    assert server.minimum_version == ssl.TLSVersion.TLSv1_3
