"""The access file of a quorum, made from `spec.access` and the hashes of tokens.

It is made as a whole or not at all: an entry that cannot be used leaves the previous file in
force. When a Secret gets another token, the hash of the earlier one stays in the file for the
overlap. The state of that is beside the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.model.access import AccessClient, AnonymousAccess, QuorumAccess
from kraftquorum_operator.model.access_facts import (
    ACCESS_KEY,
    ISSUER_KEY,
    KEYS_KEY,
    STATE_KEY,
    TOKEN_KEY,
    AccessFacts,
    AccessFault,
    AccessFiles,
    ClusterKeys,
    TokenHash,
    Unusable,
)
from kraftquorum_operator.model.access_state import OPERATOR, AccessState, OwnName, Tokens
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.resources.secrets import store_secret

Entry = dict[str, Any]


def access_bodies(
    owner: Owner,
    access: QuorumAccess,
    facts: AccessFacts,
    cluster_id: str | None,
    *,
    is_mounted: bool = True,
) -> tuple[list[Body], tuple[AccessFault, ...]]:
    """The Secrets to keep up to date, and why there is no new access file.

    Args:
        owner: the resource.
        access: as the resource has it.
        facts: what was read for it.
        cluster_id: of the quorum, or of its certificates; None: it has neither.
        is_mounted: whether a pod may have the previous file.
    """
    if facts.unreadable:
        # A new token would lock the operator out of the nodes that know the one before.
        why = f"the operator cannot read its own Secrets: {facts.unreadable}"
        return [], (AccessFault("spec.access", "SecretUnreadable", why),)
    if facts.operator is None:
        token = {TOKEN_KEY: facts.fresh_token.encode()}
        return [store_secret(owner, names.operator_token(owner.name), token, {})], ()
    own_name = _own_name(facts, cluster_id, is_mounted=is_mounted)
    faults = tuple(_faults(access, facts, own_name))
    if faults:
        return _with_itself(owner, facts.files, facts.operator, own_name), faults
    tokens = _tokens(access, facts, facts.operator)
    document = {
        "subjects": [
            _operator(tokens[OPERATOR], own_name),
            *(_subject(client, tokens.get(client.name)) for client in access.clients),
        ]
    }
    if access.anonymous is not None:
        document |= {"anonymous": {"grants": [_grant(access.anonymous)]}}
    keys = facts.keys if isinstance(facts.keys, ClusterKeys) else facts.files and facts.files.keys
    return [_secret(owner, document, AccessState(tokens, own_name), keys)], ()


def _secret(owner: Owner, document: Entry, state: AccessState, keys: ClusterKeys | None) -> Body:
    """The nodes' Secret.

    The keys stay in it without an entry that needs them: pods mount them until they restart.
    """
    data = {ACCESS_KEY: _json(document), STATE_KEY: _json(state.document())}
    if keys is not None:
        data |= {KEYS_KEY: keys.text, ISSUER_KEY: keys.issuer}
    encoded = {key: text.encode() for key, text in data.items()}
    return store_secret(owner, names.access(owner.name), encoded, {})


def _own_name(facts: AccessFacts, cluster_id: str | None, *, is_mounted: bool) -> OwnName | None:
    """By which name of its certificate the nodes are to know the operator.

    The previous name stays while the cluster id is not known.
    """
    files = facts.files
    known = AccessState.parse(files.state).own_name if files is not None else None
    if cluster_id is None:
        return known
    uri = names.operator_identity(cluster_id)
    if known is not None and known.uri == uri:
        return OwnName(uri, min(known.since_s, facts.now_s))
    return OwnName(uri, facts.now_s if is_mounted else 0)


def _with_itself(
    owner: Owner, files: AccessFiles | None, operator: TokenHash, own_name: OwnName | None
) -> list[Body]:
    """The previous file, if it lacks the operator's token or name, with these.

    Without them no node would answer the operator until a person has corrected the entry, and
    repairs would wait for that.
    """
    if files is None:
        return []
    try:
        document = cast("Entry", json.loads(files.document))
        own = next(each for each in document["subjects"] if each["name"] == OPERATOR)
        has_token = operator.text in own.get("token_hashes", ())
        known_by = own.get("certificate_uri_names", [])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, StopIteration):
        return []
    state = AccessState.parse(files.state)
    uris = [own_name.uri] if own_name is not None else known_by
    if has_token and known_by == uris and own_name == state.own_name:
        return []
    own["token_hashes"] = [operator.text]
    own["certificate_uri_names"] = uris
    tokens = {**state.tokens, OPERATOR: Tokens(operator.text, {})}
    return [_secret(owner, document, AccessState(tokens, own_name), files.keys)]


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _grant(given: AccessClient | AnonymousAccess) -> Entry:
    grant: Entry = {"roles": sorted(set(given.roles))}
    if given.key_prefixes is not None:
        grant["key_prefixes"] = list(dict.fromkeys(given.key_prefixes))
    return grant


def _hashes(tokens: Tokens) -> list[str]:
    return [tokens.current, *sorted(tokens.before)]


def _operator(tokens: Tokens, own_name: OwnName | None) -> Entry:
    subject: Entry = {
        "name": OPERATOR,
        "token_hashes": _hashes(tokens),
        "grants": [{"roles": ["admin"]}],
    }
    if own_name is not None:
        subject["certificate_uri_names"] = [own_name.uri]
    return subject


def _subject(client: AccessClient, tokens: Tokens | None) -> Entry:
    subject: Entry = {"name": client.name, "grants": [_grant(client)]}
    if tokens is not None:
        subject["token_hashes"] = _hashes(tokens)
    if client.certificate is not None:
        subject["certificate_uri_names"] = list(client.certificate.uri_names or ())
        subject["certificate_common_names"] = list(client.certificate.common_names or ())
    if client.service_account is not None:
        account = client.service_account
        subject["service_accounts"] = [f"{account.namespace}/{account.name}"]
    return subject


# --- faults ----------------------------------------------------------------------------------


def _faults(
    access: QuorumAccess, facts: AccessFacts, own_name: OwnName | None
) -> Iterator[AccessFault]:
    """What keeps an entry from being used, with the path of its field."""
    owners: dict[tuple[str, str], str] = {}
    if own_name is not None:
        owners["URI", own_name.uri] = "the operator's own certificate"
    if facts.operator is not None:
        owners["token", facts.operator.text] = "the operator's own token"
    for number, client in enumerate(access.clients):
        field = f"spec.access.clients[{number}]"
        if client.token_secret is not None:
            token = facts.tokens.get(client.token_secret.place)
            if isinstance(token, Unusable):
                yield AccessFault(f"{field}.tokenSecret", token.reason, token.message)
        if client.service_account is not None and isinstance(facts.keys, Unusable):
            yield AccessFault(f"{field}.serviceAccount", facts.keys.reason, facts.keys.message)
        for kind, place, value in _identities(client, facts):
            where = f"{field}{place}"
            other = owners.setdefault((kind, value), where)
            if other != where:
                yield AccessFault(
                    where,
                    "Duplicate",
                    f"the {kind} is also that of {other}; each client needs its own",
                )


def _identities(client: AccessClient, facts: AccessFacts) -> Iterator[tuple[str, str, str]]:
    """By what a client is known: the kind, the place in its entry, and the value."""
    yield "name", ".name", client.name
    if client.token_secret is not None:
        token = facts.tokens.get(client.token_secret.place)
        if isinstance(token, TokenHash):
            yield "token", ".tokenSecret", token.text
    if client.certificate is not None:
        for number, name in enumerate(client.certificate.uri_names or ()):
            yield "URI", f".certificate.uriNames[{number}]", name
        for number, name in enumerate(client.certificate.common_names or ()):
            yield "common name", f".certificate.commonNames[{number}]", name
    if client.service_account is not None:
        account = client.service_account
        yield "ServiceAccount", ".serviceAccount", f"{account.namespace}/{account.name}"


# --- tokens and their overlap ----------------------------------------------------------------


def _tokens(access: QuorumAccess, facts: AccessFacts, operator: TokenHash) -> dict[str, Tokens]:
    """The hashes of each subject with a token, those of the overlap with them."""
    current = {OPERATOR: operator.text}
    for client in access.clients:
        token = (
            facts.tokens.get(client.token_secret.place) if client.token_secret is not None else None
        )
        if isinstance(token, TokenHash):
            current[client.name] = token.text
    known = AccessState.parse(facts.files.state if facts.files is not None else "").tokens
    until_s = facts.now_s + access.token_overlap_seconds
    taken = set(current.values())
    tokens: dict[str, Tokens] = {}
    for name, text in current.items():
        last = known.get(name)
        before = {} if last is None else dict(last.before)
        if last is not None and last.current != text:
            before[last.current] = until_s
        kept = {
            earlier: min(end_s, until_s)
            for earlier, end_s in before.items()
            if end_s > facts.now_s and earlier not in taken and access.token_overlap_seconds
        }
        taken |= set(kept)
        tokens[name] = Tokens(text, kept)
    return tokens
