"""The access file: what stands in it, what keeps it from being made, and tokens in overlap."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from kraftquorum_operator.model.access import QuorumAccess
from kraftquorum_operator.model.access_facts import (
    AccessFacts,
    AccessFault,
    AccessFiles,
    ClusterKeys,
    TokenHash,
    Unusable,
)
from kraftquorum_operator.model.access_state import OPERATOR
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.access_file import access_bodies
from raftnode.access.access_list import AccessList, Presented
from raftnode.access.document import parse_access
from raftnode.access.roles import Verb

ROOT = Path(__file__).parents[4]
OWNER = Owner("test", "demo", "uid")
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
OWN_URI = f"spiffe://kraftquorum/cluster/{CLUSTER}/operator"
URI = f"spiffe://kraftquorum/cluster/{CLUSTER}/client/batch"
SHOP: Body = {
    "name": "shop",
    "roles": ["read", "write"],
    "keyPrefixes": ["shop/"],
    "tokenSecret": {"name": "shop"},
}
BATCH: Body = {"name": "batch", "roles": ["read"], "certificate": {"uriNames": [URI]}}
PROMETHEUS: Body = {
    "name": "prometheus",
    "roles": ["metrics"],
    "serviceAccount": {"namespace": "monitoring", "name": "prometheus-k8s"},
}


def hashed(token: str) -> TokenHash:
    return TokenHash(f"sha256:{hashlib.sha256(token.encode()).hexdigest()}")


FACTS = AccessFacts(
    tokens={("shop", "token"): hashed("shop's first token")},
    keys=ClusterKeys('{"keys":[{}]}', "https://issuer"),
    operator=hashed("the operator's token"),
    now_s=1000,
)


def access(*clients: Body, **given: Any) -> QuorumAccess:
    return QuorumAccess.model_validate({"clients": list(clients), **given})


def made(wanted: QuorumAccess, facts: AccessFacts = FACTS) -> dict[str, str]:
    bodies, faults = access_bodies(OWNER, wanted, facts, CLUSTER)
    assert faults == ()
    (body,) = bodies
    assert body["metadata"]["name"] == "demo-access"
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def allowed(data: dict[str, str]) -> AccessList:
    """As a node reads it."""
    return AccessList.of(parse_access(data["access.json"].encode()))


def after(data: dict[str, str], *, now_s: int, token: str) -> AccessFacts:
    """A later look, at which the Secret has this token."""
    files = AccessFiles(None, data["state.json"])
    tokens = {("shop", "token"): hashed(token)}
    return replace(FACTS, files=files, tokens=tokens, now_s=now_s)


def faults_of(*clients: Body, facts: AccessFacts = FACTS) -> tuple[AccessFault, ...]:
    bodies, faults = access_bodies(OWNER, access(*clients), facts, CLUSTER)
    assert bodies == [], "the file of before stays in force"
    return faults


def test_a_node_takes_the_file_and_allows_what_the_resource_says() -> None:
    data = made(access(SHOP, BATCH, PROMETHEUS, anonymous={"roles": ["metrics"]}))
    document = allowed(data)

    def may(presented: Presented, verb: Verb, key: bytes = b"") -> bool:
        return document.decide(document.identify(presented, None, 0.0), verb, key) is None

    shop = Presented(token_hash=hashed("shop's first token").text)
    assert may(shop, Verb.WRITE, b"shop/1")
    assert not may(shop, Verb.WRITE, b"other/1")
    assert not may(shop, Verb.ADMIN)
    assert may(Presented(uri_names=(URI,)), Verb.READ, b"any")
    assert may(Presented(service_account="monitoring/prometheus-k8s"), Verb.METRICS)
    assert may(Presented(), Verb.METRICS)
    assert not may(Presented(), Verb.READ, b"any")
    operator = Presented(token_hash=hashed("the operator's token").text)
    assert may(operator, Verb.ADMIN)
    assert may(operator, Verb.DESCRIBE)
    assert may(operator, Verb.RESIGN)
    assert not may(operator, Verb.READ, b"any"), "the operator reads no record"
    own = Presented(uri_names=(OWN_URI,))
    assert may(own, Verb.ADMIN)
    assert json.loads(data["jwks.json"]) == {"keys": [{}]}


def test_the_example_is_what_a_node_takes() -> None:
    example = yaml.safe_load((ROOT / "examples" / "quorum-with-access.yaml").read_text())
    wanted = QuorumSpec.model_validate(example["spec"]).access
    assert wanted is not None
    tokens = {("shop-token", "token"): hashed("shop's first token")}
    allowed(made(wanted, replace(FACTS, tokens=tokens)))


def test_without_entries_all_but_the_operator_are_refused() -> None:
    document = allowed(made(access()))
    for verb in (Verb.READ, Verb.WRITE, Verb.ADMIN, Verb.METRICS, Verb.DESCRIBE):
        assert document.decide(document.identify(Presented(), None, 0.0), verb) is not None


def test_no_token_is_in_a_body_or_a_repr() -> None:
    facts = replace(FACTS, operator=None, fresh_token="a fresh secret")
    (body,), _ = access_bodies(OWNER, access(SHOP), facts, None)
    assert body["metadata"]["name"] == "demo-operator-token"
    assert base64.b64decode(body["data"]["token"]) == b"a fresh secret"
    assert "a fresh secret" not in repr(facts)
    assert "shop's first token" not in json.dumps(made(access(SHOP)))


# --- overlap ---------------------------------------------------------------------------------


def hashes(data: dict[str, str], name: str = "shop") -> list[str]:
    subjects = json.loads(data["access.json"])["subjects"]
    (subject,) = [each for each in subjects if each["name"] == name]
    return subject["token_hashes"]


@pytest.mark.without(
    "kraftquorum_operator.resources.access_file:_tokens",
    "if last is not None and last.current != text:",
    "if False:",
)
def test_both_tokens_are_valid_for_the_overlap_and_then_the_new_one_alone() -> None:
    first, second = hashed("shop's first token").text, hashed("shop's second token").text
    data = made(access(SHOP))
    assert hashes(data) == [first]
    changed = made(access(SHOP), after(data, now_s=2000, token="shop's second token"))
    assert hashes(changed) == [second, first]
    # A later look keeps the end, so that the file does not change at each.
    again = made(access(SHOP), after(changed, now_s=2599, token="shop's second token"))
    assert again == changed
    over = made(access(SHOP), after(again, now_s=2600, token="shop's second token"))
    assert hashes(over) == [second]


def test_without_an_overlap_the_token_of_before_ends_at_once() -> None:
    wanted = access(SHOP, tokenOverlapSeconds=0)
    changed = made(wanted, after(made(wanted), now_s=2000, token="shop's second token"))
    assert hashes(changed) == [hashed("shop's second token").text]
    # An overlap that began ends when the resource says so.
    usual = made(access(SHOP), after(made(access(SHOP)), now_s=2000, token="another token"))
    assert len(hashes(usual)) == 2
    ended = made(wanted, after(usual, now_s=2001, token="another token"))
    assert hashes(ended) == [hashed("another token").text]


def test_a_removed_client_has_no_overlap() -> None:
    data = made(access(SHOP))
    removed = made(access(BATCH), after(data, now_s=1001, token="shop's first token"))
    assert hashed("shop's first token").text not in removed["access.json"]


def test_a_token_that_moves_to_another_client_is_that_client_s_alone() -> None:
    other = SHOP | {"name": "other", "roles": ["metrics"], "tokenSecret": {"name": "other"}}
    other.pop("keyPrefixes")
    data = made(access(SHOP))
    facts = after(data, now_s=1500, token="shop's second token")
    moved = replace(
        facts,
        tokens={**facts.tokens, ("other", "token"): hashed("shop's first token")},
    )
    changed = made(access(SHOP, other), moved)
    assert hashes(changed) == [hashed("shop's second token").text]
    assert hashes(changed, "other") == [hashed("shop's first token").text]
    allowed(changed)  # a node refuses a hash of two subjects


@pytest.mark.parametrize("state", ["", "no JSON", "[]", '{"shop": 1}', '{"shop": {"current": 1}}'])
def test_a_state_that_a_person_has_changed_only_ends_the_overlap(state: str) -> None:
    facts = replace(FACTS, files=AccessFiles(None, state))
    assert hashes(made(access(SHOP), facts)) == [hashed("shop's first token").text]


def test_the_keys_of_the_cluster_stay_until_the_pods_have_restarted() -> None:
    """Pods mount the entry: without it, a new pod could not start."""
    keys = ClusterKeys('{"keys":[{}]}', "https://issuer")
    facts = replace(FACTS, keys=None, files=AccessFiles(keys, ""))
    assert made(access(SHOP), facts)["issuer"] == "https://issuer"


# --- the operator's certificate ----------------------------------------------------------------


def name_of(data: dict[str, str]) -> tuple[str, int] | None:
    own = json.loads(data["state.json"])[OPERATOR]
    return (own["uri"], own["since_s"]) if "uri" in own else None


def later(data: dict[str, str], *, now_s: int) -> AccessFacts:
    files = AccessFiles(None, data["state.json"], data["access.json"])
    return replace(FACTS, files=files, now_s=now_s)


def put(facts: AccessFacts, cluster_id: str | None, *, is_mounted: bool = True) -> dict[str, str]:
    (body,) = access_bodies(OWNER, access(SHOP), facts, cluster_id, is_mounted=is_mounted)[0]
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def test_the_first_file_has_the_operator_s_name_for_all_nodes_at_once() -> None:
    assert name_of(put(FACTS, CLUSTER, is_mounted=False)) == (OWN_URI, 0)
    # Also the second one, if the id of the certificates came after the first and no pod did.
    second = later(put(FACTS, None, is_mounted=False), now_s=2000)
    assert name_of(put(second, CLUSTER, is_mounted=False)) == (OWN_URI, 0)


def test_a_file_that_was_deleted_has_its_time_again() -> None:
    """A pod may have one from before that lacks the name."""
    assert name_of(put(FACTS, CLUSTER)) == (OWN_URI, 1000)


@pytest.mark.without(
    "kraftquorum_operator.resources.access_file:_own_name",
    "min(known.since_s, facts.now_s)",
    "known.since_s",
)
def test_a_time_to_come_is_corrected() -> None:
    """A clock was wrong, or a person changed the state: the token would go to nodes until then."""
    data = put(FACTS, CLUSTER)
    assert name_of(put(later(data, now_s=500), CLUSTER)) == (OWN_URI, 500)


@pytest.mark.without(
    "kraftquorum_operator.resources.access_file:_own_name",
    "facts.now_s if is_mounted else 0",
    "0",
)
def test_a_name_that_a_file_gets_later_has_its_time_and_both_are_accepted() -> None:
    """Pods mount the file of before for up to two minutes."""
    first = put(FACTS, None)
    assert name_of(first) is None
    named = put(later(first, now_s=2000), CLUSTER)
    assert name_of(named) == (OWN_URI, 2000)
    assert name_of(put(later(named, now_s=3000), CLUSTER)) == (OWN_URI, 2000)
    document = allowed(named)
    for presented in (
        Presented(uri_names=(OWN_URI,)),
        Presented(token_hash=hashed("the operator's token").text),
    ):
        assert document.identify(presented, None, 0.0).name == OPERATOR


def test_the_file_of_an_operator_that_noted_no_time_gets_one() -> None:
    data = put(FACTS, CLUSTER)
    state = json.loads(data["state.json"])
    for key in ("uri", "since_s"):
        del state[OPERATOR][key]
    named = put(later(data | {"state.json": json.dumps(state)}, now_s=2000), CLUSTER)
    assert name_of(named) == (OWN_URI, 2000)


def test_another_cluster_id_has_another_name_and_an_unknown_one_changes_none() -> None:
    data = put(FACTS, CLUSTER)
    assert put(later(data, now_s=2000), None) == data
    uri, since_s = name_of(put(later(data, now_s=2000), "another")) or ("", 0)
    assert (uri.split("/")[4], since_s) == ("another", 2000)


def test_the_operator_s_name_does_not_wait_for_an_entry_to_be_corrected() -> None:
    """Nor does its token: without either no node would answer it."""
    first = put(FACTS, None)
    missing = Unusable("SecretMissing", "there is no Secret shop")
    facts = replace(later(first, now_s=2000), tokens={("shop", "token"): missing})
    named = put(facts, CLUSTER)
    assert name_of(named) == (OWN_URI, 2000)
    document = allowed(named)
    assert document.identify(Presented(uri_names=(OWN_URI,)), None, 0.0).name == OPERATOR
    held = replace(later(named, now_s=2500), tokens={("shop", "token"): missing})
    assert access_bodies(OWNER, access(SHOP), held, CLUSTER)[0] == []


@pytest.mark.without(
    "kraftquorum_operator.resources.access_file:_with_itself", "known_by == uris and", ""
)
def test_a_name_that_a_person_took_from_the_operator_comes_back_beside_a_wrong_entry() -> None:
    own = own_entry_without("certificate_uri_names")
    assert own.get("certificate_uri_names") == [OWN_URI]


def test_tokens_that_a_person_took_from_the_operator_come_back_beside_a_wrong_entry() -> None:
    own = own_entry_without("token_hashes")
    assert own.get("token_hashes") == [hashed("the operator's token").text]


def own_entry_without(field: str) -> dict[str, Any]:
    """The operator's entry in the next file, after a person has removed a part; {}: there is none."""
    data = put(FACTS, CLUSTER)
    document = json.loads(data["access.json"])
    del document["subjects"][0][field]
    changed = later(data | {"access.json": json.dumps(document)}, now_s=2000)
    missing = Unusable("SecretMissing", "there is no Secret shop")
    facts = replace(changed, tokens={("shop", "token"): missing})
    for body in access_bodies(OWNER, access(SHOP), facts, CLUSTER)[0]:
        return json.loads(base64.b64decode(body["data"]["access.json"]))["subjects"][0]
    return {}


