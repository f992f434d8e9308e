"""Groups of flags: Typer reads each field as a flag, and the command receives whole groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kraftquorum_pipeline.commands.flags import LogFlags, SparkFlags
from kraftquorum_pipeline.errors import OptionError
from raftnode.credential_flags import CredentialFlags
from raftnode.flag_groups import with_flag_groups


def invoke(*arguments: str, env: dict[str, str] | None = None) -> list[object]:
    """Run a command with both groups; return what it received."""
    received: list[object] = []

    @with_flag_groups
    def command(
        output: Annotated[str, typer.Argument()],
        *,
        log: LogFlags,
        as_json: Annotated[bool, typer.Option("--json")] = False,
        spark: SparkFlags,
    ) -> None:
        received.extend((output, log, as_json, spark))

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments), env=env)
    assert result.exit_code == 0, result.output
    return received


def test_a_command_receives_its_groups_with_the_flags_that_were_given():
    output, log, as_json, spark = invoke(
        "out", "--path", "data", "-o", "a=1", "-o", "b=2", "--json", "--conf", "c=3"
    )
    assert (output, as_json) == ("out", True)
    assert isinstance(log, LogFlags)
    assert isinstance(spark, SparkFlags)
    assert (str(log.path), log.bootstrap_server, log.option) == ("data", None, ["a=1", "b=2"])
    assert (spark.master, spark.settings()) == (None, {"c": "3"})


def test_a_command_without_flags_receives_the_defaults():
    assert invoke("out") == ["out", LogFlags(), False, SparkFlags()]


def test_the_environment_names_the_servers():
    log = invoke("out", env={"RAFTNODE_BOOTSTRAP_SERVER": "a:1"})[1]
    assert log == LogFlags(bootstrap_server="a:1")


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (LogFlags(bootstrap_server="a:1"), {"bootstrapServers": "a:1"}),
        (LogFlags(bootstrap_server="a:1", option=["path=/d"]), {"path": "/d"}),
        (LogFlags(option=["bootstrapServers=b:2"]), {"bootstrapServers": "b:2"}),
    ],
)
def test_the_flags_of_a_log_become_options_of_the_data_source(
    flags: LogFlags, options: dict[str, str]
):
    assert flags.options() == options


@pytest.mark.parametrize(
    ("flags", "reason"),
    [(LogFlags(), "no log is given"), (LogFlags(option=["x"]), "expected NAME=VALUE")],
)
def test_flags_that_name_no_log_are_refused(flags: LogFlags, reason: str):
    with pytest.raises(OptionError, match=reason):
        flags.options()


NODES = LogFlags(
    bootstrap_server="https://a:1",
    credentials=CredentialFlags(
        ca_file=Path("/ca"),
        certificate_file=Path("/crt"),
        key_file=Path("/key"),
        token_file=Path("/token"),
        server_name="demo",
        plaintext_token=True,
        cluster_id="Demo",
    ),
)


def test_the_flags_of_credentials_become_options_of_nodes_and_not_of_files():
    assert NODES.options() == {
        "bootstrapServers": "https://a:1",
        "caFile": "/ca",
        "certificateFile": "/crt",
        "keyFile": "/key",
        "tokenFile": "/token",
        "serverName": "demo",
        "plaintextToken": "true",
        "clusterId": "Demo",
    }
    assert replace(NODES, path=Path("/data")).options() == {"path": "/data"}
    given = replace(NODES, option=["caFile=/other"]).options()
    assert given["caFile"] == "/other", "an option wins over a flag"


def test_the_environment_names_the_credentials():
    log = invoke("out", env={"RAFTNODE_CLIENT_TOKEN_FILE": "/token"})[1]
    assert log == LogFlags(credentials=CredentialFlags(token_file=Path("/token")))
