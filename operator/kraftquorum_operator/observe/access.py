"""Reads what `spec.access` names: Secrets by their names, and the keys of the cluster.

A token becomes a hash here. Only the operator's own stays, for its requests to the nodes, and it is
no part of an observation.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from kraftquorum_operator import names
from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.errors import KubeError, RefusedError
from kraftquorum_operator.model.access import QuorumAccess, TokenSecret
from kraftquorum_operator.model.access_facts import (
    ACCESS_KEY,
    ISSUER_KEY,
    KEYS_KEY,
    STATE_KEY,
    TOKEN_KEY,
    AccessFacts,
    AccessFiles,
    ClusterKeys,
    TokenHash,
    Unusable,
)
from kraftquorum_operator.model.access_state import AccessState
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import Pod
from kraftquorum_operator.observe.certificates import data_of
from kraftquorum_operator.observe.foreign import belongs_to
from kraftquorum_operator.observe.missing_right import why_unreadable

TOKEN_BYTES_MIN = 16
TOKEN_BYTES_MAX = 4096
_TOKEN = re.compile(rb"[!-~]+")

KEYS_URL = "/openid/v1/jwks"
DISCOVERY_URL = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class ReadAccess:
    """What was read.

    Attributes:
        facts: for the observation; None: neither the resource nor a pod has access control.
        bodies: the Secrets that the operator writes, of any owner.
        operator_token: for requests to the nodes; None: there is none.
        operator_uri: the name in the operator's certificate by which every node with an access
            file knows it; None: a node may know its token alone.
    """

    facts: AccessFacts | None = None
    bodies: tuple[Body, ...] = ()
    operator_token: str | None = field(default=None, repr=False)
    operator_uri: str | None = None


async def read_access(
    kube: KubeReader, owner: Owner, access: QuorumAccess | None, pods: Iterable[Pod]
) -> ReadAccess:
    """Read all of it; what is missing or cannot be read is a fact too.

    Raises:
        KubeError: the API server did not answer for the operator's own Secrets.
    """
    if access is None and not any(pod.guarded for pod in pods):
        return ReadAccess()
    try:
        file_body, token_body = await asyncio.gather(
            kube.get("Secret", owner.namespace, names.access(owner.name)),
            kube.get("Secret", owner.namespace, names.operator_token(owner.name)),
        )
    except RefusedError as error:
        why = why_unreadable(error, owner.namespace)
        return ReadAccess(None if access is None else AccessFacts({}, unreadable=why))
    token = None if token_body is None else _own_token(owner, token_body)
    bodies = tuple(body for body in (file_body, token_body) if body is not None)
    now_s = int(time.time())
    files = None if file_body is None else _read_files(owner, file_body)
    uri = None if files is None else AccessState.parse(files.state).name_in_force(now_s)
    if access is None:
        return ReadAccess(None, bodies, token, uri)
    wanted = [client.token_secret for client in access.clients if client.token_secret is not None]
    accounts = any(client.service_account is not None for client in access.clients)
    facts = AccessFacts(
        tokens=await _read_tokens(kube, owner, wanted),
        keys=await _read_keys(kube) if accounts else None,
        operator=None if token is None else _hash(token.encode()),
        fresh_token=secrets.token_urlsafe(32),
        files=files,
        now_s=now_s,
    )
    return ReadAccess(facts, bodies, token, uri)


async def _read_tokens(
    kube: KubeReader, owner: Owner, wanted: Iterable[TokenSecret]
) -> dict[tuple[str, str], TokenHash | Unusable]:
    """Each Secret once, even if several entries name it."""
    by_name: dict[str, list[TokenSecret]] = {}
    for each in wanted:
        by_name.setdefault(each.name, []).append(each)
    bodies = await asyncio.gather(*(_get_secret(kube, owner, name) for name in by_name))
    return {
        each.place: body if isinstance(body, Unusable) else _read_token(each, body)
        for body, group in zip(bodies, by_name.values(), strict=True)
        for each in group
    }


async def _get_secret(kube: KubeReader, owner: Owner, name: str) -> Body | Unusable:
    try:
        body = await kube.get("Secret", owner.namespace, name)
    except KubeError as error:
        # Also a Secret that the API server cannot decrypt: it must not hold back the quorum.
        why = why_unreadable(error, owner.namespace)
        return Unusable("SecretUnreadable", f"the operator cannot read Secret {name}: {why}")
    if body is None:
        return Unusable(
            "SecretMissing", f"there is no Secret {name} in namespace {owner.namespace}; create it"
        )
    return body


def _read_token(wanted: TokenSecret, body: Body) -> TokenHash | Unusable:
    data = data_of(body)
    where = f"key {wanted.key} of Secret {wanted.name}"
    if wanted.key not in data:
        shown = ", ".join(sorted(data)[:8]) or "none"
        return Unusable(
            "KeyMissing", f"Secret {wanted.name} has no key {wanted.key}; its keys: {shown}"
        )
    token = _without_line_end(data[wanted.key])
    if not TOKEN_BYTES_MIN <= len(token) <= TOKEN_BYTES_MAX:
        return Unusable(
            "TokenUnusable",
            f"the token in {where} has {len(token)} bytes; it must have {TOKEN_BYTES_MIN} to "
            f"{TOKEN_BYTES_MAX}, for example 32 random bytes in base64",
        )
    if _TOKEN.fullmatch(token) is None:
        return Unusable(
            "TokenUnusable",
            f"the token in {where} has a space, a line end or another byte that an HTTP header "
            "cannot have; use letters, digits and punctuation of ASCII",
        )
    return _hash(token)


def _without_line_end(data: bytes) -> bytes:
    """A token from a file: an editor ends its line, and clients leave the end out, too."""
    return data.removesuffix(b"\n").removesuffix(b"\r")


def _hash(token: bytes) -> TokenHash:
    return TokenHash(f"sha256:{hashlib.sha256(token).hexdigest()}")


def _own_token(owner: Owner, body: Body) -> str | None:
    """The operator's token; None: another owner's Secret, or one that a person has emptied."""
    token = _without_line_end(data_of(body).get(TOKEN_KEY, b""))
    if belongs_to(owner, body) is False or len(token) < TOKEN_BYTES_MIN:
        return None
    return token.decode("ascii") if _TOKEN.fullmatch(token) else None


def _read_files(owner: Owner, body: Body) -> AccessFiles | None:
    data = data_of(body)
    if belongs_to(owner, body) is False or ACCESS_KEY not in data:
        return None
    texts = {key: value.decode(errors="replace") for key, value in data.items()}
    keys = None
    if KEYS_KEY in texts and texts.get(ISSUER_KEY):
        keys = ClusterKeys(texts[KEYS_KEY], texts[ISSUER_KEY])
    return AccessFiles(keys, texts.get(STATE_KEY, ""), texts[ACCESS_KEY])


async def _read_keys(kube: KubeReader) -> ClusterKeys | Unusable:
    """The keys that the cluster publishes; any ServiceAccount may read them by default."""
    try:
        keys, discovery = await asyncio.gather(
            kube.read_url(KEYS_URL), kube.read_url(DISCOVERY_URL)
        )
    except KubeError as error:
        return Unusable(
            "KeysUnreadable",
            f"the API server does not tell with which keys it signs tokens: {error}; allow get on "
            f"{KEYS_URL} and {DISCOVERY_URL}, as ClusterRole "
            "system:service-account-issuer-discovery does",
        )
    issuer = discovery.get("issuer")
    if not keys.get("keys") or not isinstance(issuer, str) or not issuer:
        return Unusable("KeysUnreadable", f"{KEYS_URL} has no keys, or {DISCOVERY_URL} no issuer")
    return ClusterKeys(json.dumps({"keys": keys["keys"]}, sort_keys=True), issuer)
