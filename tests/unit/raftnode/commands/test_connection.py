"""What a command that asks a quorum ends with."""

from __future__ import annotations

import pytest
import typer

from raftnode.api.model import ApiError
from raftnode.client import (
    ClientError,
    NotDoneError,
    OutcomeUnknownError,
    QuorumClient,
    RefusedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from raftnode.commands.connection import Connection, ask
from raftnode.commands.output import CommandExitCode
from raftnode.core.types import Endpoint
from raftnode.errors import ExitCode

AT = Endpoint("a", 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            RefusedError(
                ApiError(error="LAST_VOTER", message="m", outcome="not_done"),
                status=409,
                endpoint=AT,
            ),
            CommandExitCode.REFUSED,
        ),
        (UnavailableError("GET /v1/node", {}), CommandExitCode.UNAVAILABLE),
        (NotDoneError("no"), CommandExitCode.UNAVAILABLE),
        (OutcomeUnknownError("the write", "cut", endpoint=AT), CommandExitCode.OUTCOME_UNKNOWN),
        (UnexpectedAnswerError("what"), ExitCode.UNEXPECTED),
        (ClientError("other"), ExitCode.UNEXPECTED),
    ],
)
def test_each_failure_has_its_code_and_one_line(
    error: ClientError, code: int, capsys: pytest.CaptureFixture[str]
):
    async def work(client: QuorumClient) -> None:
        raise error

    with pytest.raises(typer.Exit) as caught:
        ask(Connection("a:1", timeout_ms=100), work)
    assert caught.value.exit_code == code
    assert capsys.readouterr().err == f"raftnode: {error}\n"


@pytest.mark.parametrize("servers", ["", " , ", "a", "a:0", "a:x", "a:1,b"])
def test_servers_that_are_none_are_a_fault_of_usage(
    servers: str, capsys: pytest.CaptureFixture[str]
):
    async def work(client: QuorumClient) -> None:
        raise AssertionError("no node can be asked")

    with pytest.raises(typer.Exit) as caught:
        ask(Connection(servers, timeout_ms=100), work)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--bootstrap-server" in capsys.readouterr().err


def test_what_the_work_gives_is_given():
    async def work(client: QuorumClient) -> int:
        assert isinstance(client, QuorumClient)
        return 7

    assert ask(Connection(" a:1, b:2 ,", timeout_ms=100), work) == 7
