"""What goes together in a client's credentials, and that they can be shown to any reader."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from raftnode.client.credentials import NO_CREDENTIALS, Credentials

A, B = Path("/a"), Path("/b")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"key_file": A, "ca_file": B}, "key_file is given without certificate_file"),
        ({"certificate_file": A}, "a client certificate needs TLS"),
        ({"certificate_file": A, "key_file": B}, "a client certificate needs TLS"),
        ({"server_name": "demo.ns.svc"}, "only TLS verifies a name"),
        ({"token_file": A}, "would travel in plain text"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields: dict[str, Any], reason: str):
    with pytest.raises(ValueError, match=reason):
        Credentials(**fields)


@pytest.mark.parametrize(
    ("fields", "tls"),
    [
        ({}, False),
        ({"token_file": A, "plaintext_token": True}, False),
        ({"ca_file": A}, True),
        ({"system_ca": True, "token_file": A}, True),
        ({"ca_file": A, "certificate_file": B}, True),
        ({"system_ca": True, "server_name": "demo.ns.svc"}, True),
    ],
)
def test_a_ca_decides_whether_connections_are_tls(fields: dict[str, Any], tls: bool):
    assert Credentials(**fields).uses_tls is tls


def test_credentials_travel_to_other_processes():
    credentials = Credentials(ca_file=A, token_file=B)
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    assert credentials != NO_CREDENTIALS
