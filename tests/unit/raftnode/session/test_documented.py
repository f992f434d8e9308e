"""The examples of the reference, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

from raftnode.api import session as session_module
from raftnode.api import session_route
from raftnode.limits.model import ClientLimits
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import AnswerKind, Written
from raftnode.session.operations import OPERATION_COST_BYTES, Kind

PAGE = (Path(__file__).resolve().parents[4] / "docs/reference/session-protocol.md").read_text()


def examples() -> list[bytes]:
    return [bytes.fromhex(text) for text in re.findall(r"```\n([0-9a-f ]+)\n```", PAGE)]


def test_the_examples_are_what_the_program_sends():
    put, written = examples()
    body = operations.put_body(b"k", b"v")
    head = operations.encode_head(7, 5000, Kind.PUT, body)
    assert operations.encode_message([head, body]) == put
    assert answers.encode_message([answers.encode_written(7, Written(9, 9, 2))]) == written


def test_the_page_names_every_kind_and_limit():
    for kind in Kind:
        assert f"| {kind.value} | {kind.name} |" in PAGE
    for kind in AnswerKind:
        assert re.search(rf"^\| {kind.value} \| {kind.name}\b", PAGE, re.MULTILINE), kind
    for text in (
        PATH,
        SUBPROTOCOL,
        f"plus {OPERATION_COST_BYTES} bytes",
        f"beyond {ClientLimits().sessions_max:,} sessions",
        f"while {session_module.ANSWERS_BYTES_MAX >> 20} MiB of answers",
        f"for {session_module.UNREAD_S:g} seconds",
        f"pings for {session_route.HEARTBEAT_S / 2:g} seconds",
        f"1 to {session_module.RECORDS_MAX:,}",
        f"1 to {session_module.TIMEOUT_MS_MAX:,}",
    ):
        assert text in PAGE, text