# --- faults ----------------------------------------------------------------------------------


def test_what_a_secret_lacks_is_named_with_its_field() -> None:
    missing = Unusable("SecretMissing", "there is no Secret shop in namespace test; create it")
    facts = replace(FACTS, tokens={("shop", "token"): missing})
    (fault,) = faults_of(BATCH, SHOP, facts=facts)
    assert fault.reason == "SecretMissing"
    assert str(fault).startswith("spec.access.clients[1].tokenSecret: there is no Secret shop")


def test_keys_of_the_cluster_that_cannot_be_read_are_a_fault_of_who_needs_them() -> None:
    facts = replace(FACTS, keys=Unusable("KeysUnreadable", "forbidden"))
    (fault,) = faults_of(SHOP, PROMETHEUS, facts=facts)
    assert (fault.field, fault.reason) == (
        "spec.access.clients[1].serviceAccount",
        "KeysUnreadable",
    )


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        (SHOP, SHOP | {"name": "other"}, "clients[1].tokenSecret"),
        (BATCH, BATCH | {"name": "other"}, "clients[1].certificate.uriNames[0]"),
        (PROMETHEUS, PROMETHEUS | {"name": "other"}, "clients[1].serviceAccount"),
        (SHOP, BATCH | {"name": "shop"}, "clients[1].name"),
    ],
)
def test_two_clients_that_a_node_could_not_tell_apart_are_refused(
    first: Body, second: Body, field: str
) -> None:
    (fault,) = faults_of(first, second)
    assert (fault.field, fault.reason) == (f"spec.access.{field}", "Duplicate")


