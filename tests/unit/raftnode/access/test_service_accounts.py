"""Tokens of ServiceAccounts: each claim and each signature that is wrong, and keys that change."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from proofkit.accounttokens import AUDIENCE, ISSUER, AccountIssuer, write_keys
from raftnode.access.access_file import FollowedFile
from raftnode.access.document import AccessFileError
from raftnode.access.service_accounts import AccountTokens, KeySet, TokenRefusedError

ISSUER_1, OTHER = AccountIssuer("1"), AccountIssuer("1")
CURVE = ec.generate_private_key(ec.SECP256R1())
CURVE_ENTRY = {
    **ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True),
    "kid": "2",
    "use": "sig",
    "alg": "ES256",
}
KEYS = KeySet.parse(json.dumps({"keys": [ISSUER_1.entry, CURVE_ENTRY]}).encode())


def signed(issuer: AccountIssuer = ISSUER_1, **changed: Any) -> str:
    return issuer.token(**changed)


def by_hand(key: Any, kid: str, algorithm: str) -> str:
    claims = jwt.decode(signed(), options={"verify_signature": False})
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def verify(token: str) -> str:
    return KEYS.verify(token, audience=AUDIENCE, issuer=ISSUER).name


def test_a_token_of_the_cluster_names_its_account():
    assert verify(signed()) == "shop/app"
    assert verify(by_hand(CURVE, "2", "ES256")) == "shop/app"
    assert verify(signed(aud=["x", AUDIENCE])) == "shop/app"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"exp": int(time.time()) - 60}, "has expired"),
    "not valid yet": ({"nbf": int(time.time()) + 86_400}, "not valid yet"),
    "of another audience": ({"aud": ["https://kubernetes.default.svc"]}, "another audience"),
    "of another issuer": ({"iss": "https://other"}, "another issuer"),
    "without an expiry": ({"exp": None}, "lacks an expiry"),
    "without an audience": ({"aud": None}, "lacks an expiry"),
    "without an issuer": ({"iss": None}, "lacks an expiry"),
    "without a subject": ({"sub": None}, "lacks an expiry"),
    "of a user": ({"sub": "admin"}, "of no ServiceAccount"),
    "of half an account": ({"sub": "system:serviceaccount:shop"}, "of no ServiceAccount"),
    "signed by another key": ({"issuer": OTHER}, "signature is wrong"),
    "signed by an unknown key": (
        {"issuer": AccountIssuer("9")},
        "a key that the node does not have",
    ),
    "of the other key's algorithm": ({"issuer": AccountIssuer("2")}, "not valid"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_token_that_is_wrong_is_refused_and_never_quoted(what: str):
    changed, message = WRONG[what]
    token = signed(**changed)
    with pytest.raises(TokenRefusedError, match=message) as raised:
        verify(token)
    assert not any(part in str(raised.value) for part in token.split("."))


def test_a_token_that_chooses_its_own_algorithm_is_refused():
    none = by_hand(None, "1", "none")
    secret = by_hand("the node's public key, as a secret" * 4, "1", "HS256")
    for token in (none, secret, "a.b.c", "..", "é.b.c"):
        with pytest.raises(TokenRefusedError):
            verify(token)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no JSON Web Key Set"),
        (b"[]", "is no JSON Web Key Set"),
        (b'{"keys": 1}', "is no JSON Web Key Set"),
        (b'{"keys": ["x"]}', "is no JSON Web Key Set"),
        (b'{"keys": [{"kty": "RSA", "alg": "none"}]}', "has a key that cannot be used"),
        (b'{"keys": []}', "has no key"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "1"}]}', "cannot be used"),
        (b'{"keys": [{"kty": "RSA", "kid": "1"}]}', "cannot be used|is no JSON"),
    ],
)
def test_a_file_without_public_keys_is_refused(data: bytes, message: str):
    with pytest.raises(AccessFileError, match=message):
        KeySet.parse(data)


@pytest.mark.without(
    "access.service_accounts:AccountTokens.verify", "keys is not self._checked_with", "False"
)
async def test_a_token_is_checked_again_with_new_keys(tmp_path: Path):
    path = tmp_path / "jwks.json"
    write_keys(path, ISSUER_1)
    file = FollowedFile("access_jwks_file", path, KeySet.parse)
    tokens = AccountTokens(file, audience=AUDIENCE, issuer=ISSUER)
    token = signed()
    assert tokens.verify(token, "hash").name == "shop/app"
    assert tokens.verify(token, "hash").name == "shop/app"
    write_keys(path, OTHER)
    assert not await file.refresh()
    assert await file.refresh()
    try:
        tokens.verify(token, "hash")
    except TokenRefusedError:
        return
    pytest.fail("a token of a key that was withdrawn is accepted")
