"""The option --version, as the programs have it."""

from importlib.metadata import version

import typer
from typer.testing import CliRunner

from raftnode.program_version import version_line, version_option


def make_app():
    app = typer.Typer()
    app.callback()(version_option("some-program"))
    app.command("work")(lambda: typer.echo("worked"))
    return app


def test_version_is_printed_with_the_programs_name_and_nothing_else_is_done():
    done = CliRunner().invoke(make_app(), ["--version", "work"])
    assert (done.exit_code, done.stdout) == (0, f"some-program {version('kraftquorum')}\n")
    assert done.stdout.strip() == version_line("some-program")


def test_without_it_the_command_runs():
    done = CliRunner().invoke(make_app(), ["work"])
    assert (done.exit_code, done.stdout) == (0, "worked\n")