@pytest.mark.without(
    "kraftquorum_operator.resources.access_file:_faults", "if own_name is not None:", "if False:"
)
def test_the_operator_s_own_name_is_of_no_client() -> None:
    """A node refuses a file in which two subjects have a name."""
    (fault,) = faults_of(BATCH | {"certificate": {"uriNames": [OWN_URI]}})
    assert fault.reason == "Duplicate"
    assert "the operator's own certificate" in fault.message


def test_the_operator_s_own_token_is_of_no_client() -> None:
    facts = replace(FACTS, tokens={("shop", "token"): hashed("the operator's token")})
    (fault,) = faults_of(SHOP, facts=facts)
    assert fault.reason == "Duplicate"


@pytest.mark.parametrize(
    "wrong",
    [
        SHOP | {"roles": ["reed"]},
        SHOP | {"roles": ["peer"]},
        SHOP | {"roles": []},
        SHOP | {"name": OPERATOR},
        SHOP | {"name": ""},
        SHOP | {"certificate": {"uriNames": [URI]}},
        {"name": "nothing", "roles": ["read"]},
        SHOP | {"tokenSecret": {"name": "Shop_"}},
        SHOP | {"token": "in clear"},
        PROMETHEUS | {"serviceAccount": {"name": "prometheus-k8s"}},
    ],
)
def test_a_resource_with_a_wrong_entry_is_refused(wrong: Body) -> None:
    with pytest.raises(ValidationError):
        access(wrong)


