"""Tokens of Kubernetes ServiceAccounts, checked with the cluster's public keys.

The file has the JSON Web Key Set of the cluster: `kubectl get --raw /openid/v1/jwks`. A token must
be signed with one of its keys, be for our audience, of the expected issuer, and not have expired.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raftnode.access.access_file import FollowedFile
from raftnode.access.document import AccessFileError

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
"""Public-key signatures alone: a secret could not stand in a file of public keys."""

KEYS_MAX = 64
ACCOUNTS_KEPT = 1024
LEEWAY_S = 10
"""How far the clocks of the API server and the node may be apart."""

_SUBJECT = "system:serviceaccount:"


class TokenRefusedError(Exception):
    """A token that is refused; the message has nothing of it."""


@dataclass(frozen=True, slots=True)
class Account:
    """The ServiceAccount of a token.

    Attributes:
        name: namespace and name, `ns/name`.
        expires_s: Unix time at which the token ends.
        signed_with: the key that its signature was verified with, as `KeySet.prints` has it.
    """

    name: str
    expires_s: float
    signed_with: str


@dataclass(frozen=True, slots=True)
class KeySet:
    """The public keys of a cluster, by their ids.

    Attributes:
        keys: by key id.
        prints: a digest of each key, by key id: the same for the same key in another file.
    """

    keys: dict[str, PyJWK]
    prints: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def parse(cls, data: bytes) -> KeySet:
        """Read a JSON Web Key Set.

        Raises:
            AccessFileError: it is none, or has no key for signatures.
        """
        from jwt.exceptions import PyJWTError  # noqa: PLC0415 - only for tokens that are signed

        try:
            entries: Any = json.loads(data)["keys"]
            keys = {str(entry.get("kid", "")): _key(entry) for entry in entries[:KEYS_MAX]}
            prints = {str(entry.get("kid", "")): _print(entry) for entry in entries[:KEYS_MAX]}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise AccessFileError(
                "is no JSON Web Key Set; expected an object with `keys`, as kubectl get --raw "
                "/openid/v1/jwks prints it"
            ) from None
        except (PyJWTError, NotImplementedError) as error:
            raise AccessFileError(
                f"has a key that cannot be used: {type(error).__name__}"
            ) from None
        if not keys:
            raise AccessFileError("has no key")
        return cls(keys, prints)

    def verify(self, token: str, *, audience: str, issuer: str) -> Account:
        """Check a token.

        Raises:
            TokenRefusedError: it is not to be trusted.
        """
        import jwt  # noqa: PLC0415 - only for tokens that are signed

        try:
            header = jwt.get_unverified_header(token)
            key_id = str(header.get("kid", ""))
            key = self.keys.get(key_id)
            if key is None:
                raise TokenRefusedError(
                    "the token is signed with a key that the node does not have"
                )
            claims = jwt.decode(
                token,
                key,
                # The key's own algorithm, never the one that the token asks for.
                algorithms=[key.algorithm_name],
                audience=audience,
                issuer=issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            raise TokenRefusedError(_REASONS.get(type(error).__name__, _NOT_VALID)) from None
        except (ValueError, TypeError, RecursionError):
            raise TokenRefusedError(_NOT_VALID) from None
        namespace, _, name = str(claims["sub"]).removeprefix(_SUBJECT).partition(":")
        if not str(claims["sub"]).startswith(_SUBJECT) or not name:
            raise TokenRefusedError("the token is of no ServiceAccount")
        return Account(f"{namespace}/{name}", float(claims["exp"]) + LEEWAY_S, self.prints[key_id])


class AccountTokens:
    """Checks tokens with the keys of a file that is followed.

    Args:
        file: with the keys.
        audience: that a token must be for.
        issuer: that a token must be of.
    """

    def __init__(self, file: FollowedFile[KeySet], *, audience: str, issuer: str) -> None:
        self.file = file
        self._audience = audience
        self._issuer = issuer
        self._checked_with: KeySet | None = None
        self._accounts: dict[str, Account] = {}

    def verify(self, token: str, token_hash: str) -> Account:
        """Check a token; a signature is verified once.

        Args:
            token: as presented.
            token_hash: of it.

        Raises:
            TokenRefusedError: it is not to be trusted.
        """
        keys = self.file.current
        if keys is not self._checked_with or len(self._accounts) >= ACCOUNTS_KEPT:
            self._checked_with = keys
            self._accounts.clear()
        account = self._accounts.get(token_hash)
        if account is None:
            account = keys.verify(token, audience=self._audience, issuer=self._issuer)
            self._accounts[token_hash] = account
        return account

    def trusts(self, signed_with: str) -> bool:
        """Whether the file still has the key of a token that was accepted before."""
        return signed_with in self.file.current.prints.values()


_NOT_VALID = "the token is not valid"
_REASONS = {
    "ExpiredSignatureError": "the token has expired",
    "ImmatureSignatureError": "the token is not valid yet",
    "InvalidAudienceError": "the token is for another audience (access_token_audience)",
    "InvalidIssuerError": "the token is of another issuer (access_token_issuer)",
    "InvalidSignatureError": "the token's signature is wrong",
    "MissingRequiredClaimError": "the token lacks an expiry, an issuer, an audience or a subject",
}


def _key(entry: Any) -> PyJWK:
    from jwt import PyJWK, PyJWKError  # noqa: PLC0415 - only for tokens that are signed

    key = PyJWK(entry)
    if key.algorithm_name not in ALGORITHMS:
        raise PyJWKError("not a public key for signatures")
    return key


def _print(entry: Any) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def looks_signed(token: str) -> bool:
    """Whether a token may be a signed one: three parts."""
    return token.count(".") == 2
