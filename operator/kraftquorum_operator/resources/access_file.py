"""The access file of a quorum, made from `spec.access` and the hashes of tokens.

It is made as a whole or not at all: an entry that cannot be used leaves the previous file in
force. When a Secret gets another token, the hash of the earlier one stays in the file for the
overlap. The state of that is beside the file, so that any operator continues it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.resources.secrets import store_secret

OPERATOR = "kraftquorum:operator"
"""The subject that is the operator; no client can have this name."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The hashes of one subject.

    Attributes:
        current: of the token in its Secret.
        before: earlier ones, each with the Unix time until which it is valid.
    """

    current: str
    before: Mapping[str, int]


def access_bodies(
    owner: Owner, access: QuorumAccess, facts: AccessFacts, cluster_id: str | None
) -> tuple[list[Body], tuple[AccessFault, ...]]:
    """The Secrets to keep up to date, and why there is no new access file.

    Args:
        owner: the resource.
        access: as the resource has it.
        facts: what was read for it.
        cluster_id: of the quorum; None: it has not formed yet.
    """
    if facts.unreadable:
        # A new token would lock the operator out of the nodes that know the one before.
        why = f"the operator cannot read its own Secrets: {facts.unreadable}"
        return [], (AccessFault("spec.access", "SecretUnreadable", why),)
    if facts.operator is None:
        token = {TOKEN_KEY: facts.fresh_token.encode()}
        return [store_secret(owner, names.operator_token(owner.name), token, {})], ()
    faults = tuple(_faults(access, facts))
    if faults:
        return _with_own_token(owner, facts.files, facts.operator), faults
    tokens = _tokens(access, facts, facts.operator)
    document = {
        "subjects": [
            _operator(tokens[OPERATOR], cluster_id),
            *(_subject(client, tokens.get(client.name)) for client in access.clients),
        ]
    }
    if access.anonymous is not None:
        document |= {"anonymous": {"grants": [_grant(access.anonymous)]}}
    keys = facts.keys if isinstance(facts.keys, ClusterKeys) else facts.files and facts.files.keys
    return [_secret(owner, document, _state(tokens), keys)], ()


def _secret(owner: Owner, document: Entry, state: Entry, keys: ClusterKeys | None) -> Body:
    """The nodes' Secret.

    The keys stay in it without an entry that needs them: pods mount them until they restart.
    """
    data = {ACCESS_KEY: _json(document), STATE_KEY: _json(state)}
    if keys is not None:
        data |= {KEYS_KEY: keys.text, ISSUER_KEY: keys.issuer}
    encoded = {key: text.encode() for key, text in data.items()}
    return store_secret(owner, names.access(owner.name), encoded, {})


def _with_own_token(owner: Owner, files: AccessFiles | None, operator: TokenHash) -> list[Body]:
    """The previous file, if it lacks the operator's token, with that token.

    Without it no node would answer the operator until a person has corrected the entry, and
    repairs would wait for that.
    """
    if files is None:
        return []
    try:
        document = cast("Entry", json.loads(files.document))
        own = next(each for each in document["subjects"] if each["name"] == OPERATOR)
    except (ValueError, TypeError, KeyError, StopIteration):
        return []
    if operator.text in own["token_hashes"]:
        return []
    own["token_hashes"] = [operator.text]
    state = _known(files.state) | {OPERATOR: Tokens(operator.text, {})}
    return [_secret(owner, document, _state(state), files.keys)]


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _grant(given: AccessClient | AnonymousAccess) -> Entry:
    grant: Entry = {"roles": sorted(set(given.roles))}
    if given.key_prefixes is not None:
        grant["key_prefixes"] = list(dict.fromkeys(given.key_prefixes))
    return grant


def _hashes(tokens: Tokens) -> list[str]:
    return [tokens.current, *sorted(tokens.before)]


def _operator(tokens: Tokens, cluster_id: str | None) -> Entry:
    subject: Entry = {
        "name": OPERATOR,
        "token_hashes": _hashes(tokens),
        "grants": [{"roles": ["admin"]}],
    }
    if cluster_id is not None:
        subject["certificate_uri_names"] = [names.operator_identity(cluster_id)]
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


def _faults(access: QuorumAccess, facts: AccessFacts) -> Iterator[AccessFault]:
    """What keeps an entry from being used, with the path of its field."""
    owners: dict[tuple[str, str], str] = {}
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
    known = _known(facts.files.state if facts.files is not None else "")
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


def _state(tokens: Mapping[str, Tokens]) -> Entry:
    return {
        name: {"current": each.current, "before": dict(each.before)}
        for name, each in tokens.items()
    }


def _known(text: str) -> dict[str, Tokens]:
    """The previous state; empty if a person has changed it to something else."""
    try:
        entries = cast("dict[str, dict[str, Any]]", json.loads(text or "{}"))
        return {
            name: Tokens(
                str(entry["current"]),
                {str(earlier): int(end_s) for earlier, end_s in entry["before"].items()},
            )
            for name, entry in entries.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