@pytest.mark.without(
    "kraftquorum_operator.resources.access_file:access_bodies",
    "_with_itself(owner, facts.files, facts.operator, own_name), faults",
    "[], faults",
)
def test_a_new_token_of_the_operator_does_not_wait_for_an_entry_to_be_corrected() -> None:
    """Else the operator could repair nothing until then."""
    data = made(access(SHOP, PROMETHEUS))
    files = AccessFiles(FACTS.keys, data["state.json"], data["access.json"])
    facts = replace(FACTS, files=files, tokens={("shop", "token"): Unusable("SecretMissing", "x")})
    assert access_bodies(OWNER, access(SHOP), facts, CLUSTER)[0] == []
    facts = replace(facts, operator=hashed("another of the operator"))
    bodies, (fault,) = access_bodies(OWNER, access(SHOP), facts, CLUSTER)
    assert fault.reason == "SecretMissing"
    assert len(bodies) == 1
    data_written: dict[str, str] = bodies[0]["data"]
    written = {key: base64.b64decode(value).decode() for key, value in data_written.items()}
    assert written.keys() == data.keys()
    document = allowed(written)

    def knows(token: str) -> bool:
        presented = Presented(token_hash=hashed(token).text)
        verb = Verb.WRITE if token.startswith("shop") else Verb.ADMIN
        return document.decide(document.identify(presented, None, 0.0), verb, b"shop/1") is None

    assert knows("another of the operator")
    assert not knows("the operator's token")
    assert knows("shop's first token"), "the other entries of before stay in force"
    state = json.loads(written["state.json"])
    assert state[OPERATOR] == {
        "current": hashed("another of the operator").text,
        "before": {},
        "uri": OWN_URI,
        "since_s": 1000,
    }
    assert state["shop"] == json.loads(data["state.json"])["shop"]
    # A file that a person has changed to something else stays as it is.
    for text in ("", "{}", '{"subjects": []}', '{"subjects": [1]}'):
        changed = replace(facts, files=replace(files, document=text))
        assert access_bodies(OWNER, access(SHOP), changed, CLUSTER)[0] == []


def test_secrets_that_cannot_be_read_are_not_overwritten() -> None:
    """A new token of the operator would lock it out of the nodes that know the one before."""
    facts = AccessFacts({}, unreadable="secrets is forbidden")
    bodies, (fault,) = access_bodies(OWNER, access(SHOP), facts, CLUSTER)
    assert bodies == []
    assert (fault.field, fault.reason) == ("spec.access", "SecretUnreadable")
    assert "secrets is forbidden" in fault.message
