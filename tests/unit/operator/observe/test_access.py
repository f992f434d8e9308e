"""What the operator reads for `spec.access`: tokens become hashes, and what is missing a reason."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import (
    KubeError,
    KubeUnavailableError,
    NotFoundError,
    RefusedError,
)
from kraftquorum_operator.model.access import QuorumAccess
from kraftquorum_operator.model.access_facts import ClusterKeys, TokenHash, Unusable
from kraftquorum_operator.model.access_state import MOUNTED_S, OPERATOR
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import Pod
from kraftquorum_operator.observe.access import DISCOVERY_URL, KEYS_URL, read_access

OWNER = Owner("test", "demo", "uid")
GOOD = b"0123456789abcdef"
ACCESS = QuorumAccess.model_validate(
    {"clients": [{"name": "shop", "roles": ["read"], "tokenSecret": {"name": "shop"}}]}
)
ACCOUNT = QuorumAccess.model_validate(
    {
        "clients": [
            {"name": "a", "roles": ["read"], "serviceAccount": {"namespace": "n", "name": "a"}}
        ]
    }
)


def secret(name: str, owner: str | None = "uid", **data: bytes) -> Body:
    meta: Body = {"name": name, "namespace": "test", "uid": f"uid-{name}"}
    if owner is not None:
        meta["ownerReferences"] = [{"kind": names.KIND, "uid": owner, "controller": True}]
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"kind": "Secret", "metadata": meta, "data": encoded}


class Kube:
    def __init__(self, *bodies: Body, urls: dict[str, Body] | None = None) -> None:
        self.bodies = {body["metadata"]["name"]: body for body in bodies}
        self.urls = urls or {}
        self.errors: dict[str, KubeError] = {}
        self.asked: list[str] = []

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        assert (kind, namespace) == ("Secret", "test")
        self.asked.append(name)
        if name in self.errors:
            raise self.errors[name]
        return self.bodies.get(name)

    async def read_url(self, url: str) -> Body:
        if url in self.errors:
            raise self.errors[url]
        if url not in self.urls:
            raise NotFoundError(404, "NotFound", url)
        return self.urls[url]


async def look(kube: Kube, access: QuorumAccess | None = ACCESS, *pods: Pod) -> Any:
    return await read_access(cast("Any", kube), OWNER, access, pods)


async def token(data: bytes | None) -> TokenHash | Unusable:
    bodies = () if data is None else (secret("shop", None, token=data),)
    facts = (await look(Kube(*bodies))).facts
    return facts.tokens["shop", "token"]


@pytest.mark.parametrize("data", [GOOD, GOOD + b"\n", GOOD + b"\r\n"])
async def test_a_token_is_known_by_its_hash_without_the_end_of_its_line(data: bytes) -> None:
    assert await token(data) == TokenHash(f"sha256:{hashlib.sha256(GOOD).hexdigest()}")


@pytest.mark.parametrize(
    ("data", "reason", "says"),
    [
        (None, "SecretMissing", "there is no Secret shop in namespace test; create it"),
        (b"short", "TokenUnusable", "has 5 bytes; it must have 16 to 4096"),
        (b"", "TokenUnusable", "has 0 bytes"),
        (b"a" * 4097, "TokenUnusable", "has 4097 bytes"),
        (b"two words of a token", "TokenUnusable", "has a space, a line end"),
        (GOOD + b"\n\n", "TokenUnusable", "has a space, a line end"),
        ("schlüssel-schlüssel".encode(), "TokenUnusable", "ASCII"),
    ],
)
async def test_a_token_that_cannot_be_used_is_named_and_never_shown(
    data: bytes | None, reason: str, says: str
) -> None:
    found = await token(data)
    assert isinstance(found, Unusable)
    assert found.reason == reason
    assert says in found.message
    assert not data or len(data) < 6 or data.decode(errors="replace") not in found.message


async def test_a_key_that_is_missing_is_named_with_those_that_are_there() -> None:
    facts = (await look(Kube(secret("shop", None, password=GOOD)))).facts
    found = facts.tokens["shop", "token"]
    assert found.reason == "KeyMissing"
    assert "Secret shop has no key token; its keys: password" in found.message


FORBIDDEN = RefusedError(403, "Forbidden", "secrets is forbidden")
UNDECRYPTABLE = KubeUnavailableError(500, "InternalError", "no matching key was found")


@pytest.mark.parametrize("error", [FORBIDDEN, UNDECRYPTABLE])
async def test_a_secret_that_cannot_be_read_is_a_fact(error: KubeError) -> None:
    kube = Kube()
    kube.errors["shop"] = error
    found = (await look(kube)).facts.tokens["shop", "token"]
    assert found.reason == "SecretUnreadable"
    granted = "grant the operator's role get, create, patch, delete on secrets in namespace"
    assert (granted in found.message) == (error is FORBIDDEN)


@pytest.mark.parametrize("name", ["demo-access", "demo-operator-token"])
async def test_the_operator_s_own_secrets_that_it_may_not_read_are_a_fact(name: str) -> None:
    """The repairs of a quorum without guarded pods do not need them."""
    kube = Kube()
    kube.errors[name] = FORBIDDEN
    assert "forbidden; grant the operator's role get" in (await look(kube)).facts.unreadable
    read = await look(kube, None, Pod("demo-0", "u", 0, guarded=True))
    assert read.facts is None
    assert read.operator_token is None


async def test_no_answer_for_the_operator_s_own_secrets_is_no_fact() -> None:
    kube = Kube()
    kube.errors["demo-operator-token"] = UNDECRYPTABLE
    with pytest.raises(KubeUnavailableError):
        await look(kube)


async def test_a_quorum_without_access_control_costs_no_request() -> None:
    kube = Kube()
    assert (await look(kube, None, Pod("demo-0", "u", 0))).facts is None
    assert kube.asked == []


async def test_the_operator_keeps_its_token_until_no_pod_has_an_access_file() -> None:
    kube = Kube(secret("demo-operator-token", token=GOOD))
    read = await look(kube, None, Pod("demo-0", "u", 0, guarded=True), Pod("demo-1", "v", 1))
    assert read.operator_token == GOOD.decode()
    assert read.facts is None
    assert GOOD.decode() not in repr(read)


@pytest.mark.parametrize("body", [secret("demo-operator-token", "another", token=GOOD), None])
async def test_the_token_of_another_owner_is_not_the_operator_s(body: Body | None) -> None:
    read = await look(Kube(*([body] if body else [])))
    assert read.operator_token is None
    assert read.facts.operator is None
    assert len(read.facts.fresh_token) >= 32


async def test_the_files_of_before_are_read_from_the_operator_s_own_secret() -> None:
    files = {"access.json": b"{}", "state.json": b"{}", "jwks.json": b"{}", "issuer": b"https://i"}
    written = (await look(Kube(secret("demo-access", **files)))).facts.files
    assert written.keys == ClusterKeys("{}", "https://i")
    assert (await look(Kube(secret("demo-access", "another", **files)))).facts.files is None
    assert (await look(Kube(secret("demo-access")))).facts.files is None


async def test_the_cluster_s_keys_are_read_if_an_entry_needs_them() -> None:
    urls: dict[str, Body] = {
        KEYS_URL: {"keys": [{"kid": "1"}]},
        DISCOVERY_URL: {"issuer": "https://i"},
    }
    assert (await look(Kube(urls=urls), ACCOUNT)).facts.keys == ClusterKeys(
        '{"keys": [{"kid": "1"}]}', "https://i"
    )
    assert (await look(Kube(urls=urls))).facts.keys is None
    unreadable = (await look(Kube(), ACCOUNT)).facts.keys
    assert unreadable.reason == "KeysUnreadable"
    assert KEYS_URL in unreadable.message
    slow = Kube(urls=urls)
    slow.errors[KEYS_URL] = KubeUnavailableError(503, "Unavailable", "no endpoints")
    assert (await look(slow, ACCOUNT)).facts.keys.reason == "KeysUnreadable"
    empty = urls | {KEYS_URL: {"keys": []}}
    assert (await look(Kube(urls=empty), ACCOUNT)).facts.keys.reason == "KeysUnreadable"


@pytest.mark.without(
    "kraftquorum_operator.model.access_state:AccessState.name_in_force",
    "own is not None and now_s >= own.since_s + MOUNTED_S",
    "own is not None",
)
async def test_the_nodes_know_the_operator_s_certificate_once_each_has_the_file() -> None:
    """Until then it sends its token, too; also while a quorum leaves access control."""
    uri = names.operator_identity("cluster")

    async def known(age_s: int, access: QuorumAccess | None = ACCESS) -> str | None:
        own = {"current": "x", "before": {}, "uri": uri, "since_s": int(time.time()) - age_s}
        state = json.dumps({OPERATOR: own}).encode()
        file = secret("demo-access", **{"access.json": b"{}", "state.json": state})
        pod = Pod("demo-0", "u", 0, guarded=True)
        return (await look(Kube(file), access, pod)).operator_uri

    assert await known(MOUNTED_S + 1) == uri
    assert await known(MOUNTED_S + 1, None) == uri
    assert await known(MOUNTED_S - 60) is None
    assert (await look(Kube())).operator_uri is None
    files = {"access.json": b"{}", "state.json": b"{}"}
    assert (await look(Kube(secret("demo-access", **files)))).operator_uri is None
