"""What is encoded comes back, and what is cut anywhere is refused (the fuzzer tries the rest)."""

from __future__ import annotations

import pytest

from proofkit.fuzz.session import ANSWERS, BODIES, OPERATIONS, RECORDS
from raftnode.errors import DecodeError
from raftnode.session import answers, operations
from raftnode.session.operations import OPERATION_COST_BYTES, Kind


def test_operations_come_back_as_they_were():
    decoded = operations.decode_message(OPERATIONS)
    assert [(op.operation_id, op.timeout_ms, op.kind, op.body) for op in decoded] == [
        (number, 5000, kind, body) for number, (kind, body) in enumerate(BODIES.items())
    ]
    assert sum(op.cost_bytes for op in decoded) == (
        len(OPERATIONS) - 1 + OPERATION_COST_BYTES * len(BODIES)
    )


@pytest.mark.parametrize("size", range(1, len(OPERATIONS)))
def test_operations_that_are_cut_are_refused_or_whole(size: int):
    try:
        decoded = operations.decode_message(OPERATIONS[:size])
    except DecodeError:
        return
    assert decoded == operations.decode_message(OPERATIONS)[: len(decoded)]
    assert sum(op.cost_bytes - OPERATION_COST_BYTES for op in decoded) == size - 1


@pytest.mark.parametrize("size", range(1, len(ANSWERS)))
def test_answers_that_are_cut_are_refused_or_whole(size: int):
    try:
        decoded = answers.decode_message(ANSWERS[:size])
    except DecodeError:
        return
    assert decoded == answers.decode_message(ANSWERS)[: len(decoded)]


def test_records_come_back_as_they_were():
    (answer,) = answers.decode_message(answers.encode_message([answers.encode_records(4, RECORDS)]))
    assert answers.decode_records(answer.body) == RECORDS
    for size in range(len(answer.body)):
        with pytest.raises(DecodeError):
            answers.decode_records(answer.body[:size])


def test_a_key_may_have_any_bytes_and_a_value_may_be_empty():
    for key, value in ((b"\x00\xff", b""), (b"k" * 1024, bytes(1 << 20))):
        assert operations.decode_put(operations.put_body(key, value)) == (key, value)
    assert operations.decode_get(operations.get_body(b"", linearizable=False)) == (False, b"")
    assert operations.decode_append(operations.append_body([b""]), 1) == [b""]
    with pytest.raises(DecodeError, match="2 records; expected 1 to 1"):
        operations.decode_append(operations.append_body([b"", b""]), 1)


@pytest.mark.without(
    "session.answers:decode_greeting", "if len(data) >= _GREETING.size + _BATCH_MIN.size", "if 0"
)
def test_the_greeting_of_an_older_node_has_no_smallest_batch():
    greeting = answers.Greeting(4, 3, 2, 1)
    data = answers.encode_greeting(greeting)
    assert answers.decode_greeting(data) == answers.decode_greeting(data + b"later") == greeting
    for cut in range(1, 5):
        assert answers.decode_greeting(data[:-cut]) == answers.Greeting(4, 3, 2, 0)
    with pytest.raises(DecodeError):
        answers.decode_greeting(data[:-5])


def test_kinds_are_the_documented_numbers():
    assert [kind.value for kind in Kind] == [1, 2, 3, 4, 5, 6]
