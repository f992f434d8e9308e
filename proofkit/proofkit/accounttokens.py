"""Tokens of ServiceAccounts as a Kubernetes cluster signs them, and its public keys; for tests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

AUDIENCE = "kraftquorum"
ISSUER = "https://kubernetes.default.svc.cluster.local"


class AccountIssuer:
    """Signs as one API server does, with a key of its own.

    Args:
        key_id: of the key.
    """

    def __init__(self, key_id: str = "1") -> None:
        self._key_id = key_id
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def entry(self) -> dict[str, Any]:
        """The public key, as the cluster's key set lists it."""
        public: dict[str, Any] = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {**public, "kid": self._key_id, "use": "sig", "alg": "RS256"}

    def token(self, namespace: str = "shop", name: str = "app", **changed: Any) -> str:
        """Sign a token for ten minutes.

        Args:
            namespace: of the ServiceAccount.
            name: of the ServiceAccount.
            changed: claims instead of the usual ones; None leaves one out.
        """
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": [AUDIENCE],
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "iat": now,
            "nbf": now,
            "exp": now + 600,
            **changed,
        }
        kept = {claim: value for claim, value in claims.items() if value is not None}
        return jwt.encode(kept, self._key, algorithm="RS256", headers={"kid": self._key_id})


def write_keys(path: Path, *issuers: AccountIssuer) -> None:
    """Write the key set of a cluster that accepts these keys."""
    path.write_text(json.dumps({"keys": [issuer.entry for issuer in issuers]}))
