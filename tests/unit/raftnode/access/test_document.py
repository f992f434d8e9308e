"""Access files: good ones in both formats, and each fault by the path of its field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftnode.access.access_list import token_hash
from raftnode.access.document import FILE_BYTES_MAX, AccessFileError, parse_access
from raftnode.access.roles import Role

HASH = token_hash(b"a token")
OTHER = token_hash(b"another token")
SECRET = "Zm9yYmlkZGVuLXNlY3JldA"


def subject(**fields: Any) -> dict[str, Any]:
    return {
        "name": "app",
        "token_hashes": [HASH],
        "grants": [{"roles": ["read"]}],
        **fields,
    }


def parse(*subjects: Any, **fields: Any) -> Any:
    return parse_access(json.dumps({"subjects": [*subjects], **fields}).encode())


YAML = f"""
subjects:
  - name: app
    token_hashes: ["{HASH}"]
    certificate_uri_names: ["spiffe://kraftquorum/cluster/C/client/app"]
    certificate_common_names: [app]
    service_accounts: [shop/app]
    grants:
      - roles: [read, write]
        key_prefixes: [app/]
anonymous:
  grants:
    - roles: [metrics]
"""


def test_yaml_and_json_say_the_same():
    document = parse_access(YAML.encode())
    assert document.subjects[0].grants[0].roles == [Role.READ, Role.WRITE]
    assert document.subjects[0].service_accounts == ["shop/app"]
    assert parse_access(document.model_dump_json(exclude_unset=True).encode()) == document


def test_a_file_may_list_no_subject_which_denies_all():
    assert parse().subjects == []


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a role that does not exist": (
        subject(grants=[{"roles": ["read"]}, {"roles": ["write", "reed"]}]),
        (
            r'^subjects\[0\]\.grants\[1\]\.roles\[1\]: "reed" is no role; expected one of read, write, '
            "admin, metrics$"
        ),
    ),
    "the role of nodes": (
        subject(grants=[{"roles": ["peer"]}]),
        r"^subjects\[0\]\.grants\[0\]\.roles\[0\]: peer is the role of nodes",
    ),
    "a token in clear": (
        subject(token_hashes=[SECRET]),
        r"^subjects\[0\]\.token_hashes\[0\]: is not sha256: and 64 hexadecimal digits",
    ),
    "a hash in upper case": (
        subject(token_hashes=[HASH.upper()]),
        r"^subjects\[0\]\.token_hashes\[0\]: is not sha256:",
    ),
    "no grant": (subject(grants=[]), r"^subjects\[0\]\.grants: is empty; give at least one"),
    "no grants": (
        {"name": "app", "token_hashes": [HASH]},
        r"^subjects\[0\]\.grants: is missing$",
    ),
    "a grant without a role": (
        subject(grants=[{"roles": []}]),
        r"^subjects\[0\]\.grants\[0\]\.roles: is empty",
    ),
    "an empty list of prefixes": (
        subject(grants=[{"roles": ["read"], "key_prefixes": []}]),
        r"^subjects\[0\]\.grants\[0\]\.key_prefixes: is empty",
    ),
    "an empty prefix": (
        subject(grants=[{"roles": ["read"], "key_prefixes": ["a", ""]}]),
        r"^subjects\[0\]\.grants\[0\]\.key_prefixes\[1\]: is not a prefix of keys",
    ),
    "a prefix longer than a key": (
        subject(grants=[{"roles": ["read"], "key_prefixes": ["ä" * 600]}]),
        r"key_prefixes\[0\]: has 1200 bytes; a key has at most 1024",
    ),
    "a prefix that is not UTF-8": (
        subject(grants=[{"roles": ["read"], "key_prefixes": ["\ud800"]}]),
        r"key_prefixes\[0\]: cannot be written in UTF-8",
    ),
    "prefixes of administration": (
        subject(grants=[{"roles": ["read", "admin"], "key_prefixes": ["a"]}]),
        (
            r"^subjects\[0\]\.grants\[0\]\.key_prefixes: restricts read and write alone, and the grant "
            "has admin too"
        ),
    ),
    "an unknown field": (
        subject(tokens=["x"]),
        r"^subjects\[0\]\.tokens: is no field of an access file; remove it$",
    ),
    "nothing by which it is known": (
        subject(token_hashes=[]),
        r"^subjects\[0\]: has nothing by which it is known; give one of token_hashes",
    ),
    "no name": (subject(name=""), r"^subjects\[0\]\.name: is not a name"),
    "a name with a line end": (subject(name="a\nb"), r"^subjects\[0\]\.name: is not a name"),
    "a URI that is none": (
        subject(certificate_uri_names=["app"]),
        r"^subjects\[0\]\.certificate_uri_names\[0\]: is not a URI",
    ),
    "a common name with a line end": (
        subject(certificate_common_names=["a\n"]),
        r"^subjects\[0\]\.certificate_common_names\[0\]: is no common name",
    ),
    "a ServiceAccount without a namespace": (
        subject(service_accounts=["app"]),
        r"^subjects\[0\]\.service_accounts\[0\]: is not the namespace and name",
    ),
    "a text for a list": (
        subject(grants=[{"roles": "read"}]),
        r"^subjects\[0\]\.grants\[0\]\.roles: is no list$",
    ),
    "the same hash twice in one subject": (
        subject(token_hashes=[HASH, HASH]),
        r"^subjects\[0\]\.token_hashes\[1\]: is the same as subjects\[0\]\.token_hashes\[0\]",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_its_path_and_never_quotes_a_token(fault: str):
    wrong, message = FAULTS[fault]
    with pytest.raises(AccessFileError, match=message) as raised:
        parse(wrong)
    assert SECRET not in str(raised.value)
    with pytest.raises(AccessFileError):
        parse(subject(name="first", token_hashes=[OTHER]), wrong)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "app"),
        ("token_hashes", [HASH]),
        ("certificate_uri_names", ["spiffe://a"]),
        ("certificate_common_names", ["app"]),
        ("service_accounts", ["shop/app"]),
    ],
)
def test_what_names_two_subjects_is_refused(field: str, value: Any):
    first = subject(name="first", token_hashes=[OTHER]) | {field: value}
    second = subject(name="second", token_hashes=[token_hash(b"3")]) | {field: value}
    place = field if field == "name" else f"{field}\\[0\\]"
    with pytest.raises(
        AccessFileError, match=rf"^subjects\[1\]\.{place}: is the same as subjects\[0\]\.{place}"
    ):
        parse(first, second)


CONTENTS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is no object; expected one with subjects"),
    "a list": (b"[]", "is no object; expected one with subjects"),
    "a key in PEM": (
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n".encode(),
        "is no object; expected one with subjects",
    ),
    "half of JSON": (b'{"subjects": [', "is not JSON at line 1, column 15"),
    "broken YAML": (b"subjects: [\n- a: b: c", "is neither JSON nor YAML at line 2"),
    "a secret as a field": (f'{{"{SECRET}": 1, "subjects": []}}'.encode(), r"\(another field\)"),
    "a doubled field of JSON": (b'{"subjects": [], "subjects": []}', "a field is given twice"),
    "a doubled field of YAML": (b"subjects: []\nsubjects: []", "a field is given twice"),
    "an alias of YAML": (b"subjects: &a []\nanonymous: *a", "has a YAML alias"),
    "not UTF-8": (b"\xff", "is not UTF-8 at byte 0"),
    "a long number in JSON": (b'{"subjects": %s}' % (b"1" * 5000), "a number that is too long"),
    "a long number in YAML": (b"subjects: 1:%s9.0" % (b"59:" * 2000), "is neither JSON nor YAML"),
    "no bool of YAML": (b"subjects: !!bool x", "is neither JSON nor YAML"),
    "no int of YAML": (b'subjects: !!int ""', "is neither JSON nor YAML"),
    "no time of YAML": (b"subjects: !!timestamp x", "is neither JSON nor YAML"),
    "NaN": (b'{"subjects": NaN}', "NaN and Infinity are no values"),
    "a large file": (
        b" " * (FILE_BYTES_MAX + 1),
        f"has {FILE_BYTES_MAX + 1} bytes; .* at most {FILE_BYTES_MAX},",
    ),
    "a deep file": (b'{"subjects": ' + b"[" * 100_000, "is nested too deeply|is not JSON"),
    "anonymous without grants": (
        b'{"subjects": [], "anonymous": {"grants": []}}',
        r"^anonymous\.grants: is empty",
    ),
    "anonymous administration with prefixes": (
        b'{"subjects": [], "anonymous": {"grants": [{"roles": ["admin"], "key_prefixes": ["a"]}]}}',
        r"^anonymous\.grants\[0\]\.key_prefixes: restricts read and write alone",
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_content_that_is_no_access_file_is_refused_and_not_quoted(name: str):
    data, message = CONTENTS[name]
    with pytest.raises(AccessFileError, match=message) as raised:
        parse_access(data)
    assert SECRET not in str(raised.value)


def test_only_the_first_faults_are_listed():
    wrong = [subject(name="", token_hashes=[token_hash(bytes([n]))]) for n in range(9)]
    with pytest.raises(AccessFileError, match=r"; and 4 more$"):
        parse(*wrong)
