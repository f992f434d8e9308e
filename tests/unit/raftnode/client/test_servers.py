"""Addresses as people write them, and what they say of TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftnode.client.credentials import NO_CREDENTIALS, Credentials
from raftnode.client.servers import NO_OPTIONS, CredentialOptions, parse_servers
from raftnode.core.types import Endpoint

CA = Path("/ca.crt")
A, B = Endpoint("a", 1), Endpoint("::1", 2)


@pytest.mark.parametrize(
    ("text", "options", "credentials"),
    [
        ("a:1, [::1]:2 ,", NO_OPTIONS, NO_CREDENTIALS),
        ("http://a:1,http://[::1]:2/", NO_OPTIONS, NO_CREDENTIALS),
        ("a:1,[::1]:2", CredentialOptions(ca_file=CA), Credentials(ca_file=CA)),
        ("https://a:1,HTTPS://[::1]:2", CredentialOptions(ca_file=CA), Credentials(ca_file=CA)),
        ("https://a:1/,https://[::1]:2/", NO_OPTIONS, Credentials(system_ca=True)),
        (
            "https://a:1,https://[::1]:2",
            CredentialOptions(None, CA, CA, CA, "demo", plaintext_token=True),
            Credentials(None, CA, CA, CA, True, "demo", True),
        ),
    ],
)
def test_a_ca_or_https_is_tls(text: str, options: CredentialOptions, credentials: Credentials):
    assert parse_servers(text, options) == ((A, B), credentials)


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", NO_OPTIONS, "no endpoint given"),
        (" , ", NO_OPTIONS, "no endpoint given"),
        ("a", NO_OPTIONS, "not an endpoint: 'a'"),
        ("https://a", NO_OPTIONS, "not an endpoint: 'a'"),
        ("https://a:1/v1", NO_OPTIONS, "not an endpoint"),
        ("https://user@a:1,a:2", NO_OPTIONS, "write all alike"),
        ("ftp://a:1", NO_OPTIONS, "expected host:port or https://host:port"),
        ("https://a:1,b:1", NO_OPTIONS, "write all alike"),
        ("https://a:1,http://b:1", NO_OPTIONS, "write all alike"),
        ("http://a:1", CredentialOptions(ca_file=CA), "http:// and ca_file are given"),
        ("a:1", CredentialOptions(token_file=CA), "token_file is given without ca_file"),
        ("a:1", CredentialOptions(certificate_file=CA), "https:// addresses"),
    ],
)
def test_what_is_wrong_is_named(text: str, options: CredentialOptions, reason: str):
    with pytest.raises(ValueError, match=reason):
        parse_servers(text, options)
