"""Credentials of a KafkaQuorum: keys of one Secret, and never a file of the operator's pod."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import trustme

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.credentials import security_of
from kraftquorum_operator.kafka.security import Sasl

JAAS = 'org.apache.kafka…PlainLoginModule required username="advisor" password="word-1";'
TLS = "security.protocol=SSL\nssl.truststore.location=ca.crt\nssl.keystore.location=own.pem\n"


def secret(**keys: str | bytes) -> dict[str, Any]:
    data = {
        name.replace("__", "."): base64.b64encode(
            value if isinstance(value, bytes) else value.encode()
        ).decode()
        for name, value in keys.items()
    }
    return {"metadata": {"name": "advisor"}, "data": data}


def test_sasl() -> None:
    properties = (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
    )
    security = security_of(secret(client__properties=properties))
    assert security.sasl == Sasl("PLAIN", "advisor", "word-1")
    assert security.tls is None


def test_certificates_are_keys_of_the_secret() -> None:
    authority = trustme.CA()
    own = authority.issue_cert("advisor.example").private_key_and_cert_chain_pem.bytes()
    given = secret(client__properties=TLS, ca__crt=authority.cert_pem.bytes(), own__pem=own)
    security = security_of(given)
    assert security.tls is not None
    assert len(security.tls.get_ca_certs()) == 1
    assert security.tls.check_hostname


@pytest.mark.without(
    "kraftquorum_operator.kafka.credentials:security_of",
    "content = _value(data, name, key)",
    "return Path(key)",
)
def test_a_file_of_the_operator_s_pod_is_not_read(tmp_path: Path) -> None:
    authority = trustme.CA()
    path = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(path))
    properties = f"security.protocol=SSL\nssl.truststore.location={path}\n"
    with pytest.raises(SettingsError, match="has no key"):
        security_of(secret(client__properties=properties))
    properties = "security.protocol=SSL\nssl.truststore.location=ca.crt\n"
    given = secret(client__properties=properties, ca__crt=authority.cert_pem.bytes())
    assert security_of(given).tls is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (secret(password="x"), "Secret advisor has no key client.properties$"),
        (secret(client__properties=b"\xff"), "is not UTF-8"),
        (secret(client__properties="security.protocol=TLS"), "security.protocol is TLS"),
        (
            secret(client__properties=TLS, ca__crt="none", own__pem="-- ENCRYPTED PRIVATE KEY --"),
            "ca.crt and own.pem cannot be used|the key is encrypted",
        ),
        ({"metadata": {"name": "advisor"}}, "has no key client.properties"),
        (
            {"metadata": {"name": "advisor"}, "data": {"client.properties": "%"}},
            "is not base64",
        ),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        security_of(given)


@pytest.mark.without(
    "kraftquorum_operator.kafka.credentials:security_of", 'b"ENCRYPTED" in content', "False"
)
def test_an_encrypted_key_is_refused_before_it_is_tried() -> None:
    """To decrypt it may take as long as the Secret asks for."""
    authority = trustme.CA()
    given = secret(
        client__properties=TLS,
        ca__crt=authority.cert_pem.bytes(),
        own__pem="-----BEGIN ENCRYPTED PRIVATE KEY-----",
    )
    with pytest.raises(SettingsError, match=r"own\.pem: the key is encrypted"):
        security_of(given)
