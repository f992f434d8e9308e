"""The access file as text: JSON or YAML, checked strictly.

A fault names the path of the field, the value if it cannot be a secret, and what is allowed. A
token in clear is refused and never quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from raftnode.access.roles import PEER, Role
from raftnode.errors import ConfigurationError

FILE_BYTES_MAX = 1 << 20
"""The largest access file: about 5,500 subjects with a token and a grant each.

A Kubernetes Secret, by which the file comes, holds no more. On a thread of its own, JSON of this
size takes 0.1 s and delays the event loop by 20 ms; YAML takes 3 s.
"""

KEY_PREFIX_MAX_BYTES = 1024
"""A key has at most so many bytes."""

TOKEN_HASH = re.compile(r"sha256:[0-9a-f]{64}")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]{1,2040}")
_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_WORD = re.compile(r"[A-Za-z_-]{1,16}")
_ROLES = frozenset(role.value for role in Role)
_ROLES_TEXT = ", ".join(Role)
_FAULTS_SHOWN = 5


class AccessFileError(ConfigurationError):
    """An access file that cannot be used; the message names the field and what is allowed."""


def _matching(pattern: re.Pattern[str], allowed: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            # Not quoted: it may be a token in the wrong field.
            raise ValueError(f"is not {allowed}")
        return value

    return check


def _check_hash(value: object) -> object:
    if not isinstance(value, str) or not TOKEN_HASH.fullmatch(value):
        raise ValueError(
            "is not sha256: and 64 hexadecimal digits in lower case; make the hash of a token with "
            "raftnode access hash, and never write a token itself into the file"
        )
    return value


def _check_role(value: object) -> object:
    if value == PEER:
        raise ValueError(
            "peer is the role of nodes, which only their certificates have on the peer port; "
            f"expected one of {_ROLES_TEXT}"
        )
    if not isinstance(value, str) or value not in _ROLES:
        shown = f'"{value}"' if isinstance(value, str) and _WORD.fullmatch(value) else "it"
        raise ValueError(f"{shown} is no role; expected one of {_ROLES_TEXT}")
    return Role(value)


def _check_prefix(value: object) -> object:
    if not isinstance(value, str) or not value:
        raise ValueError(
            "is not a prefix of keys; expected a text that is not empty. For all keys, leave "
            "key_prefixes out"
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("cannot be written in UTF-8, so no key begins with it") from None
    if size > KEY_PREFIX_MAX_BYTES:
        raise ValueError(f"has {size} bytes; a key has at most {KEY_PREFIX_MAX_BYTES}")
    return value


def _check_common_name(value: object) -> object:
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= 256:
        raise ValueError("is no common name; expected 1 to 256 printable characters")
    return value


Name = Annotated[
    str,
    BeforeValidator(
        _matching(_NAME, "a name: 1 to 128 of A-Z a-z 0-9 . _ : @ / -, a letter or digit first")
    ),
]
TokenHash = Annotated[str, BeforeValidator(_check_hash)]
UriName = Annotated[
    str, BeforeValidator(_matching(_URI, "a URI, such as spiffe://kraftquorum/cluster/ID/client/N"))
]
CommonName = Annotated[str, BeforeValidator(_check_common_name)]
ServiceAccount = Annotated[
    str, BeforeValidator(_matching(_ACCOUNT, "the namespace and name of a ServiceAccount, ns/name"))
]
RoleName = Annotated[Role, BeforeValidator(_check_role)]
KeyPrefix = Annotated[str, BeforeValidator(_check_prefix)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GrantEntry(_Strict):
    """Some roles; with `key_prefixes` for the keys that begin with one of them."""

    roles: Annotated[list[RoleName], Field(min_length=1)]
    key_prefixes: Annotated[list[KeyPrefix] | None, Field(min_length=1)] = None


class SubjectEntry(_Strict):
    """A client: how it is known, and what it may do."""

    name: Name
    token_hashes: list[TokenHash] = []
    certificate_uri_names: list[UriName] = []
    certificate_common_names: list[CommonName] = []
    service_accounts: list[ServiceAccount] = []
    grants: Annotated[list[GrantEntry], Field(min_length=1)]


class AnonymousEntry(_Strict):
    """What clients without credentials may do."""

    grants: Annotated[list[GrantEntry], Field(min_length=1)]


class AccessDocument(_Strict):
    """A whole access file."""

    subjects: list[SubjectEntry]
    anonymous: AnonymousEntry | None = None


KNOWN_BY = (
    "token_hashes",
    "certificate_uri_names",
    "certificate_common_names",
    "service_accounts",
)
"""The fields of a subject by which it is known."""


def size_problem(size: int) -> str:
    """Say that a file of so many bytes is too large."""
    return (
        f"has {size} bytes; a file of access control has at most {FILE_BYTES_MAX}, as a Kubernetes "
        "Secret; remove what is no longer used, write it without indentation, or let clients share "
        "a subject"
    )


def parse_access(data: bytes) -> AccessDocument:
    """Read an access file.

    Args:
        data: its content, JSON or YAML in UTF-8.

    Raises:
        AccessFileError: with up to five faults, each with the path of its field.
    """
    if len(data) > FILE_BYTES_MAX:
        raise AccessFileError(size_problem(len(data)))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise AccessFileError(f"is not UTF-8 at byte {error.start}") from None
    value = _parse_json(text) if text.lstrip().startswith("{") else _parse_yaml(text)
    try:
        document = AccessDocument.model_validate(value)
    except ValidationError as error:
        faults = [_describe(details) for details in error.errors(include_url=False)]
    else:
        faults = [*_faults_between(document)]
        if not faults:
            return document
    shown = "; ".join(faults[:_FAULTS_SHOWN])
    more = f"; and {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
    raise AccessFileError(shown + more) from None


def _parse_json(text: str) -> object:
    def refuse_twice(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) < len(pairs):
            raise AccessFileError("a field is given twice in one object; give it once")
        return value

    def refuse_constant(_name: str) -> NoReturn:
        raise AccessFileError("NaN and Infinity are no values of an access file")

    try:
        return json.loads(text, object_pairs_hook=refuse_twice, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise AccessFileError(f"is not JSON at line {error.lineno}, column {error.colno}") from None
    except ValueError:  # of `int`, which reads some thousand digits and no more
        raise AccessFileError("has a number that is too long") from None
    except RecursionError:
        raise AccessFileError("is nested too deeply") from None


def _parse_yaml(text: str) -> object:
    from raftnode.access.yaml_text import parse_yaml  # noqa: PLC0415 - only where a file is YAML

    return parse_yaml(text)


def _describe(details: Any) -> str:
    path = _path(details["loc"])
    match details["type"]:
        case "value_error":
            what = str(details["ctx"]["error"])
        case "missing":
            what = "is missing"
        case "extra_forbidden":
            what = "is no field of an access file; remove it"
        case "model_type" | "model_attributes_type" | "dict_type":
            what = "is no object; expected one with subjects" if not path else "is no object"
        case "list_type":
            what = "is no list"
        case "too_short":
            what = "is empty; give at least one, or leave the entry out"
        case _:
            what = f"is wrong: {details['msg']}"
    return f"{path}: {what}" if path else what


def _path(place: Iterable[str | int]) -> str:
    """The path of a field; a name that the file made up may be a secret in the wrong place."""
    path = ""
    for part in place:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            known = part if re.fullmatch(r"[a-z_]{1,40}", part) else "(another field)"
            path += f".{known}" if path else known
    return path


def _faults_between(document: AccessDocument) -> Iterable[str]:
    """Rules that one field alone cannot show."""
    owners: dict[tuple[str, str], str] = {}
    for number, subject in enumerate(document.subjects):
        path = f"subjects[{number}]"
        if not any(getattr(subject, field) for field in KNOWN_BY):
            yield f"{path}: has nothing by which it is known; give one of {', '.join(KNOWN_BY)}"
        names = [("name", "name", subject.name)] + [
            (field, f"{field}[{index}]", name)
            for field in KNOWN_BY
            for index, name in enumerate(getattr(subject, field))
        ]
        for field, place, name in names:
            owner = owners.setdefault((field, name), f"{path}.{place}")
            if owner != f"{path}.{place}":
                yield f"{path}.{place}: is the same as {owner}; give it once"
        yield from _faults_of_grants(subject.grants, f"{path}.grants")
    if document.anonymous is not None:
        yield from _faults_of_grants(document.anonymous.grants, "anonymous.grants")


def _faults_of_grants(grants: Sequence[GrantEntry], path: str) -> Iterable[str]:
    for number, grant in enumerate(grants):
        others = [role for role in grant.roles if role not in {Role.READ, Role.WRITE}]
        if grant.key_prefixes is not None and others:
            yield (
                f"{path}[{number}].key_prefixes: restricts read and write alone, and the grant has "
                f"{', '.join(others)} too; give that in a grant of its own"
            )
