"""How a connection is secured, read from Kafka's client properties.

The names are those of Kafka's own tools (`--command-config`), so a file for
`kafka-metadata-quorum` works. Certificates are PEM. No secret is an option of the command line.
For a KafkaQuorum the properties and their PEM files are keys of one Secret.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.scram import DIGESTS

MECHANISMS: Final = ("PLAIN", *DIGESTS)
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
FILE_BYTES_MAX: Final = 1 << 20

_NAMES = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
_JAAS_OPTION = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sasl:
    """Credentials of a mechanism; the password stays out of what is printed."""

    mechanism: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Sasl({self.mechanism!r}, {self.user!r}, password hidden)"


@dataclass(frozen=True, slots=True)
class Security:
    """How to connect: plain without either."""

    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None


Locate = Callable[[str], Path]
"""The file of a property such as `ssl.truststore.location`; raises SettingsError."""


def read_security(path: Path | None) -> Security:
    """Read the file; without one, a plain connection.

    Raises:
        SettingsError: the file cannot be read, or a value is not allowed; the text names it.
    """
    return Security() if path is None else parse_security(_text(path), str(path), Path)


def parse_security(text: str, source: str, locate: Locate) -> Security:
    """Read client properties.

    Args:
        text: the properties.
        source: what messages call them.
        locate: finds the files that they name.

    Raises:
        SettingsError: a value is not allowed; the text names it.
    """
    properties = parse_properties(text)
    for name in properties:
        if name.partition(".")[0] in ("ssl", "sasl", "security") and name not in _NAMES:
            raise SettingsError(
                f"{source}: {name} is not supported; these are: {', '.join(sorted(_NAMES))}"
            )
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SettingsError(
            f"{source}: security.protocol is {protocol}: allowed are {', '.join(PROTOCOLS)}"
        )
    tls = _tls(source, properties, locate) if protocol.endswith("SSL") else None
    return Security(tls, _sasl(source, properties) if protocol.startswith("SASL") else None)


def parse_properties(text: str) -> dict[str, str]:
    r"""Read Java's properties: `name=value`, comments by `#` or `!`, a line goes on after `\`."""
    joined = re.sub(r"\\\r?\n[ \t]*", "", text)
    properties: dict[str, str] = {}
    for line in joined.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            properties[name.strip()] = value.strip()
    return properties


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise SettingsError(f"{path} has more than {FILE_BYTES_MAX} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def _sasl(source: str, properties: Mapping[str, str]) -> Sasl:
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise SettingsError(
            f"{source}: sasl.mechanism is {mechanism or 'not set'}: "
            f"allowed are {', '.join(MECHANISMS)}"
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, value in _JAAS_OPTION.findall(properties.get("sasl.jaas.config", ""))
    }
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise SettingsError(
            f'{source}: sasl.jaas.config has no {missing[0]}="…"; '
            "write it as Kafka's tools take it"
        )
    return Sasl(mechanism, options["username"], options["password"])


def _tls(source: str, properties: Mapping[str, str], locate: Locate) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        kind = properties.get(f"ssl.{store}.type", "PEM")
        if kind.upper() != "PEM":
            raise SettingsError(
                f"{source}: ssl.{store}.type is {kind}: only PEM is read; "
                "convert the store with openssl pkcs12"
            )
    trusted = properties.get("ssl.truststore.location")
    own = properties.get("ssl.keystore.location")
    try:
        context = ssl.create_default_context(cafile=None if trusted is None else locate(trusted))
        if own is not None:
            password = properties.get("ssl.key.password")
            # Without the function OpenSSL asks on the terminal.
            context.load_cert_chain(locate(own), password=lambda: password or "")
    except (OSError, ValueError) as error:
        named = " and ".join(name for name in (trusted, own) if name)
        raise SettingsError(f"{source}: {named} cannot be used: {error}") from error
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", ""):
        raise SettingsError(
            f"{source}: ssl.endpoint.identification.algorithm is {algorithm}: "
            "allowed are https and empty"
        )
    context.check_hostname = algorithm == "https"
    return context
