"""The addresses of nodes as people write them, with what they say of TLS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raftnode.client.credentials import Credentials
from raftnode.core.types import Endpoint

_SCHEMES = ("https", "http")


@dataclass(frozen=True, slots=True)
class CredentialOptions:
    """What a user gives of the client's credentials; see `Credentials`."""

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None
    server_name: str | None = None
    plaintext_token: bool = False


NO_OPTIONS = CredentialOptions()


def parse_servers(
    text: str, options: CredentialOptions = NO_OPTIONS
) -> tuple[tuple[Endpoint, ...], Credentials]:
    """Read `host:port,…`, each with or without `https://`.

    With a CA file the client uses TLS, whether the addresses begin with `https://` or not. Without
    one, `https://` trusts the system's CAs. The nodes of a quorum have one kind of listener, so
    the addresses must agree.

    Raises:
        ValueError: names what is wrong, and what is allowed.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError("no endpoint given; expected at least one host:port")
    split = [_split(part) for part in parts]
    scheme = _common_scheme([scheme for scheme, _ in split])
    if scheme == "http" and options.ca_file is not None:
        raise ValueError("http:// and ca_file are given: the CA is for https://; give one of them")
    credentials = Credentials(
        ca_file=options.ca_file,
        certificate_file=options.certificate_file,
        key_file=options.key_file,
        token_file=options.token_file,
        system_ca=scheme == "https" and options.ca_file is None,
        server_name=options.server_name,
        plaintext_token=options.plaintext_token,
    )
    return tuple(endpoint for _, endpoint in split), credentials


def _split(part: str) -> tuple[str, Endpoint]:
    scheme, separator, rest = part.partition("://")
    if not separator:
        return "", Endpoint.parse(part)
    if scheme.lower() not in _SCHEMES:
        raise ValueError(f"not an endpoint: {part!r}; expected host:port or https://host:port")
    return scheme.lower(), Endpoint.parse(rest.rstrip("/"))


def _common_scheme(schemes: Sequence[str]) -> str:
    if len(set(schemes)) > 1:
        raise ValueError(
            "some addresses begin with https:// or http:// and others do not; write all alike"
        )
    return schemes[0]
