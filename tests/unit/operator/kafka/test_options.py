"""Addresses, id maps and client properties: what is taken, and what is said of the rest."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.facts import MappedController
from kraftquorum_operator.kafka.id_map import parse_bootstrap, parse_id_map
from kraftquorum_operator.kafka.security import Sasl, read_security

DIRECTORY = "jzIrVDQ0QXu0bBSbPcyDpA"
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    r'username="advisor" password="a \"quoted\" word";'
)


def test_addresses() -> None:
    assert parse_bootstrap("a.example:9093, [::1]:9094") == (
        Address("a.example", 9093),
        Address("::1", 9094),
    )


def test_an_id_map_has_the_form_of_kafkas_voters() -> None:
    plain, exact, six = parse_id_map(f"1@a:9093,2@b:9093:{DIRECTORY},3@[::1]:9093")
    assert plain == MappedController(1, Address("a", 9093))
    assert exact.directory_id is not None
    assert exact.directory_id != uuid.UUID(int=0)
    assert six.address == Address("::1", 9093)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--bootstrap is empty"),
        ("a", "expected host:port"),
        ("a:0", "port 0 is not 1 to 65535"),
        ("::1:9093", "IPv6 address in brackets"),
        ("a:1,a:1", "a:1 twice"),
        (",".join(f"a:{port}" for port in range(1, 66)), "65 controllers are given: at most 64"),
    ],
)
def test_a_wrong_address_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_bootstrap(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:9093", "expected id@host:port"),
        ("x@a:9093", "expected id@host:port"),
        ("4294967296@a:9093", "an id of 0 to 2147483647"),
        ("1@a:9093:short", "not a directory id: 'short'"),
        ("1@a:1,1@b:1", "--id-map has id 1 twice"),
        ("1@a:1,2@a:1", "--id-map has address a:1 twice"),
    ],
)
def test_a_wrong_id_map_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_id_map(text)


def properties(folder: Path, *lines: str) -> Path:
    path = folder / "client.properties"
    path.write_text("\n".join(lines))
    return path


def test_credentials_of_kafkas_own_file(tmp_path: Path) -> None:
    security = read_security(
        properties(
            tmp_path,
            "# as kafka-metadata-quorum takes it",
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=SCRAM-SHA-512",
            f"sasl.jaas.config={JAAS}",
            "request.timeout.ms=4000",
        )
    )
    assert security.tls is None
    assert security.sasl == Sasl("SCRAM-SHA-512", "advisor", 'a "quoted" word')
    assert "quoted" not in repr(security)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["security.protocol=TLS"], "security.protocol is TLS: allowed are PLAINTEXT"),
        (["ssl.truststore.locaton=x"], "ssl.truststore.locaton is not supported"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI"], "sasl.mechanism is GSSAPI"),
        (["security.protocol=SASL_PLAINTEXT"], "sasl.mechanism is not set"),
        (
            ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"],
            'sasl.jaas.config has no username="…"',
        ),
        (["security.protocol=SSL", "ssl.truststore.type=JKS"], "is JKS: only PEM is read"),
        (["security.protocol=SSL", "ssl.keystore.location=/no/such"], "/no/such cannot be used"),
        (
            ["security.protocol=SSL", "ssl.endpoint.identification.algorithm=no"],
            "allowed are https and empty",
        ),
    ],
)
def test_a_wrong_property_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_security(properties(tmp_path, *lines))
    assert message in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"client\.properties cannot be read"):
        read_security(tmp_path / "client.properties")
