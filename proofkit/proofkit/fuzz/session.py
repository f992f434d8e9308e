"""Targets: what a client and a node send each other through a session."""

from __future__ import annotations

from typing import assert_never

from proofkit.fuzz.target import Target, same
from raftnode.errors import DecodeError
from raftnode.logformat import encode_keyless_batch
from raftnode.session import answers, operations
from raftnode.session.answers import (
    AnswerKind,
    FoundValue,
    Greeting,
    LogRecord,
    Records,
    Refusal,
    Written,
)
from raftnode.session.operations import Kind

BODIES: dict[Kind, bytes] = {
    Kind.PUT: operations.put_body(b"key", b"value"),
    Kind.DELETE: b"key",
    Kind.GET: operations.get_body(b"key", linearizable=True),
    Kind.APPEND: operations.append_body([b"one", b"", b"three"]),
    Kind.READ: operations.read_body(7, 1 << 20, 500),
    Kind.APPEND_BATCH: encode_keyless_batch([b"one", b"", b"three"], 0),
}
OPERATIONS = operations.encode_message(
    [
        part
        for number, (kind, body) in enumerate(BODIES.items())
        for part in (operations.encode_head(number, 5000, kind, body), body)
    ]
)

RECORDS = Records(
    (
        LogRecord(True, 7, 2, 1_700_000_000_000, None, b'{"control":"X","fields":{}}'),
        LogRecord(False, 8, 2, 1_700_000_000_000, b"key", None),
        LogRecord(False, 9, 2, 1_700_000_000_000, None, b"value"),
    ),
    10,
    12,
    0,
)
VALUE = FoundValue(8, 2, 10, b"value")
ANSWERS = answers.encode_message(
    [
        answers.encode_written(1, Written(7, 9, 2)),
        answers.encode_value_head(2, VALUE),
        VALUE.value,
        answers.encode_no_value(3, 10),
        answers.encode_records(4, RECORDS),
        answers.encode_refusal(5, Refusal(421, b'{"error":"NOT_LEADER"}')),
    ]
)


def session_operations(data: bytes) -> None:
    """Decode a message of operations and each body; all must come back as it was."""
    decoded = operations.decode_message(data)
    parts: list[bytes] = []
    for operation in decoded:
        parts += (operations.encode_head(*operation[:3], operation.body), operation.body)
    same(data, operations.encode_message(parts))
    for operation in decoded:
        if operation.kind in BODIES:
            operation_body(Kind(operation.kind), operation.body)


def operation_body(kind: Kind, body: bytes) -> None:
    """Decode a body; it must come back as it was."""
    match kind:
        case Kind.PUT:
            same(body, operations.put_body(*operations.decode_put(body)))
        case Kind.GET:
            get = operations.decode_get(body)
            same(body, operations.get_body(get.key, linearizable=get.linearizable))
        case Kind.APPEND:
            same(body, operations.append_body(operations.decode_append(body, 100)))
        case Kind.READ:
            same(body, operations.read_body(*operations.decode_read(body)))
        case Kind.DELETE | Kind.APPEND_BATCH:
            pass  # the key itself; `batch-finished` has the batch
        case _:
            assert_never(kind)


def session_answers(data: bytes) -> None:
    """Decode a message of answers and each body; all must come back as it was."""
    for answer in answers.decode_message(data):
        number, body = answer.operation_id, answer.body
        match answer.kind:
            case AnswerKind.WRITTEN:
                again = answers.encode_written(number, answers.decode_written(body))
            case AnswerKind.VALUE:
                value = answers.decode_value(body)
                again = answers.encode_value_head(number, value) + value.value
            case AnswerKind.NO_VALUE:
                again = answers.encode_no_value(number, answers.decode_no_value(body))
            case AnswerKind.REFUSED:
                again = answers.encode_refusal(number, answers.decode_refusal(body))
            case AnswerKind.RECORDS:
                records = answers.decode_records(body)
                again = answers.encode_records(number, records)
                # A null length may be any negative number, and a flag any but zero.
                (rest,) = answers.decode_message(answers.encode_message([again]))
                same(records, answers.decode_records(rest.body))
                continue
            case _:
                continue
        (rest,) = answers.decode_message(answers.encode_message([again]))
        same(answer, rest)


def greeting(data: bytes) -> None:
    """Decode a greeting; what a later version adds to its end is left out."""
    decoded = answers.decode_greeting(data)
    # An older version ends before the smallest batch.
    same(data[:13], answers.encode_greeting(decoded)[:13])
    same(decoded, answers.decode_greeting(answers.encode_greeting(decoded)))


TARGETS = (
    Target(
        "session-operations",
        session_operations,
        (DecodeError,),
        (OPERATIONS,),
        (
            "session.operations.decode_message",
            "session.operations.decode_put",
            "session.operations.decode_get",
            "session.operations.decode_append",
            "session.operations.decode_read",
        ),
    ),
    Target(
        "session-answers",
        session_answers,
        (DecodeError,),
        (ANSWERS,),
        (
            "session.answers.decode_message",
            "session.answers.decode_written",
            "session.answers.decode_value",
            "session.answers.decode_no_value",
            "session.answers.decode_records",
            "session.answers.decode_refusal",
        ),
    ),
    Target(
        "session-greeting",
        greeting,
        (DecodeError,),
        (
            answers.encode_greeting(Greeting(4 << 20, 1 << 20, 1 << 20, 64 << 10)),
            answers.encode_greeting(Greeting(4 << 20, 1 << 20, 1 << 20))[:13],
        ),
        ("session.answers.decode_greeting",),
    ),
)
