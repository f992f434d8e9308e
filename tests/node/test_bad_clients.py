"""Every row of the table of wrong bytes, against the port of a real node."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from proofkit.badrequests import CUT_OFF
from proofkit.badrequests.batches import SOUND, wrong_batches
from proofkit.badrequests.clients import WrongBytes, wrong_bytes
from proofkit.localquorum import LocalQuorum
from raftnode.api.errors import ERRORS
from raftnode.client.session import NodeSession
from raftnode.core.types import Endpoint
from raftnode.session import answers
from raftnode.session.answers import AnswerKind
from raftnode.session.operations import Kind

pytestmark = pytest.mark.timeout(120)

PATIENCE_S = 20.0


async def answer_of(to: Endpoint, row: WrongBytes) -> str:
    """What the node says: the name of the error, or CUT_OFF."""
    reader, writer = await asyncio.open_connection(to.host, to.port)
    try:
        writer.write(row.sent)
        async with asyncio.timeout(PATIENCE_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (EOFError, ConnectionError):
                return CUT_OFF
            length = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            error = json.loads(await reader.readexactly(length))["error"]
        assert int(head.split(b" ")[1]) == ERRORS[error].status
        return error
    finally:
        writer.transport.abort()


@pytest.mark.quorum_settings(
    RAFTNODE_API_HEAD_TIMEOUT_MS="1000", RAFTNODE_API_BODY_TIMEOUT_MS="1000"
)
async def test_clients_bytes_with_one_thing_wrong(quorum: LocalQuorum) -> None:
    await quorum.form(1)
    node = quorum.nodes[0]
    rows = wrong_bytes()
    before = await quorum.info(node)
    said = await asyncio.gather(*(answer_of(node.api, row) for row in rows))
    misses = [
        f"{row}: {answer}, not {row.answer}"
        for row, answer in zip(rows, said, strict=True)
        if answer != row.answer
    ]
    assert not misses, "\n".join(misses)
    after = await quorum.info(node)
    assert (after.epoch, after.log_end_offset) == (before.epoch, before.log_end_offset)
    await quorum.client.put("still", b"there")


async def test_finished_batches_with_one_thing_wrong(quorum: LocalQuorum) -> None:
    await quorum.form(1)
    node = quorum.nodes[0]
    before = await quorum.info(node)
    misses: list[str] = []
    async with aiohttp.ClientSession() as http:
        session = await NodeSession.open(http, node.api, timeout_s=PATIENCE_S)
        try:
            for row in wrong_batches():
                answer = await session.ask(Kind.APPEND_BATCH, row.data, PATIENCE_S)
                assert answer.kind == AnswerKind.REFUSED, row
                error = json.loads(answers.decode_refusal(answer.body).error)
                if error["error"] != "INVALID_REQUEST" or row.reason not in error["message"]:
                    misses.append(f"{row}: {error}, not {row.reason}")
            assert not misses, "\n".join(misses)
            assert (await quorum.info(node)).log_end_offset == before.log_end_offset
            answer = await session.ask(Kind.APPEND_BATCH, SOUND, PATIENCE_S)
            assert answer.kind == AnswerKind.WRITTEN, "the session goes on"
        finally:
            await session.close()
