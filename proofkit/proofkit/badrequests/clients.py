"""The faults of a client's requests in their outer form, and the answer to each.

Each row is bytes for a node's API port, as a client sends them that is broken or hostile. Faults
inside a body are the concern of the routes.
"""

from __future__ import annotations

from dataclasses import dataclass

from proofkit.badrequests.request_faults import CUT_OFF
from raftnode.api.client_connection import HEAD_LINE_MAX_BYTES, HEADERS_MAX

_HOST = b"Host: node\r\n"
_LONG = b"a" * (HEAD_LINE_MAX_BYTES + 1)
_JSON = b"Content-Type: application/json\r\n"


@dataclass(frozen=True, slots=True)
class WrongBytes:
    """One row.

    Attributes:
        what: the fault.
        sent: all that the client sends; then it waits.
        answer: the name of an error, or CUT_OFF: the connection ends without an answer.
    """

    what: str
    sent: bytes
    answer: str

    def __str__(self) -> str:
        return self.what


def wrong_bytes() -> tuple[WrongBytes, ...]:
    """Return the table; the record limit of the node is its default, 1 MiB."""
    put = b"PUT /v1/kv/key HTTP/1.1\r\n" + _HOST
    post = b"POST /v1/log HTTP/1.1\r\n" + _HOST + _JSON
    many = b"".join(b"X-%d: 1\r\n" % number for number in range(HEADERS_MAX))
    large = b"Content-Length: %d\r\n\r\n"
    chunks = (b"10000\r\n" + bytes(1 << 16) + b"\r\n") * 17
    rows = (
        ("nothing is sent", b"", CUT_OFF),
        ("not HTTP", b"\x16\x03\x01 hello\r\n\r\n", "INVALID_REQUEST"),
        ("a head that does not end", put + b"X-More: ", CUT_OFF),
        (
            "a request line above the limit",
            b"GET /v1/kv/" + _LONG + b" HTTP/1.1\r\n" + _HOST + b"\r\n",
            "HEAD_TOO_LARGE",
        ),
        (
            "a header above the limit",
            put + b"X-Long: " + _LONG + b"\r\nContent-Length: 0\r\n\r\n",
            "HEAD_TOO_LARGE",
        ),
        (
            "more headers than the limit",
            put + many + b"Content-Length: 0\r\n\r\n",
            "HEAD_TOO_LARGE",
        ),
        (
            "two lengths",
            put + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "INVALID_REQUEST",
        ),
        (
            "a length and chunks",
            put + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "INVALID_REQUEST",
        ),
        ("a negative length", put + b"Content-Length: -1\r\n\r\n", "INVALID_REQUEST"),
        ("a body that does not end", put + b"Content-Length: 10\r\n\r\nabc", "BODY_TIMEOUT"),
        ("a chunk that does not end", put + _CHUNKED + b"5\r\nabc", "BODY_TIMEOUT"),
        ("a value above the limit", put + large % ((1 << 20) + 1), "RECORD_TOO_LARGE"),
        ("chunks above the limit", put + _CHUNKED + chunks + b"0\r\n\r\n", "RECORD_TOO_LARGE"),
        ("a body above the limit", post + large % (1 << 30), "BODY_TOO_LARGE"),
        (
            "a session without its protocol",
            b"GET /v1/session HTTP/1.1\r\n" + _HOST + b"\r\n",
            "INVALID_REQUEST",
        ),
    )
    return tuple(WrongBytes(*row) for row in rows)


_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
