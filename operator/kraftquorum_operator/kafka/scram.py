"""The client's side of SCRAM (RFC 5802) as a pure state machine, without channel binding.

The server must prove that it knows the password's key: a listener that only pretends is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.errors import KafkaAuthenticationError

DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

ITERATIONS_MIN: Final = 4096
"""Kafka's and the RFC's least."""

ITERATIONS_MAX: Final = 1_000_000
"""About a second of work: a listener cannot keep this process busy for longer."""


@dataclass(slots=True)
class ScramClient:
    """One authentication.

    Attributes:
        mechanism: a key of DIGESTS.
        user: the name.
        password: the secret; it is never sent.
        nonce: random, printable and without a comma.
    """

    mechanism: str
    user: str
    password: str
    nonce: str
    _signature: bytes = b""

    def first(self) -> bytes:
        """The client's first message."""
        return f"n,,{self._bare()}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Answer the server's first message with the proof.

        Raises:
            KafkaAuthenticationError: the message is malformed or asks for too little or too much.
        """
        fields = self._fields(server_first)
        nonce, salt = fields.get("r", ""), self._base64(fields.get("s", ""), "salt")
        if not nonce.startswith(self.nonce) or nonce == self.nonce:
            raise self._error("its nonce does not continue ours")
        iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise self._error(
                f"it asks for {fields.get('i', 'no')!s:.20} iterations: "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
            )
        digest = DIGESTS[self.mechanism]
        salted = hashlib.pbkdf2_hmac(digest, self.password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._bare()},{server_first.decode()},{without_proof}".encode()
        proof = bytes(
            a ^ b for a, b in zip(client_key, hmac.digest(stored_key, signed, digest), strict=True)
        )
        server_key = hmac.digest(salted, b"Server Key", digest)
        self._signature = hmac.digest(server_key, signed, digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check the server's last message.

        Raises:
            KafkaAuthenticationError: the server refused, or does not know the password's key.
        """
        fields = self._fields(server_final)
        if "e" in fields:
            raise self._error(f"it refused: {fields['e'][:200]}")
        signature = self._base64(fields.get("v", ""), "signature")
        if not self._signature or not hmac.compare_digest(signature, self._signature):
            raise self._error("it could not prove that it knows the password")

    def _bare(self) -> str:
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self.nonce}"

    def _fields(self, message: bytes) -> dict[str, str]:
        try:
            parts = message.decode().split(",")
        except UnicodeDecodeError:
            raise self._error("its message is not UTF-8") from None
        return {part[:1]: part[2:] for part in parts if part[1:2] == "="}

    def _base64(self, text: str, what: str) -> bytes:
        try:
            value = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            value = b""
        if not value:
            raise self._error(f"its {what} is missing or not base64")
        return value

    def _error(self, problem: str) -> KafkaAuthenticationError:
        return KafkaAuthenticationError(f"{self.mechanism} with the listener failed: {problem}")
