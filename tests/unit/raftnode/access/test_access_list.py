"""Decisions: who a request is from, and what it may do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftnode.access.access_list import (
    ANONYMOUS,
    NOTHING,
    AccessList,
    How,
    Identity,
    Presented,
    Reason,
    token_hash,
)
from raftnode.access.document import parse_access
from raftnode.access.roles import EVERYTHING, ROLES_FOR, Role, Verb

DECISION = "access.access_list:AccessList.decide"
IDENTITY = "access.access_list:AccessList.identify"
NODE_URI = "spiffe://kraftquorum/cluster/C/node/1"


def subject(name: str, *grants: Any, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "token_hashes": [token_hash(name.encode())],
        "grants": [grant if isinstance(grant, dict) else {"roles": grant} for grant in grants],
        **fields,
    }


def access(*subjects: Any, anonymous: list[Any] | None = None) -> AccessList:
    value: dict[str, Any] = {"subjects": [*subjects]}
    if anonymous is not None:
        value["anonymous"] = {"grants": anonymous}
    return AccessList.of(parse_access(json.dumps(value).encode()))


def known(made: AccessList, name: str) -> Identity:
    return made.identify(Presented(token_hash=token_hash(name.encode())), NODE_URI, 0.0)


def reason(made: AccessList, identity: Identity, verb: Verb, target: bytes = EVERYTHING) -> Any:
    denied = made.decide(identity, verb, target)
    return None if denied is None else denied.reason


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("role", Role)
def test_a_role_allows_its_verbs_and_no_other(verb: Verb, role: Role):
    made = access(subject("app", [role]))
    allowed = verb not in ROLES_FOR or role in ROLES_FOR[verb]
    expected = None if allowed else Reason.ROLE_MISSING
    assert reason(made, known(made, "app"), verb) == expected


@pytest.mark.parametrize("verb", Verb)
def test_without_credentials_only_health_is_open(verb: Verb):
    made = access(subject("app", ["read"]))
    expected = None if verb is Verb.HEALTH else Reason.NO_CREDENTIALS
    assert reason(made, made.identify(NOTHING, NODE_URI, 0.0), verb) == expected


@pytest.mark.without(DECISION, "if identity.denied is not None:", "if False:")
def test_unknown_credentials_are_refused_even_if_anonymous_clients_may():
    made = access(anonymous=[{"roles": ["read"]}])
    assert reason(made, ANONYMOUS, Verb.READ) is None
    assert reason(made, known(made, "stranger"), Verb.READ) == Reason.UNKNOWN_CREDENTIALS


def test_a_subject_may_do_what_anonymous_clients_may():
    made = access(subject("app", ["write"]), anonymous=[{"roles": ["metrics"]}])
    assert reason(made, known(made, "app"), Verb.METRICS) is None
    assert reason(made, known(made, "app"), Verb.READ) == Reason.ROLE_MISSING


TARGETS = {
    b"app/": True,
    b"app/1": True,
    b"other/1": True,
    b"app": False,
    b"App/1": False,
    b"x/app/1": False,
    b"\xff": False,
    EVERYTHING: False,
}


@pytest.mark.without(DECISION, "target.startswith(prefixes)", "True")
@pytest.mark.parametrize("verb", [Verb.READ, Verb.WRITE])
def test_prefixes_restrict_keys_listings_and_the_log(verb: Verb):
    made = access(
        subject(
            "app",
            {"roles": ["read", "write"], "key_prefixes": ["app/", "none/"]},
            {"roles": ["read", "write"], "key_prefixes": ["other/"]},
        )
    )
    decided = {target: reason(made, known(made, "app"), verb, target) for target in TARGETS}
    assert decided == {
        target: None if allowed else Reason.OUTSIDE_PREFIXES for target, allowed in TARGETS.items()
    }


def test_prefixes_of_one_role_are_not_those_of_the_other():
    made = access(
        subject("app", ["read"], {"roles": ["write"], "key_prefixes": ["app/"]}),
    )
    assert reason(made, known(made, "app"), Verb.READ, EVERYTHING) is None
    assert reason(made, known(made, "app"), Verb.WRITE, b"b") == Reason.OUTSIDE_PREFIXES


def test_prefixes_do_not_restrict_what_reads_no_keys():
    made = access(subject("app", {"roles": ["read"], "key_prefixes": ["app/"]}))
    for verb in (Verb.DESCRIBE, Verb.SESSION):
        assert reason(made, known(made, "app"), verb) is None


def test_a_certificate_is_known_by_any_of_its_names():
    made = access(
        subject("uri", ["read"], certificate_uri_names=["spiffe://c/client/uri"]),
        subject("common", ["read"], certificate_common_names=["common"]),
    )
    both = Presented(uri_names=("spiffe://x", "spiffe://c/client/uri"), common_names=("common",))
    assert made.identify(both, NODE_URI, 0.0).name == "uri"
    named = Presented(uri_names=("spiffe://x",), common_names=("x", "common"))
    assert made.identify(named, NODE_URI, 0.0).name == "common"
    unknown = made.identify(Presented(common_names=("x",)), NODE_URI, 0.0)
    assert unknown.denied is not None
    assert unknown.denied.reason is Reason.UNKNOWN_CREDENTIALS


@pytest.mark.without(IDENTITY, "if _has_ended(presented, now_s):", "if False:")
def test_a_certificate_ends_at_its_time():
    made = access(subject("common", ["read"], certificate_common_names=["common"]))
    presented = Presented(common_names=("common",), expires_s=100.0)
    assert made.identify(presented, NODE_URI, 99.9).name == "common"
    ended = made.identify(presented, NODE_URI, 100.0)
    assert ended.denied is not None
    assert ended.denied.message.startswith("the certificate has expired")


def test_a_token_decides_before_a_certificate():
    made = access(
        subject("token", ["read"]),
        subject("certificate", ["admin"], certificate_common_names=["c"]),
    )
    presented = Presented(token_hash=token_hash(b"token"), common_names=("c",))
    assert made.identify(presented, NODE_URI, 0.0).name == "token"
    wrong = Presented(token_hash=token_hash(b"wrong"), common_names=("c",))
    assert made.identify(wrong, NODE_URI, 0.0).denied is not None


@pytest.mark.without(IDENTITY, "node_uri in presented.uri_names", "presented.uri_names")
def test_a_nodes_certificate_makes_that_node_resign_and_nothing_else():
    made = access(subject("app", ["read"]))
    own = made.identify(Presented(uri_names=(NODE_URI,)), NODE_URI, 0.0)
    assert own.how is How.NODE
    allowed = {verb for verb in Verb if made.decide(own, verb) is None}
    assert allowed == {Verb.HEALTH, Verb.DESCRIBE, Verb.RESIGN}
    for other in ("C/node/2", "D/node/1"):
        uri = f"spiffe://kraftquorum/cluster/{other}"
        for own_uri in (NODE_URI, None):
            stranger = made.identify(Presented(uri_names=(uri,)), own_uri, 0.0)
            assert reason(made, stranger, Verb.RESIGN) == Reason.UNKNOWN_CREDENTIALS


def test_a_service_account_is_known_until_its_token_ends():
    made = access(subject("app", ["read"], service_accounts=["shop/app"]))
    presented = Presented(service_account="shop/app", expires_s=100.0)
    assert made.identify(presented, NODE_URI, 99.0).name == "app"
    ended = made.identify(presented, NODE_URI, 100.0)
    assert ended.denied is not None
    assert "expired" in ended.denied.message
    other = made.identify(Presented(service_account="shop/other"), NODE_URI, 0.0)
    assert other.denied is not None


def test_a_refusal_names_the_subject_and_what_is_missing():
    made = access(subject("app", {"roles": ["read"], "key_prefixes": ["app/"]}))
    identity = known(made, "app")
    denied = made.decide(identity, Verb.WRITE, b"key")
    assert denied is not None
    assert denied.message == "app lacks the role write, which write needs"
    denied = made.decide(identity, Verb.READ, b"key")
    assert denied is not None
    assert "app may read the keys that begin with its key_prefixes alone" in denied.message
