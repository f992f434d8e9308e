"""How to connect, read from a Secret: client properties, and the PEM files that they name.

A file of a property is a key of the Secret, never a path: the resource of a user must not make the
operator read the files of its own pod.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from kraftquorum_operator.clients.node_access import MemoryFile
from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.kafka.security import Security, parse_security
from kraftquorum_operator.model.objects import Body

PROPERTIES: Final = "client.properties"
"""Key of the Secret with the properties."""


def security_of(secret: Body) -> Security:
    """Read a Secret.

    Raises:
        SettingsError: a key is missing or a value is not allowed; the text names it and no value of
            the Secret.
    """
    name = str(secret["metadata"]["name"])
    data = cast("Mapping[str, str]", secret.get("data") or {})
    files: list[MemoryFile] = []

    def locate(key: str) -> Path:
        content = _value(data, name, key)
        if b"ENCRYPTED" in content:
            raise SettingsError(
                f"Secret {name}, key {key}: the key is encrypted; store it without password"
            )
        files.append(MemoryFile(content))
        return files[-1].path

    try:
        properties = _value(data, name, PROPERTIES).decode()
    except UnicodeDecodeError:
        raise SettingsError(f"Secret {name}, key {PROPERTIES}: is not UTF-8") from None
    return parse_security(properties, f"Secret {name}, key {PROPERTIES}", locate)


def _value(data: Mapping[str, str], name: str, key: str) -> bytes:
    if key not in data:
        raise SettingsError(f"Secret {name} has no key {key}")
    try:
        return base64.b64decode(data[key], validate=True)
    except binascii.Error:
        raise SettingsError(f"Secret {name}, key {key}: is not base64") from None
