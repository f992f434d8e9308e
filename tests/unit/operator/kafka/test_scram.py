"""SCRAM against the example of RFC 7677, and against servers that lie."""

from __future__ import annotations

import pytest

from kraftquorum_operator.kafka.errors import KafkaAuthenticationError
from kraftquorum_operator.kafka.scram import ScramClient

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_the_rfc() -> None:
    scram = client()
    assert scram.first() == b"n,,n=user,r=" + NONCE.encode()
    assert scram.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.verify(SERVER_FINAL)


def test_a_name_is_escaped() -> None:
    scram = ScramClient("SCRAM-SHA-512", "a,b=c", "word", NONCE)
    assert scram.first().startswith(b"n,,n=a=2Cb=3Dc,")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"r=another,s=AAAA,i=4096", "does not continue"),
        (b"r=" + NONCE.encode() + b",s=AAAA,i=4096", "does not continue"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "asks for 1 iterations: 4096 to 1000000"),
        (SERVER_FIRST.replace(b"i=4096", b"i=99999999999"), "4096 to 1000000"),
        (SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s=%"), "salt is missing"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_server_that_asks_for_nonsense_is_refused(message: bytes, text: str) -> None:
    with pytest.raises(KafkaAuthenticationError, match=text):
        client().final(message)


@pytest.mark.without(
    "kraftquorum_operator.kafka.scram:ScramClient.verify",
    "if not self._signature or not hmac.compare_digest(signature, self._signature):",
    "if False:",
)
def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    scram = client()
    scram.final(SERVER_FIRST)
    with pytest.raises(KafkaAuthenticationError, match="could not prove"):
        scram.verify(b"v=" + b"A" * 43 + b"=")


def test_a_refusal_is_reported() -> None:
    scram = client()
    scram.final(SERVER_FIRST)
    with pytest.raises(KafkaAuthenticationError, match="invalid-proof"):
        scram.verify(b"e=invalid-proof")
